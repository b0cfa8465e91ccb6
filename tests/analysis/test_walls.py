import subprocess
import sys

FORBIDDEN = {
    *("harness", "adapters", "envs", "hp_configs", "slurm", "hydra_plugins"),
    *("torch", "stable_baselines3", "cleanrl", "torchrl", "tensordict", "gymnasium", "mujoco"),
}


def test_analysis_brings_in_no_other_package_of_ours_and_no_framework():
    code = (
        "import importlib, sys; from analysis.__main__ import commands\n"
        "for name in commands(): importlib.import_module(f'analysis.commands.{name}')\n"
        "print(*{m.partition('.')[0] for m in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not FORBIDDEN & set(done.stdout.split())
