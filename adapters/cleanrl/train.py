"""Trains by running CleanRL's script, and reads its networks."""

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from parallax.adapters.cleanrl import script_runner
from parallax.adapters.cleanrl.own_script import BUFFER_MODULE, COPIED_BUFFER_MODULE
from parallax.adapters.cleanrl.script_runner import CheckpointHook
from parallax.adapters.cleanrl.settings import (
    ALGORITHMS,
    BUFFER_LOSS_SETTING,
    BUFFER_SETTING,
    get_script_kind,
    make_script_arguments,
)
from parallax.adapters.torch_common.acceleration import accelerate_networks
from parallax.adapters.torch_common.prioritized_buffer import (
    ErrorFunction,
    PrioritizedReplayMixin,
    ReplaySamples,
    record_replay_cost,
)
from parallax.adapters.torch_common.state import (
    make_policy_io,
    record_envs,
    weights_from_parameters,
)
from parallax.harness.contract.adapter import MakeEnv, Monitor, Policy, RunContext, Weights
from parallax.harness.contract.translation import NativeConfig


@contextlib.contextmanager
def replace_replay_buffer(
    algorithm: str, native: NativeConfig, names: Mapping[str, Any], monitor: Monitor
) -> Iterator[dict[str, Any]]:
    """Yield the stand-in for the script's module of buffers, by the module's name."""
    upstream: Any = importlib.import_module(BUFFER_MODULE)
    replay_settings = native.settings[BUFFER_SETTING]["StrategicBuffer"]
    loss = staticmethod(make_loss_function(native.settings.get(BUFFER_LOSS_SETTING)))
    parents = (PrioritizedReplayMixin, upstream.ReplayBuffer)
    buffer_class = type("StrategicBuffer", parents, {"compute_loss": loss})
    with contextlib.ExitStack() as stack:

        def make(*arguments: Any, **settings: Any) -> Any:
            buffer: Any = buffer_class(*arguments, replay_settings=replay_settings, **settings)
            buffer.set_error_function(make_error_function(algorithm, native, names))
            stack.enter_context(record_replay_cost(buffer.replayer, monitor))
            return buffer

        stand_in = SimpleNamespace(ReplayBuffer=make)
        yield {BUFFER_MODULE: stand_in, COPIED_BUFFER_MODULE: stand_in}


def make_loss_function(huber_delta: float | None) -> Callable[..., torch.Tensor]:
    """Return the Huber loss that is linear above `huber_delta`; None is the squared error."""
    functional = torch.nn.functional
    if huber_delta is None:
        return functional.mse_loss
    return functools.partial(functional.huber_loss, delta=huber_delta)


def make_error_function(
    algorithm: str, native: NativeConfig, names: Mapping[str, Any]
) -> ErrorFunction:
    """Return a function that computes the TD errors of all critics, as the script's update does."""
    compute_next_values = _NEXT_VALUES[algorithm]
    if any(row.field == "double_q" and row.value for row in native.alignment):
        compute_next_values = _compute_next_values_double_dqn

    def compute_errors(batch: ReplaySamples) -> torch.Tensor:
        script = SimpleNamespace(**names)
        next_values = compute_next_values(script, batch).view(-1)
        discounts = (1 - batch.dones.flatten()) * script.args.gamma
        target = batch.rewards.flatten() + discounts * next_values
        if algorithm == "dqn":
            predictions = [script.q_network(batch.observations).gather(1, batch.actions.long())]
        else:
            critics = [names[name] for name in ("qf1", "qf2") if name in names]
            predictions = [critic(batch.observations, batch.actions) for critic in critics]
        return torch.stack([values.view(-1) - target for values in predictions])

    return compute_errors


def _compute_next_values_dqn(script: SimpleNamespace, batch: ReplaySamples) -> torch.Tensor:
    best: torch.Tensor = script.target_network(batch.next_observations).amax(1)
    return best


def _compute_next_values_double_dqn(script: SimpleNamespace, batch: ReplaySamples) -> torch.Tensor:
    best = script.q_network(batch.next_observations).argmax(1, keepdim=True)
    values: torch.Tensor = script.target_network(batch.next_observations).gather(1, best)
    return values


def _compute_next_values_ddpg(script: SimpleNamespace, batch: ReplaySamples) -> torch.Tensor:
    actions = script.target_actor(batch.next_observations)
    values: torch.Tensor = script.qf1_target(batch.next_observations, actions)
    return values


def _compute_next_values_td3(script: SimpleNamespace, batch: ReplaySamples) -> torch.Tensor:
    limit, space = script.args.noise_clip, script.envs.single_action_space
    noise = (torch.randn_like(batch.actions) * script.args.policy_noise).clamp(-limit, limit)
    # The script clips before it scales: both numbers are shares of half the action range.
    noise = noise * script.target_actor.action_scale
    actions = script.target_actor(batch.next_observations) + noise
    # td3_continuous_action.py takes the bounds of the first dimension for all.
    return _compute_min_q(script, batch, actions.clamp(space.low[0], space.high[0]))


def _compute_next_values_sac(script: SimpleNamespace, batch: ReplaySamples) -> torch.Tensor:
    actions, density, _ = script.actor.get_action(batch.next_observations)
    values: torch.Tensor = _compute_min_q(script, batch, actions) - script.alpha * density
    return values


def _compute_min_q(
    script: SimpleNamespace, batch: ReplaySamples, actions: torch.Tensor
) -> torch.Tensor:
    targets = (script.qf1_target, script.qf2_target)
    values = [target(batch.next_observations, actions) for target in targets]
    return torch.cat(values, 1).amin(1, keepdim=True)


_NEXT_VALUES: Mapping[str, Callable[[SimpleNamespace, ReplaySamples], torch.Tensor]] = {
    "dqn": _compute_next_values_dqn,
    "ddpg": _compute_next_values_ddpg,
    "td3": _compute_next_values_td3,
    "sac": _compute_next_values_sac,
}


def train(
    algorithm: str, native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor
) -> None:
    """Train to the end."""
    train_with_names(algorithm, native, context, make_env, monitor, {})


def train_with_names(
    algorithm: str,
    native: NativeConfig,
    context: RunContext,
    make_env: MakeEnv,
    monitor: Monitor,
    names: dict[str, Any],
) -> None:
    """Train to the end; the script's global names are in `names`, which the caller can read."""
    make_env, envs = record_envs(make_env)

    def accelerate_script_networks() -> None:
        accelerate_networks(context.acceleration, *get_networks(algorithm, names).values())

    hook = CheckpointHook(
        names, monitor.safe_point, lambda: [monitor, *envs], accelerate_script_networks
    )

    def get_state_dicts() -> dict[str, Any]:
        networks = get_networks(algorithm, names)
        return {name: network.state_dict() for name, network in networks.items()}

    monitor.attach(
        make_greedy_policy(algorithm, context, names),
        lambda: copy_weights(algorithm, names),
        make_policy_io(lambda: get_parameters(algorithm, names), get_state_dicts),
        hook.make_checkpointable(),
    )
    with contextlib.ExitStack() as stack:
        stand_ins: dict[str, Any] = {}
        if context.script and COPIED_BUFFER_MODULE in context.script.source:
            stand_ins[COPIED_BUFFER_MODULE] = importlib.import_module(BUFFER_MODULE)
        if BUFFER_SETTING in native.settings:
            buffer = replace_replay_buffer(algorithm, native, names, monitor)
            stand_ins |= stack.enter_context(buffer)
        arguments = make_script_arguments(native)
        code = script_runner.load_script(algorithm, get_script_kind(context.task), context.script)
        script_runner.run_script(code, arguments, make_env, monitor, names, hook, stand_ins)


def make_greedy_policy(algorithm: str, context: RunContext, names: Mapping[str, Any]) -> Policy:
    """Return the script's policy without noise; it looks up the trained networks at each call."""
    act = ALGORITHMS[algorithm].predict_actions

    def policy(observations: NDArray[np.float32]) -> NDArray[Any]:
        with torch.no_grad():
            return np.asarray(
                act(names, torch.from_numpy(observations).to(context.device), context)
            )

    return policy


def get_networks(algorithm: str, names: Mapping[str, Any]) -> dict[str, torch.nn.Module]:
    """Return the script's networks by their global names."""
    return {name: names[name] for name in ALGORITHMS[algorithm].networks}


def copy_weights(algorithm: str, names: Mapping[str, Any]) -> Weights:
    """Return copies of all parameters of the script's networks, and of a learned temperature."""
    return weights_from_parameters(get_parameters(algorithm, names))


def get_parameters(algorithm: str, names: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Return the parameters of `copy_weights` as the tensors that the script computes with."""
    tensors: dict[str, torch.Tensor] = {
        f"{network}.{name}": value
        for network, module in get_networks(algorithm, names).items()
        for name, value in module.state_dict().items()
    }
    if "log_alpha" in names:
        tensors["log_alpha"] = names["log_alpha"]
    return tensors
