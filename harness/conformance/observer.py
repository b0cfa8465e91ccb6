"""Watches a training from outside the adapter: PyTorch's global hooks, and snapshots of weights."""

import dataclasses
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.contract.adapter import Policy, Weights
from harness.contract.algorithms import Cadence

POLICY, CRITIC, TEMPERATURE = "policy", "critic", "temperature"


@dataclasses.dataclass(frozen=True)
class TargetStep:
    """All weights before and after the first update of the target networks."""

    before: Weights
    after: Weights


@dataclasses.dataclass(frozen=True)
class Observed:
    """What was seen of one training.

    Attributes:
        cadence: The counts.
        learning_rates: Per role (`policy`, `critic`, `temperature`) the step size at each step.
        target_step: The first update of target networks; None without one.
    """

    cadence: Cadence
    learning_rates: dict[str, list[float]]
    target_step: TargetStep | None


class Observer:
    """Counts gradient steps and target updates while it is entered.

    Whose gradient step it was is told from the parameters: a single number is the
    temperature, those that the greedy policy runs through are the policy's, the others are
    the critics'.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._random: list[bool] = []
        self._probe: NDArray[np.float32] | None = None
        self._policy: Policy | None = None
        self._weights: Callable[[], Weights] | None = None
        self._first_update = 0
        self._target_updates = 0
        self._target_step: TargetStep | None = None
        self._groups: dict[int, Any] = {}  # kept alive, so that an id stands for one
        self._rates: dict[int, list[float]] = defaultdict(list)
        self._of_policy: set[int] = set()
        self._previous: Weights | None = None
        self._network_ran = self._asking = False
        self._hooks = ExitStack()

    def attach(
        self, policy: Policy, weights: Callable[[], Weights], probe: NDArray[np.float32]
    ) -> None:
        """Takes what the adapter attached, and observations to ask the policy about."""
        self._policy, self._weights, self._probe = policy, weights, probe

    def before_reset(self) -> None:
        """The next action is chosen after this."""
        self._network_ran = False

    def before_step(self) -> None:
        """Counts a step, and whether a network could have chosen its action."""
        self.steps += 1
        self._random.append(not self._network_ran)
        self._network_ran = False

    def __enter__(self) -> "Observer":
        """Registers the hooks."""
        reason = "only what trains with PyTorch can be counted from outside"
        optimizer = pytest.importorskip("torch.optim.optimizer", reason=reason)
        module = pytest.importorskip("torch.nn.modules.module", reason=reason)
        for register, hook in (
            (optimizer.register_optimizer_step_pre_hook, self._before_update),
            (module.register_module_forward_pre_hook, self._before_forward),
        ):
            self._hooks.callback(register(hook).remove)
        return self

    def __exit__(self, *exception: object) -> None:
        """Removes them and looks at the last state."""
        self._hooks.close()
        if self._weights is not None:
            self._notice_targets(self._weights())

    def observed(self) -> Observed:
        """What was seen.

        Raises:
            AssertionError: Optimisers of critics did not step together.
        """
        steps: dict[str, set[int]] = defaultdict(set)
        rates: dict[str, list[float]] = {}
        for key, of_group in self._rates.items():
            steps[self._role(key)].add(len(of_group))
            rates[self._role(key)] = of_group
        policy = max(steps[POLICY], default=0)
        critics = steps[CRITIC] or {policy}
        assert len(critics) == 1, f"optimisers of critics stepped {sorted(critics)} times"
        cadence = Cadence(
            self._random_steps(), self._first_update, critics.pop(), policy, self._target_updates
        )
        return Observed(cadence, rates, self._target_step)

    def _random_steps(self) -> int:
        # Collectors try the policy once when they are made, which says nothing of step 1.
        random = [*self._random[1:2], *self._random[1:]]
        return random.index(False) if False in random else len(random)

    def _before_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        assert self._weights is not None, "the adapter attached nothing before the first update"
        self._first_update = self._first_update or self.steps
        self._notice_targets(self._weights())
        self._note_parameters_of_policy()
        for group in optimizer.param_groups:
            if any(parameter.grad is not None for parameter in group["params"]):
                self._groups[id(group)] = group
                self._rates[id(group)].append(float(group["lr"]))

    def _before_forward(self, module: Any, args: Any) -> None:
        own = [parameter.data_ptr() for parameter in module.parameters(recurse=False)]
        if self._asking:
            self._of_policy.update(own)
        elif own:
            self._network_ran = True

    def _note_parameters_of_policy(self) -> None:
        assert self._policy is not None and self._probe is not None
        self._asking = True
        try:
            self._policy(self._probe)
        finally:
            self._asking = False

    def _notice_targets(self, now: Weights) -> None:
        before, self._previous = self._previous, now
        names = [name for name in now if "target" in name]
        if before is None or all(np.array_equal(before[name], now[name]) for name in names):
            return
        self._target_updates += 1
        self._target_step = self._target_step or TargetStep(before, now)

    def _role(self, key: int) -> str:
        parameters = self._groups[key]["params"]
        if any(parameter.data_ptr() in self._of_policy for parameter in parameters):
            return POLICY
        return TEMPERATURE if sum(p.numel() for p in parameters) == 1 else CRITIC
