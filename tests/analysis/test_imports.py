import subprocess
import sys

FRAMEWORKS = {
    *("torch", "stable_baselines3", "cleanrl", "torchrl", "tensordict", "gymnasium", "mujoco")
}


def test_analysis_imports_only_records_of_the_harness_and_no_framework():
    code = (
        "import importlib, pkgutil, sys; import parallax.analysis.commands as package\n"
        "for item in pkgutil.iter_modules(package.__path__):\n"
        "    importlib.import_module(f'parallax.analysis.commands.{item.name}')\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not FRAMEWORKS & {name.partition(".")[0] for name in loaded}
    ours = [name for name in loaded if name.startswith("parallax.")]
    allowed = ("parallax.analysis.", "parallax.harness.record.")
    packages = {"parallax.analysis", "parallax.harness", "parallax.harness.record"}
    assert ours
    assert not [name for name in ours if name not in packages and not name.startswith(allowed)]
