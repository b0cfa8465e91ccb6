"""One importable package: no module of this project is found or shadowed under a bare name."""

import os
from pathlib import Path

import forked
import pytest

ROOT = Path(__file__).parents[1]
COMMON_NAMES = ("harness", "adapters", "analysis", "envs", "slurm", "hp_configs", "tests")
TINY = (
    *(
        "framework=cleanrl",
        "algorithm=ppo",
        "env=InvertedPendulum-v4",
        "steps=256",
        "eval_every=128",
    ),
    *("eval_episodes=2", "hyperparameters.rollout_steps=128"),
)


@pytest.fixture
def own_project(tmp_path):
    """A folder with packages that are called like our folders and must not be imported."""
    folder = tmp_path / "project"
    for name in COMMON_NAMES:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"raise ImportError('{name} is not Parallax')")
    return folder


def run(*words, cwd):
    done = forked.run_without_us(*words, cwd=cwd, env=os.environ | {"PYTHONPATH": str(ROOT)})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_training_and_report_work_with_packages_of_the_same_names(own_project):
    output = run("-m", "parallax", "train", "--multirun", *TINY, cwd=own_project)
    assert "1 run: 1 completed" in output
    run("-m", "parallax", "report", "results", "--jobs", "1", cwd=own_project)
    assert (own_project / "results/analysis/report.html").is_file()


def test_no_module_is_loaded_twice_or_under_a_bare_name():
    code = f"""
import sys, runpy
from parallax.harness.cli import main
for command in main.COMMANDS:
    __import__(command.module.partition(":")[0])
import parallax.harness.worker, parallax.slurm.launch, hydra_plugins.parallax_sweeper
files = {{}}
for name, module in list(sys.modules.items()):
    file = getattr(module, "__file__", None)
    if file and file.startswith({str(ROOT)!r}) and "site-packages" not in file:
        files.setdefault(__import__("os").path.realpath(file), []).append(name)
for file, names in files.items():
    if len(names) > 1 or names[0].partition(".")[0] not in ("parallax", "hydra_plugins"):
        print(file, names)
"""
    assert run("-c", code, cwd=ROOT) == ""
