"""Signals of made-up steps: bounded memory, images, and missing signals are named."""

import pickle

import gymnasium
import numpy as np
import pytest

from parallax.harness.contract.events import (
    EnvStep,
    EnvTransition,
    PolicyAttached,
    ReportedMetrics,
    TrainingEvents,
)
from parallax.harness.diagnosis.check import CheckResult, DiagnosisCheck
from parallax.harness.diagnosis.checks import load_all_checks, load_own_checks
from parallax.harness.diagnosis.engine import DiagnosisEngine, compute_default_period
from parallax.harness.diagnosis.environment_signals import CHUNK_STEPS, EnvironmentSignalCollector
from parallax.harness.diagnosis.parameter_signals import ParameterSignalCollector
from parallax.harness.diagnosis.policy_signals import PolicySignalCollector
from parallax.harness.diagnosis.signals import TrainingFacts, TrainingSignals
from parallax.harness.diagnosis.user_loop import Diagnosis

CONTINUOUS = {"action_low": (-1.0,), "action_high": (1.0,)}


def walk(collector, begin, end, shape=(3,), choices=0, episode=40, n_envs=1):
    """Notes steps, and a metric every tenth."""
    rng = np.random.default_rng(begin)
    for step in range(begin, end):
        collector.signals.step = step
        action = int(rng.integers(choices)) if choices else rng.uniform(-1, 1, 1)
        ended = step % episode == episode - 1
        seen = rng.normal(size=shape)
        collector.add_transition(EnvTransition(step % n_envs, action, seen, 1.0, ended, False))
        if step % 10 == 0:
            collector.add_metrics(ReportedMetrics({"loss": 1.0, "entropy": 2.0}))


def test_memory_does_not_grow_with_steps():
    collector = EnvironmentSignalCollector(TrainingFacts(steps=10**6, **CONTINUOUS))
    walk(collector, 0, 20_000)
    early = len(pickle.dumps(collector.__dict__))
    walk(collector, 20_000, 60_000)
    late = len(pickle.dumps(collector.__dict__))
    assert late < 1.5 * early  # a series is between half and all of its 256 values
    assert late < 200_000


def test_returns_have_a_deviation_from_the_tenth_episode_on():
    collector = EnvironmentSignalCollector(TrainingFacts(choices=2))
    for step in range(11):  # episodes of one step that return 0, 1, 2, ...
        collector.signals.step = step
        collector.add_transition(EnvTransition(0, 1, np.zeros(2), float(step), True, False))
    steps, values = collector.signals.series["return_deviation"].all()
    assert steps.tolist() == [9, 10]
    assert values == pytest.approx([np.std(np.arange(10)), np.std(np.arange(1, 11))])


def test_bounds_of_observations_have_a_tolerance_each():
    shares = []
    for excess in (0.5, 2.0):  # the bound itself has a rounding error of 1
        facts = TrainingFacts(
            choices=2, observation_low=np.zeros(1), observation_high=np.full(1, 1e5)
        )
        collector = EnvironmentSignalCollector(facts)
        for step in range(2 * CHUNK_STEPS):
            collector.signals.step = step
            seen = np.full(1, 1e5 + excess)
            collector.add_transition(EnvTransition(0, 1, seen, 1.0, False, False))
        shares.append(collector.signals.series["outside_space"].all()[1][-1])
    assert shares == [0.0, 1.0]


class Coin(gymnasium.Env):
    """A task whose two actions are -1 and 0."""

    action_space = gymnasium.spaces.Discrete(2, start=-1)
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))

    def step(self, action):
        assert action in self.action_space
        return np.zeros(2, np.float32), 1.0, False, False, {}


def test_discrete_actions_that_do_not_begin_at_zero_are_counted():
    diagnosis = Diagnosis(steps=2 * CHUNK_STEPS)
    env = diagnosis.wrap(Coin())
    for step in range(2 * CHUNK_STEPS):
        env.step(-(step % 2))
    assert diagnosis._engine.signals.series["entropy"].all()[1][-1] == pytest.approx(1.0)
    diagnosis.finish()


def test_images_are_recorded_and_passed_unchanged():
    collector = EnvironmentSignalCollector(TrainingFacts(choices=3))
    walk(collector, 0, CHUNK_STEPS + 40, shape=(4, 4, 2), choices=3)
    shapes = []
    PolicySignalCollector(collector.signals).query(
        lambda seen: shapes.append(seen.shape) or np.zeros(len(seen), int),
        np.asarray,
        collector.get_last_steps(),
    )
    assert shapes[0][1:] == (4, 4, 2)
    assert collector.get_recent_observations().shape == (CHUNK_STEPS, 32)


def test_episodes_of_parallel_environments_are_separated():
    collector = EnvironmentSignalCollector(TrainingFacts(choices=2, n_envs=2))
    for step in range(40):
        ended = step in (18, 39)  # environments 0 and 1, after 10 and 20 of their steps
        collector.add_transition(EnvTransition(step % 2, 1, np.zeros(3), 1.0, ended, False))
    assert [(e.length, e.episode_return) for e in collector.signals.episodes] == [
        (10, 10.0),
        (20, 20.0),
    ]


def watched(checks, steps=300, period=50, **options):
    """Run the diagnosis on a training that attaches no networks."""
    said, events = [], TrainingEvents()
    engine = DiagnosisEngine(
        TrainingFacts(steps=steps, choices=2),
        *(checks, {}),
        **{"period": period, "say": said.append, **options},
    )
    engine.subscribe(events)
    events.publish(PolicyAttached(lambda seen: np.zeros(len(seen), int), dict))
    count, publish = events.make_step_counter(), events.get_publisher(EnvTransition)
    rng = np.random.default_rng(0)
    for step in range(steps):
        count()
        publish(
            EnvTransition(0, int(rng.integers(2)), rng.normal(size=3), 1.0, step % 30 == 29, False)
        )
    engine.end()
    return engine, said


def check(name, *needs):
    words = ("causes", "remedies", "may be wrong")
    return DiagnosisCheck(
        *(
            name,
            "mine",
            "throughout",
            "warning",
            needs,
            0.0,
            "own",
            lambda s, t: CheckResult("It is.", 1),
        ),
        *words,
    )


def test_checks_without_their_signal_are_reported_once():
    engine, said = watched([check("MINE", "return"), check("OTHER", "lenght", "return")])
    assert (
        engine.list_missing_signals() == {"OTHER": ["lenght"]} == engine.report()["missing_signals"]
    )
    assert len([line for line in said if "OTHER (lenght)" in line]) == 1
    assert len([line for line in said if "MINE" in line]) == 1
    assert not engine.problems


def test_a_check_has_its_own_period_and_can_be_left_out():
    checks = [check("OFTEN", "return"), check("SELDOM", "return"), check("NEVER", "return")]
    left_out = {"NEVER": "diagnosis.skip"}
    engine, _ = watched(checks, 600, 20, periods={"SELDOM": 200}, left_out=left_out)
    report = engine.report()
    assert report["not_applicable"] == left_out and "NEVER" not in report["evaluations"]
    assert report["evaluations"]["OFTEN"] > 20
    assert report["evaluations"]["SELDOM"] == 4  # three periods, and the end


def test_check_that_cannot_be_imported_is_named():
    checks, troubles = load_all_checks(["no_such_module:CHECK", "json:JSONDecoder"])
    assert [one.id for one in checks] == [one.id for one in load_own_checks()]
    assert "no_such_module:CHECK" in troubles[0] and "json:JSONDecoder" in troubles[1]


def test_check_names_are_unique_and_imports_cannot_end_python(tmp_path, monkeypatch):
    own = load_own_checks()
    (tmp_path / "ends_python.py").write_text("raise SystemExit(0)")
    (tmp_path / "same_id.py").write_text(
        "import dataclasses\n"
        "from parallax.harness.diagnosis.checks import load_own_checks\n"
        "CHECK = dataclasses.replace(load_own_checks()[0], threshold=1e9)\n"
        "SAME = load_own_checks()[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    checks, troubles = load_all_checks(["ends_python:CHECK", "same_id:CHECK", "same_id:SAME"])
    assert checks == own
    assert len(troubles) == 2 and f"a check {own[0].id} already exists" in troubles[1]


def test_checks_run_every_hundredth_of_the_run_at_uneven_steps():
    assert compute_default_period(10**6) == 10**4 and compute_default_period(3000) == 400
    engine, _ = watched([], steps=3000, period=100)
    assert 28 <= engine.report()["n_evaluations"] <= 32


def test_failing_policy_is_reported_once_and_not_queried_again():
    said, events = [], TrainingEvents()
    engine = DiagnosisEngine(
        TrainingFacts(steps=300, choices=2), load_own_checks(), {}, period=20, say=said.append
    )
    engine.subscribe(events)

    def fails(seen):
        raise ValueError("on purpose")

    events.publish(PolicyAttached(fails, dict))
    count, publish = events.make_step_counter(), events.get_publisher(EnvTransition)
    for _ in range(300):
        count()
        publish(EnvTransition(0, 1, np.zeros(3), 1.0, False, False))
    engine.end()
    assert len([line for line in said if "on purpose" in line]) == 1
    assert events.has_subscriber(EnvStep)


@pytest.mark.parametrize("scale", [1, 5])
def test_actions_of_any_range_have_the_same_entropy(scale):
    facts = TrainingFacts(action_low=(-scale,), action_high=(scale,))
    collector = EnvironmentSignalCollector(facts)
    rng = np.random.default_rng(0)
    for step in range(3 * CHUNK_STEPS):
        collector.signals.step = step
        action = scale * rng.uniform(-1, 1, 1)
        collector.add_transition(EnvTransition(0, action, rng.normal(size=2), 0.0, False, False))
    assert collector.signals.series["entropy"].latest == pytest.approx(0.98, abs=0.02)


def test_initial_scale_of_a_matrix_is_independent_of_its_orientation():
    rows = np.random.default_rng(5).normal(size=(256, 3)) / np.sqrt(3)  # units, inputs
    kernels = {"a.weight": rows, "b.kernel": rows.T, "c.kernel": np.stack([rows.T, rows.T])}
    signals = TrainingSignals(TrainingFacts(**CONTINUOUS), values={"beginning": True})
    ParameterSignalCollector(signals).read(kernels)
    for spread, _, equal in signals.values["first_weights"].values():
        assert spread == pytest.approx(1.0, abs=0.1) and not equal
    signals = TrainingSignals(TrainingFacts(**CONTINUOUS), values={"beginning": True})
    ParameterSignalCollector(signals).read({"alike.kernel": np.tile(rows[:1].T, 4)})
    assert signals.values["first_weights"]["alike.kernel"][2]
