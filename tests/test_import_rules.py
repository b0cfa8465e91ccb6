"""Import rules between packages; frameworks are imported by their adapters only."""

import ast
import functools
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from loops import iterate_some

ROOT = Path(__file__).parents[1]
FOLDERS = ("harness", "adapters", "analysis", "envs", "slurm")
H, A, N = "parallax.harness", "parallax.adapters", "parallax.analysis"

# Project packages that each package may import besides itself. A name includes all below it.
RULES = {
    "parallax.envs": set(),
    f"{H}.record": set(),
    f"{H}.contract": {"parallax.envs.tasks", f"{H}.record.layout", f"{H}.record.labels"},
    f"{H}.formulas": {f"{H}.contract"},
    f"{H}.replay": {f"{H}.contract"},
    f"{H}.imports": {f"{H}.contract", f"{H}.record"},
    f"{H}.interventions": {f"{H}.contract", f"{H}.record.old_names"},
    f"{H}.diagnosis": {f"{H}.contract", f"{H}.formulas"},
    f"{H}.train": {
        *("parallax.envs", f"{H}.contract", f"{H}.record", f"{H}.diagnosis", f"{H}.interventions")
    },
    f"{H}.sweep": {f"{H}.contract", f"{H}.record", f"{H}.train"},
    f"{H}.worker": {f"{H}.contract", f"{H}.record", f"{H}.train"},
    f"{H}.forkserver": {f"{H}.contract", f"{H}.train", f"{H}.worker"},
    f"{H}.policies": {
        *("parallax.envs", f"{H}.contract", f"{H}.record", f"{H}.train", f"{H}.interventions"),
        f"{H}.sweep.run_process",
    },
    f"{H}.policy_tests": {
        *("parallax.envs", f"{H}.contract", f"{H}.record", f"{H}.train", f"{H}.interventions"),
        *(f"{H}.policies", f"{H}.sweep.run_process"),
    },
    f"{H}.probes": {
        *("parallax.envs.tasks", f"{H}.contract", f"{H}.formulas", f"{H}.interventions"),
        f"{H}.record.labels",
    },
    f"{H}.environment_probes": {"parallax.envs", f"{H}.contract"},
    f"{H}.lockstep": {
        *("parallax.envs.tasks", f"{H}.contract", f"{H}.formulas", f"{H}.interventions"),
        f"{H}.probes",
    },
    f"{H}.versions": {
        *(f"{H}.contract", f"{H}.probes", f"{H}.interventions", f"{H}.record.labels")
    },
    f"{H}.conformance": {
        *("parallax.envs", f"{H}.contract", f"{H}.record", f"{H}.train", f"{H}.sweep"),
        *(f"{H}.policies", f"{H}.probes", f"{H}.interventions"),
    },
    f"{H}.detection": {
        *("parallax.envs", f"{H}.contract", f"{H}.record", f"{H}.interventions"),
        *(f"{H}.probes", f"{H}.conformance"),
    },
    f"{H}.cli": {H, "parallax.envs.tasks", N},
    f"{H}.conf": set(),
    f"{A}.torch_common": {f"{H}.contract", f"{H}.replay"},
    f"{A}.jax_common": {f"{H}.contract"},
    f"{A}.sb3_common": {f"{H}.contract", f"{H}.replay"},
    f"{N}.stats": set(),
    f"{N}.escaping": {f"{H}.record"},
    f"{N}.data": {f"{H}.record"},
    f"{N}.labels": {f"{N}.data", f"{N}.stats", f"{H}.record.labels", f"{H}.record.files"},
    f"{N}.verdicts": {f"{N}.data", f"{N}.stats", f"{N}.labels"},
    f"{N}.plan": {f"{N}.data", f"{N}.stats", f"{N}.labels", f"{N}.verdicts", f"{H}.record"},
    f"{N}.figures": {f"{N}.data", f"{N}.stats", f"{N}.labels", f"{N}.verdicts", f"{H}.record"},
    f"{N}.report": {
        *(f"{N}.data", f"{N}.stats", f"{N}.labels", f"{N}.verdicts", f"{N}.figures"),
        *(f"{N}.escaping", f"{H}.record"),
    },
    f"{N}.thesis": {
        *(f"{N}.data", f"{N}.stats", f"{N}.labels", f"{N}.verdicts", f"{N}.figures"),
        *(f"{N}.report", f"{N}.escaping", f"{H}.record"),
    },
    f"{N}.commands": {N, f"{H}.record"},
    "parallax.slurm": {
        *(f"{H}.contract", f"{H}.record", f"{H}.train", f"{H}.sweep", f"{H}.worker")
    },
    "hydra_plugins": {*("parallax.slurm", f"{H}.cli", f"{H}.contract", f"{H}.sweep")},
}
# The public interface and the command's table name modules of every package, and load them late.
UNRESTRICTED = {"parallax", "parallax.__main__", f"{H}.cli.main"}
FRAMEWORKS = {
    "parallax.adapters.sb3": {"stable_baselines3"},
    "parallax.adapters.cleanrl": {"cleanrl"},
    "parallax.adapters.torchrl": {"torchrl", "tensordict"},
    "parallax.adapters.tianshou": {"tianshou"},
    "parallax.adapters.skrl": {"skrl"},
    "parallax.adapters.sbx": {"sbx", "stable_baselines3", "jax", "flax", "optax"},
}
_FOR_ADAPTERS = {
    *(f"{H}.contract", f"{H}.replay", "parallax.envs.tasks"),
    *(f"{A}.torch_common", f"{A}.jax_common", f"{A}.sb3_common"),
}
RULES |= dict.fromkeys(FRAMEWORKS, _FOR_ADAPTERS)
FRAMEWORKS |= {
    "parallax.adapters.sb3_common": {"stable_baselines3"},
    "parallax.adapters.jax_common": {"jax", "flax", "optax"},
}
PACKAGES = {"torch"}.union(*FRAMEWORKS.values())
# Trains a network of its own to predict failures; only `parallax mutation test` loads it.
TORCH_USERS = {
    f"{H}.policy_tests.failure_predictor",
    f"{H}.probes.formula_changes",
    f"{H}.probes.families.changed_formulas",
    f"{H}.probes.families.action_formulas",
    f"{H}.probes.ppo.changed_formulas",
}
"""Modules besides adapters that compute with PyTorch: a network, and derivatives of formulas."""


def find_modules():
    places = [(ROOT / folder, ("parallax",)) for folder in FOLDERS]
    modules = {"parallax": ROOT / "parallax" / "__init__.py"}
    modules["parallax.__main__"] = ROOT / "parallax" / "__main__.py"
    for top, prefix in [*places, (ROOT / "hydra_plugins", ())]:
        for path in top.rglob("*.py"):
            parts = (*prefix, *path.relative_to(ROOT).with_suffix("").parts)
            modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


MODULES = find_modules()


def drop_type_imports(tree):
    """Remove `if TYPE_CHECKING:`, whose imports do not happen at run time."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = [ast.Pass()]
    return tree


@functools.cache
def list_imports(module, *, types=True):
    """Every module that a file imports at any place, with those that it requests from pytest."""
    return tuple(find_imports(module, types=types))


def find_imports(module, *, types):
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree if types else drop_type_imports(tree)):
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


def is_in(module, package):
    return module == package or module.startswith(f"{package}.")


def find_package(module):
    return max((package for package in RULES if is_in(module, package)), key=len, default=None)


@pytest.mark.parametrize("package", RULES)
def test_packages_import_allowed_packages_only(package):
    for module in iterate_some(
        m for m in MODULES if find_package(m) == package and m not in UNRESTRICTED
    ):
        for name in list_imports(module):
            # Every module imports the package `parallax` itself, which imports nothing.
            if name in MODULES and name != "parallax" and find_package(name) != package:
                allowed = any(is_in(name, other) for other in RULES[package])
                assert allowed, f"{module} imports {name}"


def test_only_plugins_import_commands():
    for module in iterate_some(set(MODULES) - UNRESTRICTED):
        if not is_in(module, f"{H}.cli") and not is_in(module, "hydra_plugins"):
            for name in list_imports(module):
                assert not is_in(name, f"{H}.cli"), f"{module} imports {name}"


def test_project_modules_are_not_imported_by_bare_names():
    for module in iterate_some(MODULES):
        for name in list_imports(module):
            assert name.partition(".")[0] not in (*FOLDERS, "hp_configs"), f"{module}: {name}"


def test_every_module_is_in_a_package_with_a_rule():
    alone = {module for module in MODULES if find_package(module) is None}
    assert alone <= {*UNRESTRICTED, H, A, N}


def test_no_modules_import_each_other():
    modules = set(MODULES) - {"parallax"}  # it imports the others only when it is used
    graph = {
        m: {n for n in list_imports(m, types=False) if n in modules and n != m} for m in modules
    }
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the cycle


def test_frameworks_are_imported_by_their_adapters_only():
    for module in MODULES:
        allowed = FRAMEWORKS.get(find_package(module), set())
        if is_in(module, A) or module in TORCH_USERS:
            allowed = allowed | {"torch"}
        for name in list_imports(module):
            package = name.split(".")[0]
            assert package not in PACKAGES - allowed, f"{module} imports {name}"


def list_loaded(code, packages):
    code = f"import sys; {code}; print(*[m for m in {sorted(packages)} if m in sys.modules])"
    return subprocess.check_output([sys.executable, "-c", code], text=True).split()


def test_listing_adapters_imports_no_framework():
    code = (
        "from parallax.harness.contract import adapter_discovery as found;"
        "[found.load_adapter(name) for name in found.find_adapter_entry_points()]"
    )
    assert list_loaded(code, PACKAGES) == []


def test_commands_of_a_cluster_load_nothing_that_trains():
    code = "import parallax.slurm.commands, parallax.slurm.status"
    assert list_loaded(code, {"gymnasium", "mujoco", "torch"}) == []
