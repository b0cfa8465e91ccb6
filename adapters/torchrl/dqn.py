"""DQN as in upstream's `sota-implementations/dqn`, from public components."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictSequential
from torch import nn
from torchrl.data import Composite, OneHot
from torchrl.envs import DoubleToFloat, RewardSum, StepCounter
from torchrl.envs.utils import ExplorationType, exploration_type
from torchrl.modules import MLP, EGreedyModule, QValueActor
from torchrl.objectives import DQNLoss
from torchrl.objectives.utils import TargetNetUpdater

from parallax.adapters.torch_common.networks import DuelingHead, build_linear_layers, count_features
from parallax.adapters.torchrl.loop import make_components, train_off_policy
from parallax.adapters.torchrl.networks import build_convolutions, build_periodic_targets
from parallax.adapters.torchrl.replay import get_loss_class
from parallax.envs.tasks import Task
from parallax.harness.contract.adapter import MakeEnv, Monitor, RunContext
from parallax.harness.contract.translation import NativeConfig

NETWORKS = ("value_network", "target_value_network")


@dataclasses.dataclass(frozen=True)
class DQNComponents:
    """Components of DQN: networks, loss and optimizer.

    Attributes:
        max_norm: Norm to clip gradients at; None is off.
    """

    actor: QValueActor
    exploration: "_StepwiseExploration"
    loss: DQNLoss
    optimizer: torch.optim.Optimizer
    targets: TargetNetUpdater
    max_norm: float | None


class _StepwiseExploration(EGreedyModule):  # type: ignore[misc]
    """Exploration whose share of random actions may fall with each step of a batch.

    In upstream's script it falls after each batch of the collector.
    """

    def __init__(self, within_batch: bool, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._within_batch, self._lowered = within_batch, 0

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Replace some actions by random ones, and lower the share for the next step."""
        tensordict = super().forward(tensordict)
        explores = exploration_type() in (ExplorationType.RANDOM, None)
        if self._within_batch and explores:
            self.step(tensordict.numel())
            self._lowered += tensordict.numel()
        return tensordict

    def finish_batch(self, frames: int) -> None:
        """Lower the share for steps that have not lowered it yet: random steps do not."""
        self.step(frames - self._lowered)
        self._lowered = 0


def train(native: NativeConfig, context: RunContext, make_env: MakeEnv, monitor: Monitor) -> None:
    """Train to the end."""
    components = make_components(build_components, native, context)
    train_off_policy(
        *(native, context, make_env, monitor),
        components=components,
        explorer=TensorDictSequential(components.actor, components.exploration),
        transforms=(RewardSum(), StepCounter(), DoubleToFloat()),
        networks=NETWORKS,
        update=update,
        learning_rate="Adam.lr",
        collected_frames=components.exploration.finish_batch,
    )


def build_components(settings: Mapping[str, Any], task: Task) -> DQNComponents:
    """Return network, loss and optimizer as they are before the first update."""
    spec = Composite(action=OneHot(task.choices))
    actor = QValueActor(module=_build_network(settings, task), spec=spec, in_keys=["observation"])
    exploration = _StepwiseExploration(
        settings["script.anneals_within_batch"],
        spec,
        eps_init=settings["EGreedyModule.eps_init"],
        eps_end=settings["EGreedyModule.eps_end"],
        annealing_num_steps=settings["EGreedyModule.annealing_num_steps"],
    )
    loss = get_loss_class(DQNLoss, settings)(
        actor,
        loss_function=settings["DQNLoss.loss_function"],
        delay_value=True,
        double_dqn=settings["DQNLoss.double_dqn"],
    )
    loss.make_value_estimator(gamma=settings["make_value_estimator.gamma"])
    optimizer = torch.optim.Adam(
        loss.parameters(), lr=settings["Adam.lr"], eps=settings["Adam.eps"]
    )
    targets = build_periodic_targets(loss, settings)
    max_norm = settings["clip_grad_norm_.max_norm"]
    return DQNComponents(actor, exploration, loss, optimizer, targets, max_norm)


def _build_network(settings: Mapping[str, Any], task: Task) -> MLP | nn.Sequential:
    """Build the Q-network: ReLU, torch's initialisation, convolutions first for images."""
    filters = settings.get("ConvNet.num_cells")
    inputs = task.observation_size if filters is None else count_features(task.image, filters)
    values = _build_value_layers(settings, inputs, task.choices)
    if filters is None:
        return values
    return nn.Sequential(*build_convolutions(settings, task), values)


def _build_value_layers(
    settings: Mapping[str, Any], inputs: int, choices: int
) -> MLP | nn.Sequential:
    cells = settings["MLP.num_cells"]
    if "loop.dueling" not in settings:
        return MLP(inputs, choices, num_cells=cells, activation_class=nn.ReLU)
    *shared, last = cells
    layers = [build_linear_layers(inputs, shared[:-1], shared[-1]), nn.ReLU()] if shared else []
    return nn.Sequential(*layers, DuelingHead([inputs, *shared][-1], [last], choices))


def update(components: DQNComponents, batch: TensorDictBase, step: int) -> dict[str, torch.Tensor]:
    """Make one step of the network, and move its target if that is due.

    Args:
        components: Changed in place.
        batch: Transitions as the collector makes them.
        step: Number of this update, from 1; it makes no difference here.

    Returns:
        Metrics by their name in the trace.
    """
    loss = components.loss(batch)["loss"]
    components.optimizer.zero_grad()
    loss.backward()
    if components.max_norm is not None:
        nn.utils.clip_grad_norm_(components.loss.parameters(), components.max_norm)
    components.optimizer.step()
    components.targets.step()
    return {"loss/critic": loss.detach()}
