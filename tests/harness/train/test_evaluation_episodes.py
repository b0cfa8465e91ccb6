"""Ends of evaluation episodes, on a counting task."""

import itertools
import math
import types

import gymnasium
import msgspec
import numpy as np
import pytest

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import Task
from parallax.harness.contract.events import (
    EvaluationResult,
    PolicyAttached,
    TrainingEnd,
    TrainingError,
    TrainingEvents,
)
from parallax.harness.train import evaluation
from parallax.harness.train.evaluation import (
    PolicyEvaluator,
    compute_episode_seeds,
    evaluate_greedy_policy,
)


class Countdown(gymnasium.Env):
    """Ends after as many steps as the seed says, and cannot be stepped afterwards.

    Observes the number of steps left. Pays the action; -1 makes the reward infinite and
    -2 the observation.
    """

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = gymnasium.spaces.Box(-9.0, 9.0, (1,))

    def reset(self, *, seed=None, options=None):
        self.left = float(seed)
        return np.array([self.left]), {}

    def step(self, action):
        assert self.left > 0, "stepped after the end"
        self.left -= 1
        seen = np.inf if action[0] == -2 else self.left
        reward = np.inf if action[0] == -1 else float(action[0])
        return np.array([seen]), reward, self.left == 0, False, {}


@pytest.fixture
def countdown(monkeypatch):
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    gymnasium.register("Countdown-v0", entry_point=Countdown, max_episode_steps=6)
    return lambda n: make_batched_env("Countdown-v0", n)


def constant(value):
    return lambda observations: np.full((len(observations), 1), value, np.float32)


def test_every_episode_is_played_to_its_end_and_no_further(countdown):
    evaluation = evaluate_greedy_policy(constant(2.0), countdown(4), [1, 5, 9, 3])
    # The third reaches the time limit.
    assert evaluation.lengths.tolist() == [1, 5, 6, 3]
    assert evaluation.returns.tolist() == [2.0, 10.0, 12.0, 6.0]
    assert evaluation.is_finite


def test_policy_sees_all_rows_until_the_last_episode_ends(countdown):
    batches = []

    def policy(observations):
        batches.append(observations[:, 0].tolist())
        return constant(0.0)(observations)

    evaluate_greedy_policy(policy, countdown(3), [1, 2, 4])
    assert batches == [[1, 2, 4], [0, 1, 3], [0, 0, 2], [0, 0, 1]]


@pytest.mark.parametrize(
    ("bad", "steps"),
    [(np.nan, 1), (np.inf, 1), (-1.0, 2), (-2.0, 2)],
    ids=["action is nan", "action is infinite", "reward", "observation"],
)
def test_number_that_is_not_finite_ends_the_episode_with_nan(countdown, bad, steps):
    calls = []

    def policy(observations):
        assert np.isfinite(observations).all()
        calls.append(1)
        actions = constant(1.0)(observations)
        if len(calls) == 2:
            actions[1] = bad
        return actions

    evaluation = evaluate_greedy_policy(policy, countdown(3), [3, 4, 5])
    assert np.isnan(evaluation.returns).tolist() == [False, True, False]
    assert evaluation.returns[[0, 2]].tolist() == [3.0, 5.0]
    assert evaluation.lengths.tolist() == [3, steps, 5]
    assert not evaluation.is_finite


def test_permanently_non_finite_observations_end_immediately(countdown):
    evaluation = evaluate_greedy_policy(constant(1.0), countdown(2), [3, np.inf])
    assert evaluation.lengths.tolist() == [3, 0]
    assert np.isnan(evaluation.returns).tolist() == [False, True]


def test_observation_too_large_for_float32_is_not_hidden(countdown):
    def enlarge(observations):
        return np.where(observations == 4, 1e300, observations)

    with pytest.warns(RuntimeWarning, match="overflow"):
        evaluation = evaluate_greedy_policy(constant(1.0), countdown(2), [3, 5], enlarge)
    assert np.isnan(evaluation.returns).tolist() == [False, True]
    assert evaluation.lengths.tolist() == [3, 1]


def test_actions_reach_the_task_as_the_policy_returns_them(countdown):
    evaluation = evaluate_greedy_policy(constant(1e6), countdown(1), [2])
    assert evaluation.returns.tolist() == [2e6]


@pytest.mark.parametrize("shape", [(3,), (2, 1), (3, 2)])
def test_actions_of_another_shape_are_refused(countdown, shape):
    with pytest.raises(ValueError, match="shape"):
        evaluate_greedy_policy(lambda _: np.zeros(shape, np.float32), countdown(3), [3, 4, 5])


class Rememberer:
    """Names the cue that it saw at an episode's first step."""

    def __init__(self):
        self.begun, self.rewards = 0, []

    def __call__(self, observations):
        raise AssertionError("it was queried without its memory")

    def begin(self):
        self.begun += 1
        policy, seen = self, []

        class Player:
            def __call__(self, observations):
                seen.append(observations[:, 0].copy())
                return (seen[0] > 0).astype(np.int64)

            def observe_rewards(self, rewards):
                policy.rewards.append(rewards.copy())

        return Player()


def test_recurrent_policies_start_each_evaluation_with_a_fresh_state():
    policy, env = Rememberer(), make_batched_env("MemoryChain-4-v0", 6)
    for first in (0, 6):
        evaluation = evaluate_greedy_policy(policy, env, range(first, first + 6))
        assert evaluation.returns.tolist() == [1.0] * 6
    assert policy.begun == 2
    assert np.sum(policy.rewards[:4], axis=0).tolist() == [1.0] * 6


@pytest.fixture
def evaluator(countdown, monkeypatch):
    """Makes an evaluator by whose clocks each evaluation takes 2 s, and 3 s of the processor."""
    clocks = (itertools.count(0.0, step) for step in (2.0, 3.0))
    names = zip(("monotonic", "process_time"), clocks, strict=True)
    reads = {name: lambda clock=clock: next(clock) for name, clock in names}
    monkeypatch.setattr(evaluation, "time", types.SimpleNamespace(**reads))

    def make(**changes):
        values = {"env": "Countdown-v0", "task_name": "Countdown-v0", "env_options": {}, "seed": 1}
        values |= {"evaluation_seed": 2, "eval_episodes": 2, "eval_every": 10}
        spec = types.SimpleNamespace(**(values | {"evaluate_untrained": False} | changes))
        events = TrainingEvents()
        return PolicyEvaluator(spec, events, lambda: lambda observations: observations), events

    return make


@pytest.mark.parametrize(
    ("untrained", "steps", "indices"),
    [(False, [10, 20, 25], [0, 1, 2]), (True, [0, 10, 20, 25], [2**31, 0, 1, 2])],
)
def test_policies_are_evaluated_on_schedule_from_their_own_states(
    evaluator, untrained, steps, indices
):
    made, events = evaluator(evaluate_untrained=untrained)
    found, seen = [], []
    events.subscribe(EvaluationResult, lambda one: found.append((events.steps, *one.returns)))

    def policy(observations):
        seen.append(observations[:, 0].tolist())
        return constant(0.5)(observations)

    events.publish(PolicyAttached(policy, dict))
    assert made.last_score is None
    count = events.make_step_counter()
    for _ in range(25):
        count()
    events.publish(TrainingEnd())
    assert found == [(step, 3.0, 3.0) for step in steps] and made.last_score == 3.0
    seeds = [compute_episode_seeds(2, "Countdown-v0", 1, index, 2) for index in indices]
    assert seen[::6] == [np.float32(each).tolist() for each in seeds]
    number = len(steps)
    state = {"done": number, "next": 30, "seconds": 2.0 * number, "cpu_seconds": 3.0 * number}
    assert made.state() == state
    other, others = evaluator(evaluate_untrained=untrained)
    others.steps = 25
    state |= {"done": number - 1}  # the last one is due at the end
    other.load_state(state)
    assert other.state() == state
    others.steps = 20
    other.load_state({"done": number - 2, "next": 20, "seconds": 5.0})
    assert other.seconds == 5.0 and math.isnan(other.cpu_seconds)
    with pytest.raises(msgspec.ValidationError, match="seconds"):
        other.load_state(state | {"seconds": "5"})


def test_missing_policy_or_non_finite_return_ends_the_run(evaluator):
    _, events = evaluator()
    with pytest.raises(TrainingError, match=r"^the adapter has attached no policy$"):
        events.publish(TrainingEnd())
    _, events = evaluator()
    found = []
    events.subscribe(EvaluationResult, found.append)
    events.publish(PolicyAttached(constant(np.nan), dict))
    events.steps = 7
    with pytest.raises(TrainingError, match=r"^an evaluation at step 7 returned a number that is"):
        events.publish(TrainingEnd())
    assert len(found) == 1


@pytest.mark.parametrize("episodes", [1, 3])
def test_policies_without_training_cost_time_and_have_a_spread(evaluator, monkeypatch, episodes):
    monkeypatch.setattr(evaluation, "MAX_REFERENCE_STEPS", 3)
    made, _ = evaluator(eval_episodes=episodes)
    found = made.measure_references()
    assert found["do nothing"] == {"mean": 0.0, "sd": 0.0, "episodes": episodes}
    assert (found["random actions"]["sd"] > 0) == (episodes > 1)
    assert 0 < abs(found["random actions"]["mean"]) < 54
    assert (made.seconds, made.cpu_seconds) == (2.0, 3.0)
    gymnasium.register("Endless-v0", entry_point=Countdown)
    endless, _ = evaluator(env="Endless-v0", task_name="Endless-v0")
    assert endless.measure_references() == {}


def test_reference_actions_are_within_the_tasks_bounds():
    shown = np.zeros((500, 4))
    task = Task("A-v0", 4, (1.0, -2.0), (3.0, 2.0), 100)
    (idle,), draw = evaluation._make_reference_policies(task, [5])
    assert idle(shown[:2]).tolist() == [[1.0, 0.0]] * 2
    actions = draw(shown)
    assert actions.shape == (500, 2) and actions.dtype == np.float32
    low, high = actions.min(axis=0), actions.max(axis=0)
    assert (low >= [1, -2]).all() and (high <= [3, 2]).all()
    assert (low < [1.1, -1.8]).all() and (high > [2.9, 1.8]).all()
    for choices, tried in ((3, 3), (30, 20)):
        task = Task("A-v0", 4, (), (), 100, choices)
        constants, draw = evaluation._make_reference_policies(task, [5])
        assert [one(shown[:2]).tolist() for one in constants] == [[i, i] for i in range(tried)]
        assert set(draw(shown).tolist()) == set(range(choices))
