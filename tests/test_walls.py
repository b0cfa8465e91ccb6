"""Who may import whom: between rooms, inside rooms, and which packages nobody but an adapter."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TOPS = ("harness", "adapters", "analysis", "envs", "slurm", "hydra_plugins")

# Each room and what it may import of ours, beside itself. The order is that of the house: what
# stands further down may import what stands above it, as far as it is named.
ROOMS = {
    "envs": set(),
    "harness.record": set(),
    "harness.contract": {"envs.tasks", "harness.record.layout"},
    "harness.replay": {"harness.contract"},
    "harness.diagnosis": {"harness.contract", "harness.probes.formulas"},
    "harness.interventions": {"harness.contract"},
    "harness.train": {
        *("envs", "harness.contract", "harness.record", "harness.diagnosis"),
        "harness.interventions",
    },
    "harness.sweep": {"harness.contract", "harness.record", "harness.train"},
    "harness.worker": {"harness.contract", "harness.record", "harness.train"},
    "harness.forkserver": {"harness.contract", "harness.train", "harness.worker"},
    "harness.probes": {
        *("envs.tasks", "harness.contract", "harness.record", "harness.cli.errors"),
        "harness.interventions",
    },
    "harness.policies": {
        *("envs", "harness.contract", "harness.record", "harness.train"),
        *("harness.sweep.process", "harness.cli.trust", "harness.interventions"),
    },
    "harness.conformance": {
        *("envs", "harness.contract", "harness.record"),
        *("harness.train", "harness.sweep"),  # runs whole runs, as a sweep does
        "harness.policies",
        "harness.probes",  # what only targets see
    },
    "harness.detection": {
        *("envs", "harness.contract", "harness.record", "harness.interventions"),
        *("harness.probes", "harness.conformance"),
    },
    "harness.cli": {
        "harness.detection",
        *("envs.tasks", "harness.contract", "harness.record", "harness.train", "harness.sweep"),
        *("harness.policies", "harness.diagnosis", "harness.interventions", "harness.probes"),
    },
    "harness": {"harness.cli"},
    "adapters.torch_common": {"harness.contract", "harness.probes", "harness.replay"},
    "adapters.jax_common": {"harness.contract", "harness.probes"},
    "adapters.sb3_common": {"harness.contract"},
    "adapters.sb3": {
        *("adapters.torch_common", "harness.contract", "harness.probes", "harness.replay"),
        *("adapters.sb3_common", "envs.tasks"),
    },
    "adapters.sbx": {
        *("adapters.torch_common", "adapters.jax_common", "adapters.sb3_common"),
        *("harness.contract", "harness.probes", "envs.tasks"),
    },
    "analysis.stats": set(),
    "analysis.data": {"harness.record"},
    "analysis.words": {"analysis.data", "analysis.stats"},
    "analysis.verdicts": {"analysis.data", "analysis.stats", "analysis.words"},
    "analysis.plan": {
        *("analysis.data", "analysis.verdicts", "analysis.words"),
        "harness.record.layout",
    },
    "analysis.tables": {"analysis.data", "analysis.stats", "analysis.words", "analysis.verdicts"},
    "analysis.figures": {
        *("analysis.data", "analysis.stats", "analysis.words", "analysis.verdicts"),
        "harness.record.files",
    },
    "analysis.thesis": {"analysis.data", "analysis.stats", "analysis.words", "analysis.verdicts"},
    "analysis.report": {
        *("analysis.data", "analysis.stats", "analysis.words", "analysis.verdicts"),
        *("analysis.tables", "analysis.figures", "harness.record.run_json"),
    },
    "analysis.commands": {"analysis", "harness.record"},
    "analysis": {"analysis.commands"},
    "slurm.loopback": {"harness.contract.fields"},
    "slurm": {
        *("harness.contract", "harness.record", "harness.train", "harness.sweep"),
        *("harness.cli.errors", "harness.cli.trust", "harness.worker", "slurm.loopback"),
    },
    "hydra_plugins": {"harness.cli", "harness.contract", "harness.sweep", "slurm"},
}
FRAMEWORKS = {
    "adapters.sb3": {"stable_baselines3"},
    "adapters.cleanrl": {"cleanrl"},
    "adapters.torchrl": {"torchrl", "tensordict"},
    "adapters.tianshou": {"tianshou"},
    "adapters.skrl": {"skrl"},
    "adapters.sbx": {"sbx", "stable_baselines3", "jax", "flax", "optax"},
}
ROOMS = dict.fromkeys(FRAMEWORKS, ROOMS["adapters.sb3"]) | ROOMS
FRAMEWORKS |= {
    "adapters.sb3_common": {"stable_baselines3"},
    "adapters.jax_common": {"jax", "flax", "optax"},
}
PACKAGES = {"torch"}.union(*FRAMEWORKS.values())
# Learns where agents fail, with a network of its own; only `parallax challenge` loads it.
LEARNS_ITSELF = "harness.policies.predictor"


def modules():
    found = {}
    for top in TOPS:
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imported(module):
    """Every module that a file imports at any place, with those that it asks pytest for."""
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: write imports out in full"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else str(node.module)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            first = node.args[0] if node.args else None
            if name in ("importorskip", "import_module") and isinstance(first, ast.Constant):
                yield first.value


def is_in(module, room):
    return module == room or module.startswith(f"{room}.")


def room_of(module):
    return max((room for room in ROOMS if is_in(module, room)), key=len, default=None)


@pytest.mark.parametrize("room", ROOMS)
def test_room_imports_what_it_may(room):
    for module in (m for m in MODULES if room_of(m) == room):
        for name in imported(module):
            if name.split(".")[0] in TOPS and room_of(name) != room:
                allowed = any(is_in(name, other) for other in ROOMS[room])
                assert allowed, f"{module} imports {name}"


def test_every_module_is_in_a_room():
    # Those that hold nothing but their rooms.
    assert {m for m in MODULES if room_of(m) is None} <= {"adapters"}


def test_no_modules_import_each_other_in_a_ring():
    graph = {m: {n for n in imported(m) if n in MODULES and n != m} for m in MODULES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the ring


def test_frameworks_are_imported_by_their_adapters_only():
    for module in MODULES:
        allowed = FRAMEWORKS.get(room_of(module), set())
        if is_in(module, "adapters") or module == LEARNS_ITSELF:
            allowed = allowed | {"torch"}
        for name in imported(module):
            package = name.split(".")[0]
            assert package not in PACKAGES - allowed, f"{module} imports {name}"


def loaded(code, packages):
    code = f"import sys; {code}; print(*[m for m in {sorted(packages)} if m in sys.modules])"
    return subprocess.check_output([sys.executable, "-c", code], text=True).split()


def test_looking_for_adapters_imports_no_framework():
    code = (
        "from harness.contract.adapter import installed_adapters, load_adapter;"
        "[load_adapter(name) for name in installed_adapters()]"
    )
    assert loaded(code, PACKAGES) == []


def test_looking_after_studies_on_a_cluster_loads_nothing_that_trains():
    assert loaded("import slurm.__main__, slurm.status", {"gymnasium", "mujoco", "torch"}) == []
