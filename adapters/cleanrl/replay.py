"""Replay other than uniform: the buffer that the scripts make, from which a strategy chooses.

The scripts take Stable-Baselines3's. Where a strategy is asked for, the import gives them a class
derived from it; `replay.yaml` holds what their text asks of it.
"""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import torch

from adapters.torch_common.strategic import Errors, Samples, Strategic, accounted
from harness.contract.adapter import Monitor

MODULE = "stable_baselines3.common.buffers"
"""Where the scripts import their buffer from."""


@contextlib.contextmanager
def buffers(
    algorithm: str, told: Mapping[str, Any], names: Mapping[str, Any], monitor: Monitor
) -> Iterator[dict[str, Any]]:
    """What stands for the module of buffers in the script, by the module's name.

    Args:
        algorithm: Name of the algorithm.
        told: As for `harness.replay.replayer.make_replayer`.
        names: The script's global names, networks included.
        monitor: Told of how well priorities are predicted and what replaying costs.
    """
    upstream: Any = importlib.import_module(MODULE)
    made = type("StrategicBuffer", (Strategic, upstream.ReplayBuffer), {})
    with contextlib.ExitStack() as stack:

        def make(*arguments: Any, **settings: Any) -> Any:
            buffer: Any = made(*arguments, told=told, **settings)
            buffer.measure_with(errors_of(algorithm, names))
            stack.enter_context(accounted(buffer.replayer, monitor))
            return buffer

        yield {MODULE: SimpleNamespace(ReplayBuffer=make)}


def errors_of(algorithm: str, names: Mapping[str, Any]) -> Errors:
    """Differences of all critics and their target, as the script's update defines it.

    Args:
        algorithm: `dqn`, `ddpg`, `td3` or `sac`.
        names: The script's global names; networks are asked as they are at each call.
    """
    values: Callable[[SimpleNamespace, Samples], torch.Tensor] = _VALUES[algorithm]

    def errors(batch: Samples) -> torch.Tensor:
        script = SimpleNamespace(**names)
        rewards, going_on = batch.rewards.flatten(), 1 - batch.dones.flatten()
        target = rewards + going_on * script.args.gamma * values(script, batch).view(-1)
        if algorithm == "dqn":
            currents = [script.q_network(batch.observations).gather(1, batch.actions.long())]
        else:
            critics = [names[name] for name in ("qf1", "qf2") if name in names]
            currents = [critic(batch.observations, batch.actions) for critic in critics]
        return torch.stack([current.view(-1) - target for current in currents])

    return errors


def _choice_values(script: SimpleNamespace, batch: Samples) -> torch.Tensor:
    best: torch.Tensor = script.target_network(batch.next_observations).amax(1)
    return best


def _values(script: SimpleNamespace, batch: Samples) -> torch.Tensor:
    actions = script.target_actor(batch.next_observations)
    values: torch.Tensor = script.qf1_target(batch.next_observations, actions)
    return values


def _smoothed_values(script: SimpleNamespace, batch: Samples) -> torch.Tensor:
    limit, space = script.args.noise_clip, script.envs.single_action_space
    noise = (torch.randn_like(batch.actions) * script.args.policy_noise).clamp(-limit, limit)
    noise = noise * script.target_actor.action_scale
    actions = script.target_actor(batch.next_observations) + noise
    return _smaller(script, batch, actions.clamp(space.low[0], space.high[0]))


def _soft_values(script: SimpleNamespace, batch: Samples) -> torch.Tensor:
    actions, density, _ = script.actor.get_action(batch.next_observations)
    values: torch.Tensor = _smaller(script, batch, actions) - script.alpha * density
    return values


def _smaller(script: SimpleNamespace, batch: Samples, actions: torch.Tensor) -> torch.Tensor:
    targets = (script.qf1_target, script.qf2_target)
    values = [target(batch.next_observations, actions) for target in targets]
    return torch.cat(values, 1).amin(1, keepdim=True)


_VALUES = {"dqn": _choice_values, "ddpg": _values, "td3": _smoothed_values, "sac": _soft_values}
