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
    "parallax.harness.record": set(),
    "parallax.harness.contract": {"parallax.envs.tasks", "parallax.harness.record.layout"},
    "parallax.harness.replay": {"parallax.harness.contract"},
    "parallax.harness.diagnosis": {"parallax.harness.contract", "parallax.harness.formulas"},
    "parallax.harness.interventions": {"parallax.harness.contract"},
    "parallax.harness.train": {
        *(
            "envs",
            "parallax.harness.contract",
            "parallax.harness.record",
            "parallax.harness.diagnosis",
        ),
        "parallax.harness.interventions",
    },
    "parallax.harness.sweep": {
        "parallax.harness.contract",
        "parallax.harness.record",
        "parallax.harness.train",
    },
    "parallax.harness.worker": {
        "parallax.harness.contract",
        "parallax.harness.record",
        "parallax.harness.train",
    },
    "parallax.harness.forkserver": {
        "parallax.harness.contract",
        "parallax.harness.train",
        "parallax.harness.worker",
    },
    "parallax.harness.probes": {
        *(
            "parallax.envs.tasks",
            "parallax.harness.contract",
            "parallax.harness.record",
            "parallax.harness.contract.fields",
        ),
        "parallax.harness.interventions",
    },
    "parallax.harness.policies": {
        *("envs", "parallax.harness.contract", "parallax.harness.record", "parallax.harness.train"),
        *(
            "parallax.harness.sweep.run_process",
            "parallax.harness.train.trust",
            "parallax.harness.interventions",
        ),
    },
    "parallax.harness.conformance": {
        *("envs", "parallax.harness.contract", "parallax.harness.record"),
        *("parallax.harness.train", "parallax.harness.sweep"),  # runs whole runs, as a sweep does
        "parallax.harness.policies",
        "parallax.harness.probes",  # what only targets see
    },
    "parallax.harness.detection": {
        *(
            "envs",
            "parallax.harness.contract",
            "parallax.harness.record",
            "parallax.harness.interventions",
        ),
        *("parallax.harness.probes", "parallax.harness.conformance"),
    },
    "parallax.harness.cli": {
        "parallax.harness.detection",
        *(
            "parallax.envs.tasks",
            "parallax.harness.contract",
            "parallax.harness.record",
            "parallax.harness.train",
            "parallax.harness.sweep",
        ),
        *(
            "parallax.harness.policies",
            "parallax.harness.diagnosis",
            "parallax.harness.interventions",
            "parallax.harness.probes",
        ),
    },
    "harness": {"parallax.harness.cli"},
    "parallax.adapters.torch_common": {
        "parallax.harness.contract",
        "parallax.harness.probes",
        "parallax.harness.replay",
    },
    "parallax.adapters.jax_common": {"parallax.harness.contract", "parallax.harness.probes"},
    "parallax.adapters.sb3_common": {"parallax.harness.contract"},
    "parallax.adapters.sb3": {
        *(
            "parallax.adapters.torch_common",
            "parallax.harness.contract",
            "parallax.harness.probes",
            "parallax.harness.replay",
        ),
        *("parallax.adapters.sb3_common", "parallax.envs.tasks"),
    },
    "parallax.adapters.sbx": {
        *(
            "parallax.adapters.torch_common",
            "parallax.adapters.jax_common",
            "parallax.adapters.sb3_common",
        ),
        *("parallax.harness.contract", "parallax.harness.probes", "parallax.envs.tasks"),
    },
    "parallax.analysis.stats": set(),
    "parallax.analysis.data": {"parallax.harness.record"},
    "parallax.analysis.labels": {"parallax.analysis.data", "parallax.analysis.stats"},
    "parallax.analysis.escaping": {"parallax.harness.record.files"},
    "parallax.analysis.verdicts": {
        "parallax.analysis.data",
        "parallax.analysis.stats",
        "parallax.analysis.labels",
    },
    "parallax.analysis.plan": {
        *("parallax.analysis.data", "parallax.analysis.verdicts", "parallax.analysis.labels"),
        "parallax.harness.record.layout",
    },
    "parallax.analysis.tables": {
        *(
            "parallax.analysis.data",
            "parallax.analysis.stats",
            "parallax.analysis.labels",
            "parallax.analysis.verdicts",
        ),
        "parallax.analysis.escaping",
    },
    "parallax.analysis.figures": {
        *(
            "parallax.analysis.data",
            "parallax.analysis.stats",
            "parallax.analysis.labels",
            "parallax.analysis.verdicts",
        ),
        "parallax.harness.record.files",
    },
    "parallax.analysis.thesis": {
        *(
            "parallax.analysis.data",
            "parallax.analysis.stats",
            "parallax.analysis.labels",
            "parallax.analysis.verdicts",
        ),
        "parallax.analysis.escaping",
    },
    "parallax.analysis.report": {
        *(
            "parallax.analysis.data",
            "parallax.analysis.stats",
            "parallax.analysis.labels",
            "parallax.analysis.verdicts",
        ),
        *(
            "parallax.analysis.tables",
            "parallax.analysis.figures",
            "parallax.harness.record.run_json",
            "parallax.analysis.escaping",
        ),
    },
    "parallax.analysis.commands": {"analysis", "parallax.harness.record"},
    "analysis": {"parallax.analysis.commands"},
    "parallax.slurm.loopback": {"parallax.harness.contract.fields"},
    "slurm": {
        *(
            "parallax.harness.contract",
            "parallax.harness.record",
            "parallax.harness.train",
            "parallax.harness.sweep",
        ),
        *(
            "parallax.harness.contract.fields",
            "parallax.harness.train.trust",
            "parallax.harness.worker",
            "parallax.slurm.loopback",
        ),
    },
    "hydra_plugins": {
        "parallax.harness.cli",
        "parallax.harness.contract",
        "parallax.harness.sweep",
        "slurm",
    },
}
FRAMEWORKS = {
    "parallax.adapters.sb3": {"stable_baselines3"},
    "parallax.adapters.cleanrl": {"cleanrl"},
    "parallax.adapters.torchrl": {"torchrl", "tensordict"},
    "parallax.adapters.tianshou": {"tianshou"},
    "parallax.adapters.skrl": {"skrl"},
    "parallax.adapters.sbx": {"sbx", "stable_baselines3", "jax", "flax", "optax"},
}
ROOMS = dict.fromkeys(FRAMEWORKS, ROOMS["parallax.adapters.sb3"]) | ROOMS
FRAMEWORKS |= {
    "parallax.adapters.sb3_common": {"stable_baselines3"},
    "parallax.adapters.jax_common": {"jax", "flax", "optax"},
}
PACKAGES = {"torch"}.union(*FRAMEWORKS.values())
# Learns where agents fail, with a network of its own; only `parallax mutation test` loads it.
LEARNS_ITSELF = "parallax.harness.policy_tests.failure_predictor"


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
        "from parallax.harness.contract.adapter import installed_adapters, load_adapter;"
        "[load_adapter(name) for name in installed_adapters()]"
    )
    assert loaded(code, PACKAGES) == []


def test_looking_after_studies_on_a_cluster_loads_nothing_that_trains():
    assert (
        loaded(
            "import parallax.slurm.commands, parallax.slurm.status",
            {"gymnasium", "mujoco", "torch"},
        )
        == []
    )
