"""Parts that the models of SB3 and sbx share: arguments, logged values, actions, files."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle
import numpy as np
import torch
from numpy.typing import NDArray
from stable_baselines3.common import utils
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.noise import NormalActionNoise, OrnsteinUhlenbeckActionNoise

from parallax.harness.contract.adapter import Monitor

METRICS = {
    "train/learning_rate": "learning_rate",
    "train/learning_rate_actor": "learning_rate",  # of sbx
    "train/policy_gradient_loss": "loss/policy",
    "train/actor_loss": "loss/policy",
    "train/value_loss": "loss/value",
    "train/critic_loss": "loss/critic",
    "train/ent_coef_loss": "loss/temperature",
    "train/ent_coef": "temperature",
    "train/approx_kl": "policy/approx_kl",
    "train/clip_fraction": "policy/clip_fraction",
    "train/explained_variance": "value/explained_variance",
    "train/std": "policy/std",
    "train/qf_mean_value": "q/mean",  # of sbx
}
"""Upstream's names of logged values to those of the trace."""


def resolve_arguments(
    settings: Mapping[str, Any], action_size: int, classes: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return keyword arguments: dotted names become nested, descriptions become objects.

    Args:
        settings: By name; `{class name: its arguments}` describes an object.
        action_size: Number of action dimensions, for the noise.
        classes: Objects that further class names stand for, whatever the arguments.
    """
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        *parents, leaf = name.split(".")
        target = arguments
        for parent in parents:
            target = target.setdefault(parent, {})
        target[leaf] = _make_object(value, action_size, classes or {})
    return arguments


def _make_object(value: Any, action_size: int, classes: Mapping[str, Any]) -> Any:
    match value:
        case {"LinearSchedule": arguments}:
            # Older releases have only the function.
            linear = getattr(utils, "LinearSchedule", None) or utils.get_linear_fn
            return linear(*arguments)
        case {"NormalActionNoise": sigma}:
            return NormalActionNoise(np.zeros(action_size), sigma * np.ones(action_size))
        case {"OrnsteinUhlenbeckActionNoise": sigma}:
            return OrnsteinUhlenbeckActionNoise(np.zeros(action_size), sigma * np.ones(action_size))
    name: Any = next(iter(value), None) if isinstance(value, dict) else None
    return classes.get(name, value)


def read_stored_data(algorithm: str, model: Any) -> Mapping[str, NDArray[Any]]:
    """Return the rollout, or the filled part of the replay buffer."""
    if algorithm == "ppo":
        buffer = model.rollout_buffer
        rows = buffer.buffer_size * buffer.n_envs
        names = {"returns", "values", "advantages", "log_probs", "rewards"}
        arrays = {name: getattr(buffer, name).reshape(rows) for name in names}
        for name in ("observations", "actions"):
            arrays[name] = getattr(buffer, name).reshape(rows, -1)
        return {name: np.array(array, dtype=float) for name, array in arrays.items()}
    return read_replay_buffer(model.replay_buffer)


def read_replay_buffer(buffer: Any) -> Mapping[str, NDArray[Any]]:
    """Return the filled part of a `ReplayBuffer` of SB3, which CleanRL's scripts use too."""
    size = buffer.size()
    arrays = {
        "observations": buffer.observations,
        "actions": buffer.actions,
        "rewards": buffer.rewards,
        "next_observations": buffer.next_observations,
        "terminated": buffer.dones * (1 - buffer.timeouts),
    }
    # [places, environments, ...]: the rows of all environments, in the order of their steps.
    return {
        name: array[:size].reshape(size * array.shape[1], *array.shape[2:]).astype(float)
        for name, array in arrays.items()
    }


def reload_settings(model: Any) -> dict[str, tuple[float, float]]:
    """Save and load a model, and return its numbers before and after.

    The numbers include how many optimizers each separately learned tensor has, such as SAC's
    temperature. Loading seeds the global random generators.
    """
    file = io.BytesIO()
    model.save(file)
    before, after = _list_numbers(model), _list_numbers(type(model).load(file, env=model.get_env()))
    return {name: (value, after.get(name, np.nan)) for name, value in before.items()}


def _list_numbers(model: Any) -> dict[str, float]:
    attributes = vars(model)
    # Flags are left out: a model that was given a logger has one that says so.
    numbers = {name: float(x) for name, x in attributes.items() if type(x) in (int, float)}
    optimizers = [x for x in attributes.values() if isinstance(x, torch.optim.Optimizer)]
    optimized = [id(p) for optimizer in optimizers for p in optimizer.param_groups[0]["params"]]
    for name, value in attributes.items():
        if isinstance(value, torch.Tensor) and value.requires_grad:
            numbers[f"optimizers of {name}"] = float(optimized.count(id(value)))
    return numbers


def predict_actions(model: BaseAlgorithm, observations: NDArray[np.float32]) -> NDArray[Any]:
    """Return upstream's own deterministic prediction, within the action bounds."""
    actions, _ = model.predict(observations, deterministic=True)
    return np.asarray(actions, np.float32 if actions.ndim > 1 else np.int64)


def save_model(
    model: BaseAlgorithm, path: Path, own: Sequence[ModuleType], exclude: Sequence[str] = ()
) -> None:
    """Write upstream's own file with the code of `own` modules: it loads without this project."""
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        model.save(path, exclude=exclude)
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def log_to_monitor(model: BaseAlgorithm, monitor: Monitor) -> None:
    """Make a model log to the monitor only."""
    model.set_logger(Logger(folder=None, output_formats=[MonitorWriter(monitor, METRICS)]))


class MonitorWriter(KVWriter):
    """An SB3 log output that passes logged values to the monitor."""

    def __init__(self, monitor: Monitor, names: Mapping[str, str]) -> None:
        """Create the logger; `names` maps SB3's names of values to those of the trace."""
        self._monitor, self._names = monitor, names  # both are in checkpoints

    def write(
        self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0
    ) -> None:
        """Pass on the values that have a name in the trace."""
        names = self._names
        known = {names[key]: float(key_values[key]) for key in key_values if key in names}
        if "train/loss" in key_values and "train/value_loss" not in key_values:  # of DQN
            known["loss/critic"] = float(key_values["train/loss"])
        # `train` in stable_baselines3/ppo/ppo.py logs minus the entropy.
        if "train/entropy_loss" in key_values:
            known["policy/entropy"] = -float(key_values["train/entropy_loss"])
        self._monitor.record(known)

    def close(self) -> None:
        """Do nothing: no file is open."""


class SafePointCallback(BaseCallback):
    """Callback that reports the head of SB3's loop, after the updates for all steps so far."""

    def __init__(self, monitor: Monitor) -> None:
        super().__init__()
        self._monitor = monitor

    def _on_rollout_start(self) -> None:
        self._monitor.safe_point()

    def _on_step(self) -> bool:
        return True
