"""Checks are pure: from signals that are made up to what is seen, without any training."""

import numpy as np
import pytest

from harness.contract.fields import SpecError
from harness.diagnosis.check import Check
from harness.diagnosis.checks.targets import recomputed
from harness.diagnosis.collector import entropy, paired
from harness.diagnosis.networks import effective_rank
from harness.diagnosis.registry import ABSENT, check_thresholds, default_thresholds, own_checks
from harness.diagnosis.signals import Facts, Series, Signals, fluctuation

CHECKS = {check.id: check for check in own_checks()}
TABLE = (
    *(f"AGT_d{n}" for n in range(1, 5)),
    *(f"ENV_d{n}" for n in range(1, 4)),
    *(f"STT_d{n}" for n in range(1, 4)),
    "STP_d1",
    *("EXP_d1", "EXP_d2"),
    *(f"RWD_d{n}" for n in range(1, 4)),
    *(f"ACN_d{n}" for n in range(1, 8)),
    "QTR_d1",
)


def signals(step=1000, facts=None, series=(), values=None, metrics=()):
    made = Signals(facts or Facts(steps=10_000, gamma=0.99))
    for name, numbers in dict(series).items():
        for index, number in enumerate(numbers):
            made.step = index * step // len(numbers)
            made.add(name, number)
    for name, numbers in dict(metrics).items():
        made.metrics[name] = Series()
        for index, number in enumerate(numbers):
            made.metrics[name].add(index, number)
    made.values.update(values or {})
    made.step = step
    return made


def asked(name, made):
    return CHECKS[name].ask(made, CHECKS[name].threshold)


def test_every_check_of_the_table_is_asked_or_told_to_be_absent():
    assert len(TABLE) == 24
    assert set(TABLE) == (set(CHECKS) & set(TABLE)) | (set(ABSENT) & set(TABLE))
    assert not set(CHECKS) & set(ABSENT)


@pytest.mark.parametrize("check", own_checks(), ids=lambda check: check.id)
def test_words_are_there(check: Check):
    assert check.causes and check.remedies and check.may_be_wrong and check.source
    assert check.needs


FIRES = {
    "AGT_d1": (
        {"facts": Facts(target_interval=100), "series": {"target_age": [100, 400]}},
        {"facts": Facts(target_interval=100), "series": {"target_age": [400, 100]}},
    ),
    "AGT_d2": (
        {"series": {"target_equal": [1] * 5}},
        {"series": {"target_equal": [1, 1, 0, 1, 1]}},
    ),
    "AGT_d3": ({"series": {"acts_by_itself": [0] * 3}}, {"series": {"acts_by_itself": [0, 1, 0]}}),
    "ACN_d2": (
        {"series": {"entropy": [0.5] * 10}},
        {"series": {"entropy": [0.5, 0.4] * 5}},
    ),
    "ACN_d5": (
        {"series": {"top_action": [0.99] * 4}},
        {"series": {"top_action": [1, 1, 0.7, 1]}},
    ),
    "EXP_d1": (
        {"series": {"random_share": [0.0] * 5}},
        {"series": {"random_share": [1.0, 0.9, 0.5, 0.1, 0.1]}},
    ),
    "EXP_d2": (
        {"series": {"random_share": [1.0, 0.2, *[0.05] * 12]}},
        {"step": 10_000, "series": {"random_share": np.linspace(1, 0.05, 14)}},
    ),
    "NN_weight": (
        {"values": {"weights_finite": True, "first_weights": {"a": (0.0, 0.1, True)}}},
        {"values": {"weights_finite": True, "first_weights": {"a": (1.0, 0.1, False)}}},
    ),
    "NN_bias": (
        {"values": {"first_biases": {"a": 5.0}}, "series": {"bias_size": [5.0]}},
        {"values": {"first_biases": {"a": 0.2}}, "series": {"bias_size": [0.3]}},
    ),
    "NN_gradient": (
        {"series": {"gradient_norm": [1.0, np.nan]}},
        {"series": {"gradient_norm": [1.0] * 20}},
    ),
    "OVR": (
        {"series": {"value_size": [1e3] * 5}, "values": {"reward_max": 1.0}},
        {"series": {"value_size": [90.0] * 5}, "values": {"reward_max": 1.0}},
    ),
    "RWD_d1": ({"series": {"return": [-200.0] * 20}}, {"series": {"return": range(20)}}),
}


@pytest.mark.parametrize("name", FIRES)
def test_a_check_sees_its_fault_and_not_its_absence(name):
    faulty, healthy = FIRES[name]
    assert asked(name, signals(**faulty)) is not None
    assert asked(name, signals(**healthy)) is None


def minibatch(form):
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=64), rng.normal(size=64)
    ended, cut = rng.random(64) < 0.2, rng.random(64) < 0.2
    given = {"rewards": reward, "next_values": value, "terminated": ended, "truncated": cut}
    return given | {"gamma": 0.9, "targets": form(reward, value, ended, cut)}


def test_targets_are_recomputed_and_the_fault_named():
    right = minibatch(lambda r, v, t, c: (r + 0.9 * v * ~t).astype(np.float32))
    assert recomputed(signals(values={"targets": right}), 1e-4) is None
    ignored = minibatch(lambda r, v, t, c: r + 0.9 * v)
    seen = recomputed(signals(values={"targets": ignored}), 1e-4)
    assert seen and "as if no episode ever ended" in seen.text
    cut = minibatch(lambda r, v, t, c: r + 0.9 * v * ~(t | c))
    assert "time limits" in recomputed(signals(values={"targets": cut}), 1e-4).text


def test_series_stay_small_however_long_the_run_is():
    series = Series()
    for step in range(100_000):
        series.add(step, step)
    steps, values = series.all()
    assert len(steps) <= 256 and steps[0] == 0 and steps[-1] > 99_000
    assert np.array_equal(steps, values) and len(set(np.diff(steps))) == 1
    assert list(series.first(3)) == [0, 1, 2] and list(series.last(2)) == [99_998, 99_999]


def test_readings():
    assert entropy(np.array([5, 5])) == pytest.approx(1) and entropy(np.array([10, 0])) == 0
    assert fluctuation(np.arange(10) * 3.0) == pytest.approx(0, abs=1e-9)
    assert effective_rank(np.outer(np.arange(1, 9), np.ones(8))) == 1
    assert effective_rank(np.eye(8)) == 8
    weights = {"critic.0.bias": np.zeros(2), "critic_target.0.bias": np.zeros(2)}
    assert paired(weights) == [("critic_target.0.bias", "critic.0.bias")]
    weights = {"q_network.0.bias": np.zeros(2), "target_network.0.bias": np.zeros(2)}
    assert paired(weights) == [("target_network.0.bias", "q_network.0.bias")]


def test_a_threshold_of_no_check_is_refused():
    check_thresholds(["AGT_d4"], own_checks())
    with pytest.raises(SpecError, match="did you mean AGT_d4"):
        check_thresholds(["AGT_d4x"], own_checks())
    assert default_thresholds()["AGT_d4"] == CHECKS["AGT_d4"].threshold
