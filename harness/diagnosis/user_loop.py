"""Diagnosis of a user's own training loop, without adapter and run folder.

diagnosis = Diagnosis(steps=20_000, gamma=0.99)
env = diagnosis.wrap(env)
diagnosis.watch(policy=greedy, networks={"q": q, "q_target": target})
...
diagnosis.metrics(exploration=epsilon)
diagnosis.targets(rewards, next_values, terminated, targets)
diagnosis.finish()
"""

import atexit
import contextlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from parallax.harness.contract.events import (
    EnvTransition,
    PolicyAttached,
    ReportedMetrics,
    TrainingError,
    TrainingEvents,
    watch_libraries,
)
from parallax.harness.diagnosis.check import CheckFinding, DiagnosisCheck
from parallax.harness.diagnosis.checks import check_names, list_left_out, load_all_checks
from parallax.harness.diagnosis.engine import DiagnosisEngine
from parallax.harness.diagnosis.signals import TrainingFacts

if TYPE_CHECKING:
    import pandas

_MAX_REPORTED_ROWS = 4096


class Diagnosis:
    """Diagnosis of one training in your own program.

    It draws no random numbers and does not change its inputs. It observes only optimizers of
    libraries that have a watcher (PyTorch).
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
        extra_checks: Sequence[DiagnosisCheck] = (),
        only: Sequence[str] = (),
        skip: Sequence[str] = (),
        period: int | None = None,
        periods: Mapping[str, int] | None = None,
        strict: bool = False,
        say: Callable[[str], None] = print,
        names: Mapping[str, str] | None = None,
    ) -> None:
        """Create a diagnosis; `wrap` and `watch` start it.

        Args:
            steps: Environment steps in total; without it, checks of the last fifth are skipped.
            gamma: Discount factor.
            target_interval: Environment steps between target updates.
            tau: Weight of the main network in a target update.
            learning_starts: Environment steps before the first update.
            replays: Whether minibatches are drawn from a replay buffer; pass False for an on-policy
                algorithm to skip the checks of replay.
            thresholds: By check id, if not the default.
            extra_checks: Your own checks.
            only: Ids of the checks to evaluate; all if empty.
            skip: Ids of checks to leave out.
            period: Environment steps between evaluations; by default a hundredth of `steps` and at
                least 400, or 500 without `steps`.
            periods: Minimum number of steps between two evaluations by check id, if it is larger
                than `period`.
            strict: Whether a finding at error level raises `TrainingError` in `env.step`.
            say: Prints a message; called once per finding.
            names: Your names of our hyperparameters; remedies have them instead of ours.

        Raises:
            SpecError: A name is not the id of a check, or no check is left.
        """
        found, troubles = load_all_checks()
        self._checks = [*found, *extra_checks]
        self._thresholds = dict(thresholds or {})
        check_names([*self._thresholds, *(periods or {})], self._checks)
        self._known = {
            "steps": steps,
            "gamma": gamma,
            "target_interval": target_interval,
            "tau": tau,
            "learning_starts": learning_starts,
            "replays": replays,
        }
        self._options: dict[str, Any] = {
            "strict": strict,
            "period": period,
            "periods": periods,
            "left_out": list_left_out(self._checks, only, skip),
            "say": say,
            "names": names,
            "replaces_names": True,  # a user's own loop has no options of `parallax train`
        }
        self._troubles, self._events = troubles, TrainingEvents()
        self._engine: DiagnosisEngine | None = None
        self._is_finished = False
        self._watching = contextlib.ExitStack()
        self._publish_metrics: Callable[[ReportedMetrics], None] | None = None

    @property
    def findings(self) -> tuple[CheckFinding, ...]:
        """Findings so far, in the order they were found."""
        return tuple(self._require_engine().findings.values())

    def wrap(self, env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
        """Return the environment with the diagnosis attached; one environment per diagnosis."""
        if self._engine is not None:
            raise RuntimeError(
                "this diagnosis already wraps an environment: create one Diagnosis per environment."
            )
        spec = env.spec
        facts = TrainingFacts(
            **self._known,  # type: ignore[arg-type]
            **_describe_spaces(env),
            reward_threshold=spec.reward_threshold if spec else None,
            time_limit=(spec.max_episode_steps if spec else None) or 0,
        )
        self._engine = DiagnosisEngine(facts, self._checks, self._thresholds, **self._options)
        for trouble in self._troubles:
            self._engine.report_problem(trouble)
        self._engine.subscribe(self._events)
        self._publish_metrics = self._events.get_publisher(ReportedMetrics)
        self._watching.enter_context(watch_libraries(self._events))
        atexit.register(self._finish_at_exit)
        self._watching.callback(atexit.unregister, self._finish_at_exit)
        return _DiagnosedEnv(env, self._events, self._watching.close)

    def watch(
        self,
        *,
        policy: Callable[[Any], Any] | None = None,
        networks: Mapping[str, Any] | None = None,
    ) -> None:
        """Set the policy and the networks.

        Args:
            policy: Returns greedy actions for observations float32[N, ...]; must draw no random
                numbers and use the network that is trained.
            networks: Modules by name; names of target networks contain `target`.
        """
        self._require_engine()
        given = dict(networks or {})
        self._events.publish(
            PolicyAttached(
                policy or (lambda observations: np.zeros((0,))),
                lambda: {
                    f"{name}.{parameter}": value.detach().cpu().numpy().copy()
                    for name, module in given.items()
                    for parameter, value in module.named_parameters()
                },
            )
        )
        if policy is None:
            self._require_engine().drop_policy()

    def metrics(self, **values: float) -> None:
        """Report values, such as `exploration` (the share of random actions) or a loss."""
        self._require_engine()
        if self._publish_metrics:
            self._publish_metrics(ReportedMetrics(values))

    def targets(
        self, rewards: Any, next_values: Any, terminated: Any, targets: Any, truncated: Any = None
    ) -> None:
        """Compare targets with reward + gamma * next value * (1 - terminated).

        Args:
            rewards: Rewards of the minibatch, [N].
            next_values: Values of the next states, before discounting, [N].
            terminated: Whether the task ended, time limits not included, [N].
            targets: Your targets, [N].
            truncated: Whether a time limit was reached, [N].

        Raises:
            ValueError: The lengths differ, or `gamma` was not given.
        """
        rows = len(_to_flat_array(rewards))
        given = {
            "rewards": rewards,
            "next_values": next_values,
            "terminated": terminated,
            "targets": targets,
            "truncated": np.zeros(rows) if truncated is None else truncated,
        }
        found = self._store_reported("targets", given, "transition", rows=rows)
        values = self._require_engine().signals.values
        count, ends = values.get("reported_targets", (0, 0.0))
        values["reported_targets"] = count + rows, ends + float(found["terminated"].sum())

    def returns(self, rewards: Any, returns: Any) -> None:
        """Compare the discounted returns of one whole episode, up to scale and offset.

        Args:
            rewards: Rewards of its steps in order, [steps].
            returns: Your returns, [steps].

        Raises:
            ValueError: The lengths differ, or `gamma` was not given.
        """
        self._store_reported("returns", {"rewards": rewards, "returns": returns})

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
        """Compare advantages with GAE, standardised or not.

        Args:
            rewards: Rewards of successive steps of one environment, [steps].
            values: Values of the states before each step, [steps].
            next_values: Values of the states after each step, before any reset, [steps].
            terminated: Whether the task ended, time limits not included, [steps].
            ended: Whether the episode ended in any way, [steps].
            advantages: Your advantages, [steps].
            gae_lambda: Lambda of GAE.

        Raises:
            ValueError: The lengths differ, or `gamma` was not given.
        """
        given = {
            "rewards": rewards,
            "values": values,
            "next_values": next_values,
            "terminated": terminated,
            "ended": ended,
            "advantages": advantages,
        }
        self._store_reported("advantages", given, gae_lambda=gae_lambda)

    def _store_reported(
        self, name: str, given: Mapping[str, Any], row: str = "step", **more: float
    ) -> dict[str, Any]:
        signals = self._require_engine().signals
        if signals.facts.gamma is None:
            raise ValueError(
                f"{name} cannot be recomputed without gamma: use Diagnosis(gamma=...)."
            )
        arrays = {key: _to_flat_array(values) for key, values in given.items()}
        sizes = {key: len(array) for key, array in arrays.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"{name} have lengths {sizes}: give one number per {row}.")
        signals.values[name] = arrays | more | {"gamma": signals.facts.gamma}
        return arrays

    def report(self) -> dict[str, Any]:
        """Return the content of `diagnosis.json`: findings, evaluated checks, signals."""
        return self._require_engine().report()

    def to_frame(self) -> "pandas.DataFrame":
        """Return the findings as a table with one row per finding."""
        import pandas  # imported here: it takes half a second, and training does not need it

        rows = [dict(finding.to_dict()) for finding in self.findings]
        return pandas.DataFrame(rows, columns=list(CheckFinding.COLUMNS))

    def __enter__(self) -> "Diagnosis":
        """Return the diagnosis; leaving the context evaluates the checks one last time."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Evaluate the checks one last time, also after an error, which propagates."""
        if self._engine is None or self._is_finished:
            return
        if error is None:
            self.finish()
        elif isinstance(error, Exception) and not isinstance(error, TrainingError):
            self._is_finished = True
            self._engine.end_after_failure(f"{type(error).__name__}: {error}")
        self._watching.close()

    def _finish_at_exit(self) -> None:
        # Of a script that ends without `finish`, such as by an error.
        error = getattr(sys, "last_value", None)
        self.__exit__(type(error) if error else None, error, None)

    def finish(self) -> tuple[CheckFinding, ...]:
        """Evaluate the checks one last time, remove all hooks and return the findings."""
        engine, self._is_finished = self._require_engine(), True
        engine.signals.step = self._events.steps
        try:
            engine.end()
        finally:
            self._watching.close()
        return self.findings

    def _require_engine(self) -> DiagnosisEngine:
        if self._engine is None:
            raise RuntimeError("call diagnosis.wrap(env) first.")
        return self._engine


class _DiagnosedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(
        self, env: gymnasium.Env[Any, Any], events: TrainingEvents, leave: Callable[[], None]
    ) -> None:
        super().__init__(env)
        self._leave = leave
        self._first_action = int(getattr(env.action_space, "start", 0))  # of a Discrete space
        self._count = events.make_step_counter()
        self._publish = events.get_publisher(EnvTransition)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        try:
            self._count()
        except TrainingError:  # strict: remove all hooks
            self._leave()
            raise
        observation, reward, terminated, truncated, info = self.env.step(action)
        if self._publish:
            taken = action - self._first_action if self._first_action else action
            self._publish(EnvTransition(0, taken, observation, reward, terminated, truncated))
        return observation, reward, terminated, truncated, info


def _describe_spaces(env: gymnasium.Env[Any, Any]) -> dict[str, Any]:
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
    raise ValueError(f"action space {actions} is neither Box nor Discrete: it cannot be diagnosed.")


def _to_flat_array(values: Any) -> Any:
    values = values.detach().cpu().numpy() if hasattr(values, "detach") else np.asarray(values)
    return np.array(values, float).reshape(-1)[:_MAX_REPORTED_ROWS]
