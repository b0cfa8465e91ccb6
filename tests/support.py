"""Helpers of several tests: frameworks, specs, and runs in this process."""

import configparser
import importlib.util
import tomllib
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import read_recipe
from parallax.harness.contract.run_spec import RUN_DEFAULTS, make_run_spec
from parallax.harness.record.folder import RunFolder
from parallax.harness.record.lock import RunLock
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_run
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.run import execute_run

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAMES = sorted(PROJECT["entry-points"]["parallax.adapters"])
"""Frameworks with an adapter in this project."""


ENVS = {"continuous": "InvertedPendulum-v4", "discrete": "CartPole-v1"}


def load_file(path):
    """Execute a Python file that is in no package, and return it as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def frameworks(*names, quick=None):
    """Parameters for tests: the frameworks named, or all; skipped where they are not installed.

    If some are quick, the others wait for the long run.
    """
    params = []
    for name in names or NAMES:
        try:
            load_adapter(name).check_installed()
            marks = () if quick is None or name in quick else pytest.mark.long
        except SpecError as error:
            marks = pytest.mark.skip(reason=str(error))
        params.append(pytest.param(name, marks=marks))
    return params


def supported(algorithm):
    """Names of the frameworks of this project that have an algorithm."""
    return [name for name in NAMES if load_adapter(name).supports(algorithm)]


def algorithms_of(framework):
    """Names of the algorithms that a framework has."""
    return [name for name in ALGORITHMS if load_adapter(framework).supports(name)]


def pairs():
    """Parameters for tests: each framework with each algorithm that it has."""
    return [
        pytest.param(*param.values, algorithm, marks=param.marks)
        for algorithm in ALGORITHMS
        for param in frameworks(*supported(algorithm))
    ]


def register(folder, groups):
    """Registers entry points for who has `folder` on the module path, as an installation would."""
    info = folder / "parallax_drl-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parallax-drl\nVersion: 0.1.0\n")
    parser = configparser.ConfigParser()
    parser.optionxform = str
    parser.read_dict(groups)
    with (info / "entry_points.txt").open("w") as file:
        parser.write(file)


def install(requirements, folder):
    """Writes packages of one empty module each, as an installer would."""
    for requirement in requirements:
        name, _, version = requirement.partition("==")
        module = f"{name}-{version}.py"  # nothing imports it
        (folder / module).touch()
        info = folder / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "RECORD").write_text(f"{module},,\n../../bin/{module},,\n")


def spec(framework="sb3", algorithm="ppo", hps=None, hyperparameters=None, **changes):
    hps = hps or framework
    recipe = read_recipe(algorithm, hps)
    values = RUN_DEFAULTS | {
        "study": "test",
        "framework": framework,
        "algorithm": algorithm,
        "env": ENVS[ALGORITHMS[algorithm].actions],
        "hps": hps,
        "seed": 0,
        "steps": 600,
        "eval_every": 300,
        "eval_episodes": 2,
    }
    values = values | changes
    requested = recipe | (hyperparameters or {})
    return make_run_spec(values, shorten_warm_up(requested, values["steps"]), recipe)


def shorten_warm_up(requested, steps):
    """The hyperparameters, with values for which learning begins within so few steps."""
    if requested.get("learning_starts", 0) >= steps:
        return requested | {"learning_starts": steps // 2}
    if (rollout := requested.get("rollout_steps", 0)) > steps:
        minibatch = min(requested["minibatch_size"], steps)
        rollout = steps - steps % minibatch
        return requested | {"rollout_steps": rollout, "minibatch_size": minibatch}
    return requested


def run(a_spec, results_dir):
    """Executes a run in this process; returns its folder and the content of run.json."""
    prepared = prepare_run(a_spec, load_adapter(a_spec.framework))
    folder = a_spec.folder(results_dir)
    initialize_run(prepared, folder)
    with RunLock.acquire(folder) as run_lock:
        execute_run(prepared, load_adapter(a_spec.framework), RunFolder(run_lock))
    return folder, read_run(folder).content


def as_torch_sees(env):
    """A game of MinAtar as float32[channels, height, width], written without this project."""
    height, width, channels = env.observation_space.shape
    space = gymnasium.spaces.Box(0.0, 1.0, (channels, height, width), np.float32)
    return gymnasium.wrappers.TransformObservation(
        env, lambda seen: seen.transpose(2, 0, 1).astype(np.float32), space
    )
