"""Who may import whom."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OURS = {"harness", "adapters", "analysis", "envs", "slurm", "hydra_plugins"}
PACKAGES = {
    "sb3": {"stable_baselines3"},
    "cleanrl": {"cleanrl"},
    "torchrl": {"torchrl", "tensordict"},
    "tianshou": {"tianshou"},
}
FRAMEWORKS = {"torch"}.union(*PACKAGES.values())
ADAPTERS = sorted(path.parent.name for path in (ROOT / "adapters").glob("*/__init__.py"))
FORBIDDEN = {
    "analysis": (OURS - {"analysis"}) | FRAMEWORKS,
    "envs": (OURS - {"envs"}) | FRAMEWORKS,
    "harness": {"adapters", "analysis", "slurm"} | FRAMEWORKS,
    "harness/record": OURS | FRAMEWORKS | {"gymnasium", "mujoco"},
} | {
    f"adapters/{name}": {"analysis"}.union(
        {f"adapters.{other}" for other in ADAPTERS if other != name},
        *(packages for other, packages in PACKAGES.items() if other != name),
    )
    for name in ADAPTERS
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


# The run folder's own room, which everyone may look into.
DOOR = "harness.record"


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_folder_imports_nothing_beyond_its_wall(folder):
    for path in (ROOT / folder).rglob("*.py"):
        for name in imported(path):
            if folder in ("analysis", "harness/record") and f"{name}.".startswith(f"{DOOR}."):
                continue
            crossed = {f for f in FORBIDDEN[folder] if name == f or name.startswith(f + ".")}
            assert not crossed, f"{path.relative_to(ROOT)} imports {name}"


def test_looking_for_adapters_imports_no_framework():
    import subprocess
    import sys

    code = (
        "import sys; from harness.contract.adapter import installed_adapters, load_adapter;"
        "[load_adapter(name) for name in installed_adapters()];"
        f"print([m for m in {sorted(FRAMEWORKS)} if m in sys.modules])"
    )
    output = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert output.strip() == "[]"
