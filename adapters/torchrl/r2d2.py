"""R2D2 (Kapturowski et al. 2019) from TorchRL's recurrent components; upstream ships no recipe."""

import contextlib
import copy
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictParams, TensorDictSequential
from torch import nn
from torchrl.data import Composite, OneHot
from torchrl.envs import BurnInTransform, DoubleToFloat, InitTracker
from torchrl.modules import EGreedyModule, set_recurrent_mode
from torchrl.modules.functional import signed_hyperbolic, signed_parabolic
from torchrl.objectives import TargetNetUpdater
from torchrl.objectives.common import LossModule

from parallax.adapters.torchrl import loop
from parallax.adapters.torchrl.loop import (
    LoopProgress,
    MetricMeans,
    make_collector,
    make_loop_checkpointable,
    mark_truncations,
    seed_generators,
)
from parallax.adapters.torchrl.networks import attach_monitor, build_periodic_targets
from parallax.adapters.torchrl.recurrent import (
    INPUT_KEYS,
    STATE_KEYS,
    GreedyRecurrentPolicy,
    LastStepTransform,
    SequenceReplayBuffer,
    build_recurrent_network,
    get_recurrent_modules,
)
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext
from parallax.harness.contract.translation import NativeConfig
from parallax.harness.replay.sequences import (
    compute_actor_epsilons,
    compute_n_step_returns,
    compute_q_discrepancy,
    compute_sequence_errors,
)

NETWORKS = ("value_network", "target_value_network")


class SequenceLoss(LossModule):  # type: ignore[misc]
    """Loss of sequences that are unrolled through the network and its target."""

    value_network: TensorDictSequential
    value_network_params: TensorDictParams
    target_value_network: TensorDictSequential
    target_value_network_params: TensorDictParams

    def __init__(self, network: TensorDictSequential, settings: Mapping[str, Any]) -> None:
        super().__init__()
        self.convert_to_functional(network, "value_network", create_target_params=True)
        self.settings = settings

    def forward(self, batch: TensorDictBase, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the loss, half of weighted squared errors, summed over the steps of a sequence.

        Args:
            batch: B sequences as `parallax.adapters.torchrl.recurrent` cuts them.
            weights: Importance weights of the sequences, [B].

        Returns:
            `loss`; `errors` [B, m]; `values` [B, m + 1, actions] of the network.
        """
        settings, epsilon = self.settings, self.settings["signed_hyperbolic.epsilon"]
        values = self.unroll(batch, self.value_network_params)
        with torch.no_grad():
            later = self.unroll(batch, self.target_value_network_params)
            choosing = values if settings["loop.double_q"] else later
            best = later.gather(-1, choosing.argmax(-1, keepdim=True)).squeeze(-1)
            returns = compute_n_step_returns(
                batch["reward"].squeeze(-1).numpy(),
                (best if epsilon is None else signed_parabolic(best, epsilon)).numpy(),
                batch["length"].numpy(),
                batch["ended"].numpy(),
                settings["make_value_estimator.gamma"],
                settings["loop.n_step"],
            )
            aims = torch.from_numpy(returns).float()
            aims = aims if epsilon is None else signed_hyperbolic(aims, epsilon)
        # The last value is of the observation after the sequence, which only targets use.
        taken = (values[:, :-1] * batch["action"]).sum(-1)
        inside = torch.arange(taken.shape[1]) < batch["length"].unsqueeze(-1)
        errors = torch.where(inside, taken - aims, 0.0)
        loss = (weights * errors.square().sum(-1) / 2).mean()
        return {"loss": loss, "errors": errors.detach(), "values": values.detach()}

    def unroll(self, batch: TensorDictBase, params: Any) -> torch.Tensor:
        """Return values [B, m + 1, actions] of all steps and of the observation after them."""
        with params.to_module(self.value_network), set_recurrent_mode(True):
            prepared = self._apply_burn_in(batch)
            values: torch.Tensor = self.value_network(prepared)["action_value"]
        return values

    def _apply_burn_in(self, batch: TensorDictBase) -> TensorDictBase:
        """Return the steps to unroll, [B, m + 1], with their initial recurrent states."""
        parts, found, order = get_recurrent_modules(self.value_network), [], []
        # Sequences with the same number of burn-in steps are burned in together.
        for burned in batch["burned"].unique().tolist():
            these = torch.nonzero(batch["burned"] == burned).squeeze(-1)
            steps = self._make_network_inputs(batch, these, burned)
            found.append(BurnInTransform(parts, burned)(steps) if burned else steps)
            order.append(these)
        if len(found) == 1:
            return found[0]
        return torch.cat(found)[torch.cat(order).argsort()]

    def _make_network_inputs(
        self, batch: TensorDictBase, rows: torch.Tensor, burned: int
    ) -> TensorDict:
        """Return the network's inputs and initial states for the given rows; [n, steps]."""
        skipped = self.settings["BurnInTransform.burn_in"] - burned
        seen = {name: batch[name][rows, skipped:] for name in INPUT_KEYS}
        shape = seen[INPUT_KEYS[0]].shape[:2]
        for name in STATE_KEYS:
            start = batch[f"start_{name}"][rows]
            seen[name] = torch.zeros(*shape, *start.shape[1:])
            if self.settings["loop.stored_state"]:
                seen[name][:, 0] = start
        seen["is_init"] = torch.zeros(*shape, 1, dtype=torch.bool)  # no episode begins within
        return TensorDict(seen, list(shape))

    def compute_stored_state_values(
        self, batch: TensorDictBase, place: str, step: torch.Tensor
    ) -> torch.Tensor:
        """Return values [B, actions] of the network at one step, from the state that the actor had.

        Args:
            batch: B sequences.
            place: Which stored state, `first` or `last`.
            step: Step of that state, [B], counted from the first that is learned from.
        """
        rows, at = torch.arange(len(step)), step + self.settings["BurnInTransform.burn_in"]
        seen = {name: batch[name][rows, at] for name in INPUT_KEYS}
        seen |= {name: batch[f"{place}_{name}"] for name in STATE_KEYS}
        seen["is_init"] = torch.zeros(len(step), 1, dtype=torch.bool)  # 1 would reset the state
        params = self.value_network_params
        with torch.no_grad(), params.to_module(self.value_network), set_recurrent_mode(False):
            output = self.value_network(TensorDict(seen, [len(step)]))
        values: torch.Tensor = output["action_value"]
        return values


@dataclasses.dataclass(frozen=True)
class R2D2Components:
    """Components of R2D2: networks, loss and optimizer.

    Attributes:
        exploration: Replaces some actions by random ones, with each actor's own epsilon.
        max_norm: Norm to clip gradients at; None is off.
    """

    network: TensorDictSequential
    actor: TensorDictSequential
    exploration: EGreedyModule
    loss: SequenceLoss
    optimizer: torch.optim.Optimizer
    targets: TargetNetUpdater
    max_norm: float | None


@dataclasses.dataclass
class ActorLag:
    """Lag of the actors behind their learner.

    Attributes:
        steps: Steps of all actors since they got the learner's parameters.
        version: Updates that these parameters were of.
        behind: Updates that they were behind when a sequence was stored, summed over `arrived`.
        arrived: Sequences since the last record of the trace.
    """

    steps: int = 0
    version: int = 0
    behind: int = 0
    arrived: int = 0

    def refresh(self, components: R2D2Components, steps: int, every: int, updates: int) -> bool:
        """Count steps; copy the parameters after `updates` if due, and return whether it did."""
        self.steps += steps
        if self.steps < every:
            return False
        components.actor.load_state_dict(components.network.state_dict())
        self.steps, self.version = 0, updates
        return True

    def add_sequences(self, versions: list[int], updates: int) -> None:
        """Count sequences that are stored after `updates`."""
        self.behind += sum(updates - version for version in versions)
        self.arrived += len(versions)

    def take(self) -> dict[str, float]:
        """Return the mean lag of sequences when they were stored, since the last call."""
        found = {"lag/actor": self.behind / self.arrived} if self.arrived else {}
        self.behind = self.arrived = 0
        return found


def train(native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor) -> None:
    """Train to the end."""
    settings, actors = native.settings, context.n_envs
    seed_generators(settings["seed"])
    components = build_components(settings, context.task, actors)
    explorer = TensorDictSequential(components.actor, components.exploration)
    last_step = LastStepTransform(context.task.choices)
    primer = components.actor[1].make_tensordict_primer()
    transforms = InitTracker(), DoubleToFloat(), last_step, primer
    memory = SequenceReplayBuffer(settings, actors)
    progress, means, lag = LoopProgress(), MetricMeans(), ActorLag()
    counters: list[Any] = [progress, means, lag, memory.strategy, memory.numbers]
    batches: Iterable[tuple[int, TensorDictBase]] = ()
    collector = processes = None
    hooks = [make_env() for _ in range(actors)] if context.actors > 1 else []
    if not hooks:
        collector = make_collector(
            make_env, actors, explorer, settings, *transforms, safe_point=monitor.safe_point
        )
        batches = _label_steps(collector, lag)
        counters.append(memory.tapes)
    policy = GreedyRecurrentPolicy(components.network, context.task.choices)
    state = make_loop_checkpointable(collector, components, memory.buffer, *counters)
    attach_monitor(monitor, policy, components.loss, NETWORKS, state)
    with contextlib.ExitStack() as stack:
        if hooks:
            # Imported late: collectors of older releases have no such hooks.
            from parallax.adapters.torchrl.actors import ActorProcesses

            monitor.safe_point()  # which may load a checkpoint; its episodes have ended
            if progress.collected < settings["Collector.total_frames"]:
                batches = processes = ActorProcesses(
                    hooks,
                    context.actors,
                    explorer,
                    settings,
                    transforms,
                    monitor.safe_point,
                    start=(progress.collected, lag.version),
                )
                stack.callback(processes.close)
        for first_env, data in batches:
            mark_truncations(data, settings)
            lag.add_sequences(memory.extend(data, first_env), progress.updates)
            progress.collected += data.numel()
            # An actor of several sends a part of an update cycle's steps.
            is_cycle = progress.collected % settings["Collector.frames_per_batch"] == 0
            if is_cycle and progress.collected >= settings["loop.learning_starts"]:
                _run_updates(components, memory, progress, means, monitor, lag)
            every = settings["loop.actor_refresh"] * actors
            if lag.refresh(components, data.numel(), every, progress.updates) and processes:
                processes.send_parameters(components.actor, progress.updates)


def _label_steps(collector: Any, lag: ActorLag) -> Iterator[tuple[int, TensorDictBase]]:
    """Yield steps as `ActorProcesses` does, of all environments together."""
    for data in collector:
        yield 0, data.set("version", torch.full((*data.shape, 1), lag.version))
    collector.shutdown()


def build_components(settings: Mapping[str, Any], task: Task, actors: int = 1) -> R2D2Components:
    """Return networks, loss and optimizer as they are before the first update."""
    network = build_recurrent_network(settings, task)
    actor = copy.deepcopy(network).requires_grad_(False)
    shares = compute_actor_epsilons(
        settings["loop.epsilon_base"], settings["loop.epsilon_exponent"], actors
    )
    # The module's own schedule is not used: each actor has a constant epsilon.
    exploration = EGreedyModule(Composite(action=OneHot(task.choices)), 1.0, 0.0)
    exploration.eps = torch.tensor(shares if actors > 1 else shares[0], dtype=torch.float32)
    loss = SequenceLoss(network, settings)
    optimizer = torch.optim.Adam(
        loss.parameters(), lr=settings["Adam.lr"], eps=settings["Adam.eps"]
    )
    targets = build_periodic_targets(loss, settings)
    max_norm = settings["clip_grad_norm_.max_norm"]
    return R2D2Components(network, actor, exploration, loss, optimizer, targets, max_norm)


def _run_updates(
    components: R2D2Components,
    memory: SequenceReplayBuffer,
    progress: LoopProgress,
    means: MetricMeans,
    monitor: Monitor,
    lag: ActorLag,
) -> None:
    """Run the updates of one update cycle."""
    settings, stale = components.loss.settings, dict[str, float]()
    for left in reversed(range(settings["script.num_updates"])):
        progress.updates += 1
        records = not left and means.updates + 1 >= loop.RECORD_EVERY
        places, weights, batch = memory.sample()
        output = components.loss(batch, torch.from_numpy(weights).float())
        if records:  # with the network before the step
            stale = lag.take() | measure_staleness(
                components.loss, batch, output["values"], progress.updates - 1
            )
        means.add(take_gradient_step(components, output["loss"]))
        errors, share = output["errors"].numpy(), settings["loop.max_error_share"]
        memory.strategy.update(
            places, compute_sequence_errors(errors, batch["length"].numpy(), share)
        )
        if records:
            monitor.record(means.take() | {"learning_rate": settings["Adam.lr"]} | stale)


def take_gradient_step(components: R2D2Components, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    """Make one step of the network, and copy it to its target if that is due."""
    components.optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    if components.max_norm is not None:
        nn.utils.clip_grad_norm_(components.loss.parameters(), components.max_norm)
    components.optimizer.step()
    components.targets.step()
    return {"loss/critic": loss.detach()}


LAG_THIRDS = ("fresh", "middle", "stale")
"""Thirds of a minibatch's sequences by their lag, in the trace's names."""


def measure_staleness(
    loss: SequenceLoss, batch: TensorDictBase, values: torch.Tensor, updates: int
) -> dict[str, float]:
    """Return the lag, and the mean Q-value discrepancy at the first and last learned step.

    The lag of a sequence is the number of updates between the parameters that made its first state
    and those that learn from it. Discrepancies are those of sequences in the middle of an episode
    only: at its beginning all states are zero.

    Args:
        loss: Holds the network.
        batch: B sequences.
        values: Values of the current network, [B, m + 1, actions].
        updates: Updates that the network had.

    Returns:
        Metrics by name in the trace; only the lag if no sequence is in the middle of an episode.
    """
    behind = updates - batch["version"].numpy()
    found = {"lag/mean": float(behind.mean()), "lag/max": float(behind.max())}
    inner = torch.nonzero(batch["begin"] > 0).squeeze(-1)
    if not len(inner):
        return found
    batch, unrolled, behind = batch[inner], values[inner, :-1].numpy(), behind[inner.numpy()]
    thirds = dict(zip(LAG_THIRDS, np.array_split(behind.argsort(kind="stable"), 3), strict=True))
    thirds = {name: rows for name, rows in thirds.items() if len(rows)}
    found |= {f"lag/{name}": float(behind[rows].mean()) for name, rows in thirds.items()}
    lengths = batch["length"]
    found["discrepancy/sequences"] = float(len(inner))
    for place, step in (("first", torch.zeros_like(lengths)), ("last", lengths - 1)):
        stored = loss.compute_stored_state_values(batch, place, step).numpy()
        each = compute_q_discrepancy(unrolled, stored, step.numpy(), lengths.numpy())
        found[f"discrepancy/{place}"] = float(each.mean())
        found |= {
            f"discrepancy/{place}/{n}": float(each[rows].mean()) for n, rows in thirds.items()
        }
    return found
