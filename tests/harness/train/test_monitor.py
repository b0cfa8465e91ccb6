"""A training's monitor: the best policy, environments, parts of a state, and its records."""

import types

import msgspec
import numpy as np
import pytest
import support

from parallax.envs.make import copy_observation_statistics
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.events import (
    EpisodeEnd,
    EvaluationResult,
    ReportedMetrics,
    TrainingEnd,
    TrainingError,
    TrainingEvents,
)
from parallax.harness.contract.state_codec import StateMismatchError
from parallax.harness.record.npz_files import StoredPolicy
from parallax.harness.train.monitor import BestPolicy, TrainingMonitor, record_run_events
from parallax.harness.train.prepare import prepare_run


def evaluate(events, *returns):
    events.publish(EvaluationResult(np.array(returns), np.array([1] * len(returns))))


def test_the_best_policy_is_the_latest_with_the_largest_mean():
    events, made = TrainingEvents(), []

    def learn():
        made.append(StoredPolicy({"w": np.full(2, float(len(made)))}))
        return made[-1]

    best = BestPolicy(events, learn)
    start = {"count": 0, "mean": -np.inf, "evaluation": None, "policy": None}
    assert best.state() == start
    for returns in ((1.0, 3.0), (0.0, 3.9), (2.0, 2.0), (-9.0, 5.0)):
        evaluate(events, *returns)
    assert (best.evaluation, best.policy, len(made)) == (2, made[1], 2)
    state = best.state()
    assert (state["count"], state["mean"], state["evaluation"]) == (4, 2.0, 2)
    assert state["policy"]["weights"]["w"].tolist() == [1.0, 1.0] and len(state) == 4
    events = TrainingEvents()
    other = BestPolicy(events, learn)
    other.load_state(state)
    assert other.policy.weights["w"].tolist() == [1.0, 1.0] and other.evaluation == 2
    evaluate(events, 2.0)
    assert other.evaluation == 4
    other.load_state(start)
    assert other.policy is None and other.state() == start
    weights = {"weights": {"w": np.zeros(3)}, "normalization": {}}
    for change in (
        *({"evaluation": "many"}, {"evaluation": 4}, {"evaluation": -1}, {"evaluation": None}),
        *({"policy": weights}, {"policy": {"weights": {"a": "x"}, "normalization": {}}}),
        *({"policy": None}, {"policy": 5}, {"count": "x"}, {"mean": "x"}),
    ):
        with pytest.raises((ValueError, TypeError)):
            other.load_state(state | change)


class Folder:
    """A run folder that notes what is recorded."""

    def __init__(self):
        self.recorded = []

    def record(self, step, values):
        self.recorded.append((step, dict(values)))

    def add_evaluation(self, step, returns, lengths):
        self.recorded.append((step, returns.tolist(), lengths.tolist()))

    def flush(self):
        self.recorded.append("flushed")

    def state(self):
        return "records"

    def load_state(self, state):
        self.recorded.append(state)


def test_episodes_metrics_and_evaluations_are_recorded_at_their_step():
    events, folder = TrainingEvents(), Folder()
    record_run_events(folder, events)
    events.steps = 40
    fields = dict.fromkeys(EpisodeEnd.__dataclass_fields__, 0)
    events.publish(EpisodeEnd(**(fields | {"episode_return": 3.5, "length": 20})))
    events.publish(ReportedMetrics({"loss": 0.5}))
    evaluate(events, 1.5, 2.0)
    events.publish(TrainingEnd())
    assert folder.recorded == [
        (40, {"episode/return": 3.5, "episode/length": 20.0}),
        *((40, {"loss": 0.5}), (40, [1.5, 2.0], [1, 1]), "flushed"),
    ]


class Manager:
    """Notes the parts of a state and the safe points."""

    def __init__(self):
        self.parts, self.lacking, self.points, self.has_resumed = None, None, 0, False

    def watch(self, parts, lacking):
        self.parts, self.lacking = parts, lacking

    def safe_point(self):
        self.points += 1


def make_monitor(manager=None, **changes):
    prepared = prepare_run(support.spec(n_envs=2, steps=6000, **changes), load_adapter("sb3"))
    return TrainingMonitor(prepared, Folder(), manager)


def test_a_training_has_as_many_environments_as_configured_and_all_its_steps():
    monitor = make_monitor(wrappers="normalized")
    first, second = monitor.make_env(), monitor.make_env()
    with pytest.raises(TrainingError, match=r"^upstream makes more than n_envs=2 environments$"):
        monitor.make_env()
    first.reset(seed=0)
    for _ in range(3):
        first.step(first.action_space.sample())
    second.reset(seed=1)
    second.step(second.action_space.sample())
    assert monitor.steps == 4
    shared = [copy_observation_statistics(env) for env in (first, second)]
    assert shared[0].keys() == shared[1].keys() and len(shared[0]) > 1
    assert all(np.array_equal(shared[0][name], shared[1][name]) for name in shared[0])
    assert callable(monitor.get_normalizer())
    words = "^upstream took 4 environment steps where 6000 were due$"
    with pytest.raises(TrainingError, match=words):
        monitor.finish(6000)
    ended = []
    other = make_monitor()
    other.events.subscribe(ReportedMetrics, ended.append)
    other.record({"loss": 1.0})
    assert ended == [ReportedMetrics({"loss": 1.0})]
    assert other._folder.recorded == [(0, {"loss": 1.0})]
    other.make_env()
    other.attach(lambda shown: np.zeros((len(shown), 1), np.float32), dict)
    other.finish(0)
    _, (step, returns, lengths), flushed = other._folder.recorded
    assert (step, flushed) == (0, "flushed") and returns == lengths and len(returns) == 2


def test_a_policy_has_its_weights_and_the_statistics_of_observations():
    monitor = make_monitor(wrappers="normalized")
    with pytest.raises(TrainingError, match=r"^the adapter has attached no weights$"):
        monitor.read_weights()
    monitor.make_env()
    monitor.attach("policy", lambda: {"w": np.ones(2)})
    assert monitor.read_weights()["w"].tolist() == [1.0, 1.0]
    stored = monitor.get_stored_policy()
    assert stored.weights["w"].tolist() == [1.0, 1.0] and stored != StoredPolicy(stored.weights)
    monitor.add_costs({"sampler": {"wait": 1.0}})
    monitor.add_costs({"learner": {"wait": 2.0}, "sampler": {"wait": 3.0}})
    assert monitor.costs == {"sampler": {"wait": 3.0}, "learner": {"wait": 2.0}}


def test_training_beyond_the_scheduled_steps_ends():
    """Upstream's counter may come from an altered checkpoint."""
    manager = Manager()
    monitor = make_monitor(manager)
    monitor.attach(lambda shown: shown, dict, None, None)
    clock = manager.parts["clock"]
    total = monitor._scheduled_steps
    for steps in (0, total):
        clock.load_state(steps)
        monitor.safe_point()
        assert clock.state() == steps
    for steps in (total + 1, -1, 1.5, "1"):
        with pytest.raises(ValueError, match=r"comes after the last|Expected `int`"):
            clock.load_state(steps)
    env = monitor.make_env()
    env.reset(seed=0)
    clock.load_state(total - 1)
    env.step(env.action_space.sample())
    # No safe point follows if upstream takes any number of steps between two updates.
    words = f"^upstream took more environment steps where {total} were due$"
    with pytest.raises(TrainingError, match=words):
        env.step(env.action_space.sample())
    assert monitor.steps == total
    manager.has_resumed = True
    with pytest.raises(TrainingError, match=r"were due; delete the run's folder `checkpoint/`, fr"):
        env.step(env.action_space.sample())


def check_evaluations(parts, recorded):
    """Evaluations in a state must be those that were due before its step."""
    parts["clock"].load_state(601)
    progress = {"done": 2, "next": 900, "seconds": 1.0}
    arrays = [np.zeros(2), np.zeros(2)]
    lengths = [np.zeros(2, int), np.zeros(2, int)]
    records = {"timesteps": [300, 600], "returns": arrays, "lengths": lengths}
    parts["evaluations"].load_state(progress)
    parts["records"].load_state(records)
    assert recorded == [records]
    for change in ({"done": 1}, {"next": 601}, {"next": 10**12}, {"done": 2**40}):
        with pytest.raises(
            StateMismatchError, match=r"evaluations and the next at .*, not 2 and 900"
        ):
            parts["evaluations"].load_state(progress | change)
    for change in (
        *({"timesteps": [300, 601]}, {"timesteps": [300]}, {"returns": arrays[:1]}),
        *(
            {"lengths": [np.zeros(3, int)] * 2},
            {"lengths": arrays},
            {"lengths": [np.full(2, -1)] * 2},
            {"returns": [np.full(2, 1e308)] * 2},
            {"returns": [np.full(2, np.nan)] * 2},
            {name: [] for name in records},
        ),
    ):
        with pytest.raises(StateMismatchError, match="not those until step 601"):
            parts["records"].load_state(records | change)
    assert recorded == [records]


USUAL = ["clock", "evaluations", "records", "environments", "generators"]


@pytest.mark.parametrize("best", [True, False])
def test_state_has_all_parts_in_restore_order(best):
    manager = Manager()
    monitor = make_monitor(manager, save_policy="best" if best else "last")
    loaded = []
    adapter = types.SimpleNamespace(state=lambda: "weights", load_state=loaded.append)
    monitor.attach("policy", dict, None, adapter)
    names = [*USUAL[:3], *(["best"] if best else []), "adapter", *USUAL[3:]]
    assert list(manager.parts) == names and manager.lacking == ""
    states = {name: part.state() for name, part in manager.parts.items()}
    assert (states["clock"], states["records"], states["adapter"]) == (0, "records", "weights")
    assert states["evaluations"]["done"] == 0 and states["environments"] == []
    check_evaluations(manager.parts, monitor._folder.recorded)
    manager.parts["clock"].load_state(70)
    with pytest.raises(msgspec.ValidationError):
        manager.parts["clock"].load_state("80")
    manager.parts["adapter"].load_state("other")
    assert (monitor.steps, loaded) == (70, ["other"])
    monitor.safe_point()
    assert manager.points == 1 and make_monitor().safe_point() is None


@pytest.mark.parametrize(
    ("device", "has_state", "lacking"),
    [
        ("cpu", True, ""),
        ("cuda:0", True, ""),
        (
            *("cpu", False),
            "the adapter of sb3 does not hand out its state (the fourth argument of "
            "monitor.attach)",
        ),
        ("mps", True, "the random generators of device=mps are not saved"),
    ],
)
def test_incomplete_state_names_the_reason(device, has_state, lacking):
    manager = Manager()
    monitor = make_monitor(manager)
    spec = monitor._spec
    monitor._spec = types.SimpleNamespace(device=device, framework=spec.framework)
    adapter = types.SimpleNamespace(state=dict, load_state=None)
    monitor.attach("policy", dict, None, adapter if has_state else None)
    assert manager.lacking == lacking and ("adapter" in manager.parts) == (not lacking)
