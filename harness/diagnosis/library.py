"""The diagnosis for anyone's training loop: no adapter, no run folder.

diagnosis = Diagnosis(steps=20_000, gamma=0.99)
env = diagnosis.wrap(env)
diagnosis.watch(policy=greedy, networks={"q": q, "q_target": target})
...
diagnosis.metrics(exploration=epsilon)
diagnosis.targets(rewards, next_values, terminated, targets)
diagnosis.finish()
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from harness.contract.events import (
    Attached,
    Events,
    Metrics,
    TrainingError,
    Transition,
)
from harness.contract.watchers import watching
from harness.diagnosis.check import Check, Finding
from harness.diagnosis.engine import Engine
from harness.diagnosis.registry import all_checks, check_thresholds
from harness.diagnosis.signals import Facts

_ROWS = 4096


class Diagnosis:
    """Watches one training of a program of your own.

    It draws no random number and changes nothing that it is shown. Only optimisers of libraries
    that have a watcher (PyTorch) are seen.
    """

    def __init__(
        self,
        *,
        steps: int | None = None,
        gamma: float | None = None,
        target_interval: int | None = None,
        tau: float | None = None,
        learning_starts: int = 0,
        replays: bool | None = None,
        thresholds: Mapping[str, float] | None = None,
        also: Sequence[Check] = (),
        period: int | None = None,
        strict: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        """Does not watch yet.

        Args:
            steps: Environment steps in all; without it nothing is asked of the last fifth.
            gamma: Discount factor.
            target_interval: Environment steps between target updates.
            tau: Weight of the main network in a target update.
            learning_starts: Environment steps before the first update.
            replays: Whether minibatches are drawn from stored transitions; say no for an
                on-policy algorithm, so that nothing is asked of a replay.
            thresholds: By a check's id, where it is not the default.
            also: Checks of your own.
            period: Environment steps between looks; a hundredth of `steps` and 200
                at least, 500 where `steps` is not said.
            strict: Whether a finding at error level raises `TrainingError` in `env.step`.
            say: Told each finding, once.

        Raises:
            SpecError: A threshold is that of no check.
        """
        found, troubles = all_checks()
        self._checks = [*found, *also]
        self._thresholds = dict(thresholds or {})
        check_thresholds(list(self._thresholds), self._checks)
        self._known = {
            "steps": steps,
            "gamma": gamma,
            "target_interval": target_interval,
            "tau": tau,
            "learning_starts": learning_starts,
            "replays": replays,
        }
        self._options: dict[str, Any] = {"strict": strict, "period": period, "say": say}
        self._troubles, self._events = troubles, Events()
        self._engine: Engine | None = None
        self._watching = contextlib.ExitStack()
        self._told: Callable[[Metrics], None] | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What was found by now, in order."""
        return tuple(self._started().findings.values())

    def wrap(self, env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
        """The environment, watched. Wrap the one that the agent steps; one per diagnosis."""
        if self._engine is not None:
            raise RuntimeError("this diagnosis has an environment already: make one for each.")
        spec = env.spec
        facts = Facts(
            **self._known,  # type: ignore[arg-type]
            **_spaces(env),
            reward_threshold=spec.reward_threshold if spec else None,
            time_limit=(spec.max_episode_steps if spec else None) or 0,
        )
        self._engine = Engine(facts, self._checks, self._thresholds, **self._options)
        for trouble in self._troubles:
            self._engine.trouble(trouble)
        self._engine.subscribe(self._events)
        self._told = self._events.teller(Metrics)
        self._watching.enter_context(watching(self._events))
        return _Watched(env, self._events, self._watching.close)

    def watch(
        self,
        *,
        policy: Callable[[Any], Any] | None = None,
        networks: Mapping[str, Any] | None = None,
    ) -> None:
        """Tells of the networks.

        Args:
            policy: Greedy actions for observations float32[N, ...]; must draw no random number
                and use the network that is trained.
            networks: Modules by name; names of target networks contain `target`.
        """
        self._started()
        given = dict(networks or {})
        self._events.tell(
            Attached(
                policy or (lambda observations: np.zeros((0,))),
                lambda: {
                    f"{name}.{parameter}": value.detach().cpu().numpy().copy()
                    for name, module in given.items()
                    for parameter, value in module.named_parameters()
                },
            )
        )
        if policy is None:
            self._started().without_policy()

    def metrics(self, **values: float) -> None:
        """Tells of values, such as `exploration` (the share of random actions) or a loss."""
        self._started()
        if self._told:
            self._told(Metrics(values))

    def targets(
        self,
        rewards: Any,
        next_values: Any,
        terminated: Any,
        targets: Any,
        truncated: Any = None,
    ) -> None:
        """Has targets recomputed: reward + gamma * next value * (1 - terminated).

        Args:
            rewards: As they are in the minibatch, [N].
            next_values: Of the next states, before discounting, [N].
            terminated: Whether the task ended, time limits not included, [N].
            targets: That you computed, [N].
            truncated: Whether a time limit was reached, [N].

        Raises:
            ValueError: They are not of one length, or `gamma` was not said.
        """
        engine = self._started()
        if engine.signals.facts.gamma is None:
            raise ValueError("say gamma to have targets recomputed: Diagnosis(gamma=...).")
        arrays = {
            "rewards": _plain(rewards),
            "next_values": _plain(next_values),
            "terminated": _plain(terminated),
            "targets": _plain(targets),
        }
        arrays["truncated"] = (
            np.zeros_like(arrays["rewards"]) if truncated is None else _plain(truncated)
        )
        sizes = {name: len(array) for name, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"targets have lengths {sizes}: give one number per transition.")
        values = engine.signals.values
        rows = len(arrays["rewards"])
        values["targets"] = arrays | {"gamma": engine.signals.facts.gamma, "rows": rows}
        told, ends = values.get("targets_told", (0, 0.0))
        values["targets_told"] = told + rows, ends + float(arrays["terminated"].sum())

    def returns(self, rewards: Any, returns: Any) -> None:
        """Has the discounted returns of one whole episode recomputed, up to scale and offset.

        Args:
            rewards: Of its steps in order, [steps].
            returns: That you computed, [steps].

        Raises:
            ValueError: They are not of one length, or `gamma` was not said.
        """
        told = {"rewards": _plain(rewards), "returns": _plain(returns)}
        self._tell("returns", told, {})

    def advantages(
        self,
        rewards: Any,
        values: Any,
        next_values: Any,
        terminated: Any,
        ended: Any,
        advantages: Any,
        gae_lambda: float,
    ) -> None:
        """Has generalised advantage estimates recomputed, standardised or as they are.

        Args:
            rewards: Of successive steps of one environment, [steps].
            values: Of the states before each step, [steps].
            next_values: Of the states after each step, before any reset, [steps].
            terminated: Whether the task ended, time limits not included, [steps].
            ended: Whether the episode ended in any way, [steps].
            advantages: That you computed, [steps].
            gae_lambda: Weight of longer sums.

        Raises:
            ValueError: They are not of one length, or `gamma` was not said.
        """
        told = {
            "rewards": _plain(rewards),
            "values": _plain(values),
            "next_values": _plain(next_values),
            "terminated": _plain(terminated),
            "ended": _plain(ended),
            "advantages": _plain(advantages),
        }
        self._tell("advantages", told, {"gae_lambda": gae_lambda})

    def _tell(self, name: str, arrays: dict[str, Any], more: dict[str, Any]) -> None:
        signals = self._started().signals
        if signals.facts.gamma is None:
            raise ValueError(f"say gamma to have {name} recomputed: Diagnosis(gamma=...).")
        sizes = {key: len(array) for key, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"{name} have lengths {sizes}: give one number per step.")
        signals.values[name] = arrays | more | {"gamma": signals.facts.gamma}

    def report(self) -> dict[str, Any]:
        """What `diagnosis.json` of a run has: findings, what was asked, last values."""
        return self._started().report()

    def finish(self) -> tuple[Finding, ...]:
        """Looks a last time and leaves nothing hooked in."""
        engine = self._started()
        engine.signals.step = self._events.steps
        try:
            engine.end()
        finally:
            self._watching.close()
        return self.findings

    def _started(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("call diagnosis.wrap(env) first.")
        return self._engine


class _Watched(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(
        self, env: gymnasium.Env[Any, Any], events: Events, leave: Callable[[], None]
    ) -> None:
        super().__init__(env)
        self._leave = leave
        self._count = events.stepper()
        self._tell = events.teller(Transition)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            self._count()
        except TrainingError:  # strict: nothing stays hooked in
            self._leave()
            raise
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._tell:
            told = Transition(0, action, observation, reward, terminated, truncated)
            self._tell(told)
        return observation, reward, terminated, truncated, info


def _spaces(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
    actions, seen = env.action_space, env.observation_space
    known: dict[str, Any] = {}
    if isinstance(seen, gymnasium.spaces.Box):
        known |= {"observation_low": seen.low.ravel(), "observation_high": seen.high.ravel()}
    if isinstance(actions, gymnasium.spaces.Discrete):
        return known | {"choices": int(actions.n)}
    if isinstance(actions, gymnasium.spaces.Box):
        low, high = (
            tuple(float(x) for x in bound.ravel()) for bound in (actions.low, actions.high)
        )
        return known | {"action_low": low, "action_high": high}
    raise ValueError(f"actions {actions} are neither a Box nor Discrete: they cannot be watched.")


def _plain(values: Any) -> Any:
    values = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    return np.array(values, float).reshape(-1)[:_ROWS]
