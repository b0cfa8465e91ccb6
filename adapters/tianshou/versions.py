"""Tianshou's classes by their current names, including releases before 2.0.

In older releases, algorithm and policy are one object that has optimizers; trainers are classes.
"""

import contextlib
import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.metadata import version
from types import ModuleType, SimpleNamespace
from typing import Any

import tianshou.trainer
import tianshou.utils.net.continuous
import tianshou.utils.net.discrete
import torch

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import parse_version

IS_BEFORE_2 = parse_version(version("tianshou")) < (2,)
OLDER_NAMES = {
    "policy_optim": "actor_optim",
    "huber_loss_delta": "clip_loss_grad",
    "training_collector": "train_collector",
    "training_fn": "train_fn",
    "max_epochs": "max_epoch",
    "epoch_num_steps": "step_per_epoch",
    "collection_step_num_env_steps": "step_per_collect",
    "update_step_num_gradient_steps_per_sample": "update_per_step",
    "update_step_num_repetitions": "repeat_per_collect",
}
"""Names of arguments before 2.0."""


class OlderAdam:
    """Adam of an older release with the interface of the current optimizer factory."""

    def __init__(self, **options: Any) -> None:
        self.options, self.schedule = options, None

    def with_lr_scheduler_factory(self, schedule: Any) -> None:
        """Set the schedule of the learning rate."""
        self.schedule = schedule

    def create(self, *networks: Any) -> torch.optim.Optimizer:
        """Return the optimizer of the networks' parameters."""
        return torch.optim.Adam([p for each in networks for p in each.parameters()], **self.options)


def make_older_schedule(epochs: int, steps: int, per_update: int) -> Callable[[Any], Any]:
    """Return a function that makes the linear schedule of upstream's examples."""
    updates = math.ceil(steps / per_update) * epochs
    return lambda adam: torch.optim.lr_scheduler.LambdaLR(adam, lambda done: 1 - done / updates)


def make_older_policy(kind: type[Any], policy: Any, **given: Any) -> Any:
    """Return a policy of an older release from the parts of a current algorithm and policy."""
    parts = vars(policy) | given
    if "alpha" in parts:
        alpha = parts["alpha"]
        log = torch.tensor([float(alpha.log_alpha)], requires_grad=True)
        adam = torch.optim.Adam([log], **alpha.optim.options)
        parts["alpha"] = alpha.target_entropy, log, adam
    if "optim" in parts:  # PPO, DQN
        factory, parts["discount_factor"] = parts["optim"], parts.pop("gamma")
        networks = [parts[name] for name in ("actor", "critic", "model") if name in parts]
        parts["optim"] = factory.create(*networks)
        parts["lr_scheduler"] = factory.schedule and factory.schedule(parts["optim"])
    if "dist_fn" in parts:  # 1.0 passes two arguments
        make = parts["dist_fn"]
        parts["dist_fn"] = lambda *given: make(given if len(given) > 1 else given[0])
    for name, network in {"policy": "actor", "critic": "critic", "critic2": "critic2"}.items():
        if f"{name}_optim" in parts:
            parts[f"{name}_optim"] = parts[f"{name}_optim"].create(parts[network])
    if "huber_loss_delta" in parts:
        if parts["huber_loss_delta"] not in (None, 1):
            raise SpecError("hyperparameters.huber_delta: before Tianshou 2.0 it is null or 1.0.")
        parts["huber_loss_delta"] = parts["huber_loss_delta"] is not None
    epsilon = parts.pop("eps_training", None)
    made = type(kind.__name__, (kind,), {"policy": property(lambda self: self)})(
        **rename_arguments(**parts)
    )
    if epsilon is not None:
        made.set_eps(epsilon)
        made.set_eps_training = made.set_eps
    return made


def rename_arguments(**options: Any) -> dict[str, Any]:
    """Return arguments by their names in an older release."""
    return {OLDER_NAMES.get(name, name): value for name, value in options.items()}


def create_trainer(model: Any, params: Any) -> Any:
    """Return the trainer of a model."""
    if not IS_BEFORE_2:
        return model.create_trainer(params)
    name = "OnpolicyTrainer" if "repeat_per_collect" in params else "OffpolicyTrainer"
    return getattr(tianshou.trainer, name)(policy=model, episode_per_test=0, **params)


class OlderArguments(SimpleNamespace):
    """Arguments of an older policy that take the place of a policy; images are not supported."""

    __class_getitem__ = classmethod(lambda cls, item: cls)


@contextlib.contextmanager
def use_mode(module: Any, enabled: bool) -> Iterator[None]:
    """Switch a policy between training and evaluation within the context."""
    before = module.training
    module.train(enabled)
    yield
    module.train(before)


def add_names(module: str, **names: Any) -> None:
    """Add names to a module of Tianshou's, which is made if this release does not have it."""
    vars(sys.modules.setdefault(module, ModuleType(module))).update(names)


if IS_BEFORE_2:
    continuous, discrete = tianshou.utils.net.continuous, tianshou.utils.net.discrete
    policies, names = tianshou.policy, ("DDPG", "DQN", "PPO", "SAC", "TD3")
    makers = {n: partial(make_older_policy, getattr(policies, f"{n}Policy")) for n in names}
    choose = lambda logits: torch.distributions.Categorical(logits=logits)  # noqa: E731
    discrete_policy = {"DiscreteActorPolicy": partial(SimpleNamespace, dist_fn=choose)}
    optimizers = {
        "AdamOptimizerFactory": OlderAdam,
        "LRSchedulerFactoryLinear": make_older_schedule,
    }
    modelfree, nets = "tianshou.algorithm.modelfree", "tianshou.utils.net"
    add_names("tianshou.algorithm", **makers, Algorithm=policies.BasePolicy)
    add_names(f"{modelfree}.ddpg", ContinuousDeterministicPolicy=SimpleNamespace)
    add_names(f"{modelfree}.dqn", DiscreteQLearningPolicy=OlderArguments)
    add_names(f"{modelfree}.reinforce", ProbabilisticActorPolicy=SimpleNamespace, **discrete_policy)
    add_names(f"{modelfree}.sac", AutoAlpha=SimpleNamespace, SACPolicy=SimpleNamespace)
    add_names("tianshou.algorithm.optim", **optimizers)
    add_names(f"{nets}.common", ActionReprNetWithVectorOutput=OlderArguments)
    add_names(f"{nets}.continuous", ContinuousActorDeterministic=continuous.Actor)
    add_names(f"{nets}.continuous", ContinuousActorProbabilistic=continuous.ActorProb)
    add_names(f"{nets}.continuous", ContinuousCritic=continuous.Critic)
    add_names(f"{nets}.discrete", DiscreteActor=discrete.Actor, DiscreteCritic=discrete.Critic)
    add_names(
        "tianshou.trainer",
        OffPolicyTrainerParams=rename_arguments,
        OnPolicyTrainerParams=rename_arguments,
    )
    if importlib.util.find_spec("tianshou.utils.torch_utils") is None:  # before 1.1
        contexts = {"policy_within_training_step": lambda policy, enabled: contextlib.nullcontext()}
        add_names("tianshou.utils.torch_utils", **contexts, torch_train_mode=use_mode)
