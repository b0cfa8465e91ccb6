import subprocess
import sys

FORBIDDEN = {
    *("adapters", "envs", "hp_configs", "slurm", "hydra_plugins"),
    *("torch", "stable_baselines3", "cleanrl", "torchrl", "tensordict", "gymnasium", "mujoco"),
}


def test_analysis_brings_in_no_other_package_of_ours_and_no_framework():
    code = (
        "import importlib, sys; from parallax.analysis.__main__ import commands\n"
        "for name in commands(): importlib.import_module(f'parallax.analysis.commands.{name}')\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not FORBIDDEN & {name.partition(".")[0] for name in loaded}
    # Of the harness, the room of run folders and nothing else.
    ours = {name for name in loaded if name.partition(".")[0] == "harness"}
    assert ours and all(
        f"{name}.".startswith("parallax.harness.record.") for name in ours - {"harness"}
    )
