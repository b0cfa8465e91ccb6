"""Checks are pure: from signals that are made up to what is seen, without any training."""

import dataclasses

import numpy as np
import pytest

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import list_recipe_names, load_recipe
from parallax.harness.diagnosis.check import DiagnosisCheck
from parallax.harness.diagnosis.checks import (
    check_names,
    get_default_thresholds,
    list_left_out,
    load_own_checks,
)
from parallax.harness.diagnosis.checks.reported_targets import (
    compute_discounted_returns,
    detect_wrong_targets,
)
from parallax.harness.diagnosis.environment_signals import compute_normalized_entropy
from parallax.harness.diagnosis.layer_signals import compute_effective_rank
from parallax.harness.diagnosis.minibatch_matching import HeadOutput, MatchedMinibatch, MatchedRows
from parallax.harness.diagnosis.parameter_signals import pair_target_parameters
from parallax.harness.diagnosis.signals import (
    EpisodeRecord,
    SignalSeries,
    TrainingFacts,
    TrainingSignals,
    compute_fluctuation,
)
from parallax.harness.formulas import compute_gae

CHECKS = {check.id: check for check in load_own_checks()}
PAPER_IDS = {
    *(f"AGT.d{n}" for n in range(1, 5)),
    *(f"ENV.d{n}" for n in range(1, 4)),
    *(f"STT.d{n}" for n in range(1, 4)),
    "STP.d1",
    *("EXP.d1", "EXP.d2"),
    *(f"RWD.d{n}" for n in range(1, 4)),
    *(f"ACN.d{n}" for n in range(1, 8)),
    "QTR.d1",
}


def signals(step=1000, facts=None, series=(), values=None, metrics=(), episodes=()):
    made = TrainingSignals(facts or TrainingFacts(steps=10_000, gamma=0.99))
    for name, numbers in dict(series).items():
        for index, number in enumerate(numbers):
            made.step = index * step // len(numbers)
            made.add(name, number)
    for name, numbers in dict(metrics).items():
        made.metrics[name] = SignalSeries()
        for index, number in enumerate(numbers):
            made.metrics[name].add(index, number)
    made.episodes.extend(episodes)
    made.values.update(values or {})
    made.step = step
    return made


def detect(name, made):
    return CHECKS[name].detect(made, CHECKS[name].threshold)


NETWORKS = (
    "dead-or-saturated-units",
    "bad-biases",
    "bad-weights",
    "vanishing-or-exploding-gradients",
    "loss-diverges",
    "network-cannot-fit",
)


def test_every_check_of_the_table_exists():
    found = {check.paper_id for check in CHECKS.values()} - {""}
    assert len(PAPER_IDS) == 24 and found == {*PAPER_IDS, "ACN.d0"}
    assert set(NETWORKS) <= set(CHECKS)


def test_learning_rate_threshold_is_twice_the_highest_recipe_rate():
    recipes = [load_recipe(a, name) for a in ALGORITHMS for name in list_recipe_names(a)]
    fields = [pair for recipe in recipes for pair in dataclasses.asdict(recipe).items()]
    highest = max(rate for name, rate in fields if name.endswith("learning_rate"))
    check = CHECKS["learning-rate-too-high"]
    assert check.threshold == pytest.approx(2 * highest)
    assert check.source.endswith(f"twice the highest rate of the shipped recipes, {highest}")


@pytest.mark.parametrize("check", load_own_checks(), ids=lambda check: check.id)
def test_every_check_has_texts(check: DiagnosisCheck):
    assert check.causes and check.remedies and check.may_be_wrong and check.source
    assert check.needs or check.id == "not-a-number"  # it also reads the error of a run


def episodes(count, returns=1.0, same=True, truncated=True, length=12):
    """That ended in the same observations and actions, or each in its own."""
    made = []
    for index in range(count):
        rows = np.zeros((10, 2)) + (0 if same else index)
        made.append(EpisodeRecord(index * 12, returns, length, truncated, rows, rows))
    return made


def given(**arrays):
    """Arrays of a small rollout, as `diagnosis.advantages` takes them."""
    rng = np.random.default_rng(0)
    made = {name: rng.normal(size=16) for name in ("rewards", "values", "next_values")}
    made |= {"terminated": np.arange(16) % 5 == 4, "ended": np.arange(16) % 5 == 4}
    return made | {"gamma": 0.9, "gae_lambda": 0.8} | arrays


def estimates(gamma=0.9):
    known = given()
    names = ("rewards", "values", "next_values", "terminated", "ended")
    return compute_gae(*(known[name] for name in names), gamma, 0.8)


LATE = {"step": 9500}
HIGH = TrainingFacts(steps=10_000, gamma=0.99, reward_threshold=100.0)
REPLAY = {"return": [1.0], "replay_recent": [1.0] * 5}
SAME, OWN = episodes(10), episodes(10, same=False)
TARGETS = {"rewards": np.ones(8), "next_values": np.ones(8), "gamma": 0.9}
TARGETS |= {"terminated": np.zeros(8), "truncated": np.zeros(8)}


def regressions(kind, targets, first=False, heads=(), predictions=None, minibatches=6, **found):
    """The same rows in several minibatches, successive steps of one environment."""
    rows = np.arange(len(targets))
    known = {"terminated": np.zeros(len(rows), bool), "truncated": np.zeros(len(rows), bool)}
    known |= {"following": np.append(rows[1:], -1), "rewards": REWARDS} | found
    one = MatchedRows(rows=rows, steps=rows, **known)
    made = (kind, 1, first, np.asarray(targets, float), predictions, one, heads)
    return tuple(MatchedMinibatch(*made) for _ in range(minibatches))


_RNG = np.random.default_rng(3)
REWARDS, VALUES = _RNG.normal(size=24), _RNG.normal(size=(24, 2))
TARGET_HEAD = HeadOutput(VALUES, (1,), trained=False)
DQN = TrainingFacts(algorithm="dqn", steps=10_000, gamma=0.9, has_targets=True, choices=2)
PPO = TrainingFacts(gamma=0.9, has_targets=False, hyperparameters={"gae_lambda": 0.8})
ESTIMATES = compute_gae(
    *(REWARDS, VALUES[:, 0], np.append(VALUES[1:, 0], 0.0), np.arange(24) == 23),
    *(np.arange(24) == 23, 0.9, 0.8),
)
RETURNS = ESTIMATES + VALUES[:, 0]
ENDED = {"terminated": np.arange(24) % 6 == 5}


def fitted(targets, **more):
    """Regressions of a DQN whose target network was queried just before."""
    return {"regressions": regressions("values", targets, heads=(TARGET_HEAD,), **more)}


def rollout(kind, targets, **more):
    """Regressions of a PPO's first minibatch."""
    return regressions(kind, targets, first=True, predictions=VALUES[:, 0], **more)


FIRES = {
    "wrong-targets-matched": (
        {"facts": DQN, "values": fitted(REWARDS + VALUES.max(axis=1))},
        {"facts": DQN, "values": fitted(REWARDS + 0.9 * VALUES.max(axis=1))},
    ),
    "wrong-returns-matched": (
        {"facts": PPO, "values": {"regressions": rollout("values", RETURNS + 1)}},
        {"facts": PPO, "values": {"regressions": rollout("values", RETURNS)}},
    ),
    "wrong-advantages-matched": (
        {
            "facts": PPO,
            "values": {"regressions": rollout("values", RETURNS) + rollout("advantages", RETURNS)},
        },
        {
            "facts": PPO,
            "values": {
                "regressions": rollout("values", RETURNS)
                + rollout("advantages", -(ESTIMATES - 1) / 7)
            },
        },
    ),
    "target-not-updated": (
        {"facts": TrainingFacts(target_interval=100), "series": {"target_age": [100, 400]}},
        {"facts": TrainingFacts(target_interval=100), "series": {"target_age": [400, 100]}},
    ),
    "target-updated-rarely": (
        {"series": {"target_age": [100, 1200]}},
        {"series": {"target_age": [1200, 400]}},
    ),
    "target-does-not-lag": (
        {"series": {"target_equal": [1] * 5}},
        {"series": {"target_equal": [1, 1, 0, 1, 1]}},
    ),
    "wrong-acting-network": (
        {"series": {"acts_by_itself": [0] * 3}},
        {"series": {"acts_by_itself": [0, 1, 0]}},
    ),
    "large-policy-shift": (
        {"series": {"shift_round": [0.5] * 5}},
        {"series": {"shift_round": [0.5, 0.0, 0.0, 0.0, 0.0]}},
    ),
    "large-kl": (
        {"metrics": {"policy/approx_kl": [0.3] * 5}},
        {"metrics": {"policy/approx_kl": [0.3, 0.01, 0.01, 0.01, 0.3]}},
    ),
    "invalid-observations": (
        {"series": {"finite": [1, 0]}},
        {"series": {"finite": [1, 1], "observation_std": [1.0], "outside_space": [0.0]}},
    ),
    "rewards-not-scaled": ({"values": {"reward_max": 11.0}}, {"values": {"reward_max": 9.0}}),
    "task-too-easy": (
        {"facts": HIGH, "series": {"return": [120.0] * 3}},
        {"facts": HIGH, "series": {"return": [90.0] * 3}},
    ),
    "observations-not-scaled": (
        {"series": {"observation_size": [11.0, 1.0]}},
        {"series": {"observation_size": [9.0]}},
    ),
    "repeated-observation": (
        {"series": {"same_observation_run": [12, 12, 12]}},
        {"series": {"same_observation_run": [12, 0, 0]}},
    ),
    "repeated-final-states": (
        {"episodes": SAME, "series": {"return": [1.0] * 20}},
        {"episodes": OWN, "series": {"return": [1.0] * 20}},
    ),
    "truncated-without-progress": (
        {"episodes": SAME, "series": {"return": [1.0] * 20}},
        {"episodes": episodes(10, truncated=False), "series": {"return": [1.0] * 20}},
    ),
    "repeated-final-actions": (
        {"episodes": SAME, "series": {"return": [1.0] * 20}},
        {"episodes": SAME, "series": {"return": [1.0] * 10 + [9.0] * 10}},
    ),
    "low-initial-entropy": (
        {"series": {"entropy": [0.1] * 3}},
        {"series": {"entropy": [0.9, 0.1, 0.1]}},
    ),
    "entropy-rises": (
        {"series": {"entropy": [0.1] * 3 + [0.9] * 3}},
        {"series": {"entropy": [0.9] * 3 + [0.1] * 3}},
    ),
    "entropy-bonus-has-wrong-sign": (
        {"series": {"entropy_slope": [-0.05] + [0.05] * 8}},
        {"series": {"entropy_slope": [0.05] * 8 + [-0.05] + [0.05] * 7}},
    ),
    "entropy-constant": (
        {"series": {"entropy": [0.5] * 10}},
        {"series": {"entropy": [0.5, 0.4] * 5}},
    ),
    "entropy-drop": (
        LATE | {"series": {"entropy": [0.9] * 37 + [0.2] * 3}},
        LATE | {"series": {"entropy": [0.9] * 10 + [0.2] * 30}},
    ),
    "entropy-fluctuates": (
        {"series": {"entropy": [0.9, 0.1] * 5}},
        {"series": {"entropy": np.linspace(0.9, 0.1, 10)}},
    ),
    "repeated-action": (
        {"series": {"entropy": [0.1], "top_action": [0.99] * 4}},
        {"series": {"entropy": [0.1], "top_action": [1, 1, 0.7, 1]}},
    ),
    "actions-at-bounds": (
        {"series": {"at_bounds": [0.99] * 4}},
        {"series": {"at_bounds": [0.99, 0.5, 1, 1]}},
    ),
    "exploration-low-or-rising": (
        {"series": {"random_share": [0.0] * 6}},
        {"series": {"random_share": [1.0, 0.9, 0.5, 0.1, 0.1, 0.1]}},
    ),
    "exploration-decays-fast": (
        {"series": {"random_share": [1.0, 0.2, *[0.05] * 12]}},
        {"step": 10_000, "series": {"random_share": np.linspace(1, 0.05, 14)}},
    ),
    "dead-or-saturated-units": (
        {"values": {"activations_finite": True}, "series": {"dead": [0.9] * 5}},
        {"values": {"activations_finite": True}, "series": {"dead": [0.9, 0.1, 0.1, 0.1, 0.9]}},
    ),
    "dormant-units": ({"series": {"dormant": [0.9] * 5}}, {"series": {"dormant": [0.9] * 4}}),
    "rank-collapse": ({"series": {"rank": [0.01] * 3}}, {"series": {"rank": [0.01, 0.5, 0.5]}}),
    "missing-nonlinearity": (
        {"series": {"linear_after_linear": [1.0] * 3}},
        {"series": {"linear_after_linear": [1.0, 0.0, 1.0]}},
    ),
    "bad-weights": (
        {"values": {"weights_finite": True, "first_weights": {"a": (0.0, 0.1, True)}}},
        {"values": {"weights_finite": True, "first_weights": {"a": (1.0, 0.1, False)}}},
    ),
    "bad-biases": (
        {"values": {"first_biases": {"a": 5.0}}, "series": {"bias_size": [5.0]}},
        {"values": {"first_biases": {"a": 0.2}}, "series": {"bias_size": [0.3]}},
    ),
    "vanishing-or-exploding-gradients": (
        {"series": {"gradient_norm": [1.0, np.nan]}},
        {"series": {"gradient_norm": [1.0] * 20}},
    ),
    "unreached-parameters": (
        {"values": {"unreached": {7: 24}, "zero_gradients": {}, "parameters": 9}},
        {
            "values": {"unreached": {}, "zero_gradients": {7: 24}, "parameters": 9},
            "series": {"dead": [1.0]},
        },
    ),
    "dropout-sensitive-actions": (
        {"series": {"uncertainty": [0.6]}},
        {"series": {"uncertainty": [0.6, 0.4]}},
    ),
    "network-cannot-fit": (
        {"values": {"fitting": (0.25, 0.24)}},
        {"values": {"fitting": (0.25, 0.1)}},
    ),
    "uncleared-gradients": (
        {"series": {"gradients_left": [1.0, 0.0] * 4}},
        {"series": {"gradients_left": [0.0] * 8}},
    ),
    "weights-not-updated": (
        {"values": {"still": {"a"}, "matrices": 2}},
        {"values": {"still": set(), "matrices": 2}},
    ),
    "loss-diverges": (
        {"series": {"loss": [1.0] * 64 + [1e5] * 64}},
        {"series": {"loss": [1.0] * 64 + [1e3] * 64}},
    ),
    "large-weight-updates": (
        {"series": {"update_ratio": [0.3] * 5}},
        {"series": {"update_ratio": [0.3, 0.01, 0.01, 0.01, 0.3]}},
    ),
    "value-overestimation": (
        {"series": {"value_size": [1e3] * 5}, "values": {"reward_max": 1.0}},
        {"series": {"value_size": [90.0] * 5}, "values": {"reward_max": 1.0}},
    ),
    "constant-early-returns": (
        {"series": {"return": [-200.0] * 20}},
        {"series": {"return": range(20)}},
    ),
    "unsettled-returns": (
        LATE | {"series": {"return": [0.0] * 80 + [0, 1, 0, 9, 0, 0] * 3 + [0, 90, 0] * 2}},
        LATE | {"series": {"return": [0.0, 5.0, 9.0] * 40}},
    ),
    "final-returns-low": (
        {"facts": HIGH, "series": {"return": [50.0] * 10}},
        {"facts": HIGH, "series": {"return": [99.5] * 10}},
    ),
    "no-replay": ({"step": 3000, "series": REPLAY}, {"step": 2000, "series": REPLAY}),
    "stale-replay": (
        {"series": {"replay_shift": [9.0] * 5}},
        {"series": {"replay_shift": [9.0, 1.0, 1.0, 1.0, 9.0]}},
    ),
    "no-discount": (
        {"facts": TrainingFacts(gamma=1.0), "series": {"return": [1.0]}},
        {"facts": TrainingFacts(gamma=0.999), "series": {"return": [1.0]}},
    ),
    "metric-stopped": (
        {
            "step": 9000,
            "metrics": {"loss": [1.0] * 5},
            "values": {"metric_steps": {"loss": 4}, "metric_gaps": {"loss": 1}},
        },
        {
            "step": 2000,
            "metrics": {"loss": [1.0] * 5},
            "values": {"metric_steps": {"loss": 4}, "metric_gaps": {"loss": 1}},
        },
    ),
    "not-a-number": (
        {"series": {"loss": [1.0, np.nan]}},
        {"series": {"loss": [1.0]}, "values": {"failure": "a nanny was too short"}},
    ),
    "learning-rate-too-high": (
        {"values": {"learning_rates": {"Adam": 0.02}}},
        {"values": {"learning_rates": {"Adam": 0.01, "SGD": 0.5}}},
    ),
    "wrong-targets": (
        {"values": {"targets": TARGETS | {"targets": np.full(8, 2.0)}}},
        {"values": {"targets": TARGETS | {"targets": np.full(8, 1.9)}}},
    ),
    "missing-terminal-transitions": (
        {"values": {"reported_targets": (9000, 0.0), "ended_by_task": 50}},
        {"values": {"reported_targets": (9000, 400.0), "ended_by_task": 50}},
    ),
    "wrong-advantages": (
        {"values": {"advantages": given(advantages=estimates(gamma=1.0))}},
        {"values": {"advantages": given(advantages=estimates())}},
    ),
    "wrong-returns": (
        {"values": {"returns": given(rewards=np.ones(9), returns=np.arange(9.0))}},
        {
            "values": {
                "returns": given(
                    rewards=np.ones(9), returns=compute_discounted_returns(np.ones(9), 0.9)
                )
            }
        },
    ),
}


def test_every_check_has_a_case():
    assert set(FIRES) == set(CHECKS)


@pytest.mark.parametrize("name", FIRES)
def test_check_detects_its_fault_and_not_its_absence(name):
    faulty, healthy = (signals(**case) for case in FIRES[name])
    needs = set(CHECKS[name].needs) - {"beginning", "random_share"}
    assert all(made.has(need) for need in needs for made in (faulty, healthy))
    assert CHECKS[name].is_due(faulty) or CHECKS[name].stage != "throughout"
    assert detect(name, faulty) is not None
    assert detect(name, healthy) is None


def minibatch(form):
    rng = np.random.default_rng(0)
    reward, value = rng.normal(size=64), rng.normal(size=64)
    ended, cut = rng.random(64) < 0.2, rng.random(64) < 0.2
    given = {"rewards": reward, "next_values": value, "terminated": ended, "truncated": cut}
    return given | {"gamma": 0.9, "targets": form(reward, value, ended, cut)}


def test_targets_are_recomputed_and_the_fault_named():
    right = minibatch(lambda r, v, t, c: (r + 0.9 * v * ~t).astype(np.float32))
    assert detect_wrong_targets(signals(values={"targets": right}), 1e-4) is None
    ignored = minibatch(lambda r, v, t, c: r + 0.9 * v)
    seen = detect_wrong_targets(signals(values={"targets": ignored}), 1e-4)
    assert seen and "as if no episode ever ended" in seen.text
    cut = minibatch(lambda r, v, t, c: r + 0.9 * v * ~(t | c))
    assert "time limits" in detect_wrong_targets(signals(values={"targets": cut}), 1e-4).text


def test_constant_targets_with_huge_values_allow_no_regression():
    # As with learning rates of 0.5: one critic is constant, the other huge, and rewards are 1.
    ones, rng = np.ones(len(REWARDS)), np.random.default_rng(0)
    constant, huge = (HeadOutput(v[:, None], (n,)) for n, v in enumerate((-ones, 1e10 * ones)))
    loud = HeadOutput(1e10 * rng.normal(size=(len(ones), 1)), (3,))
    facts = TrainingFacts(algorithm="td3", gamma=0.9, has_targets=True)
    for heads, targets in (
        ((constant, loud), 0.1 * ones),
        ((loud, huge), REWARDS + 0.9 * np.minimum(loud.outputs, huge.outputs)[:, 0]),
    ):
        made = regressions("values", targets, heads=heads, rewards=ones)
        assert (
            detect("wrong-targets-matched", signals(facts=facts, values={"regressions": made}))
            is None
        )


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (REWARDS + 0.9 * VALUES.max(axis=1), "as if the episode went on"),
        (REWARDS - 0.9 * VALUES.max(axis=1) * ~ENDED["terminated"], "-0.9 times"),
        (REWARDS + 0.9 * VALUES.max(axis=1) * ~ENDED["terminated"], None),
    ],
)
def test_fault_of_targets_is_named(targets, message):
    found = CHECKS["wrong-targets-matched"].detect(
        signals(facts=DQN, values=fitted(targets, **ENDED)), 1e-4
    )
    assert (found is None) if message is None else message in found.text


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_numbers_that_are_not_finite_do_not_end_the_comparison_of_targets(broken):
    values = np.where(np.arange(24)[:, None] == 3, broken, VALUES)
    heads = (HeadOutput(values, (1,), trained=False),)
    targets = REWARDS + 0.9 * values.max(axis=1)
    for shown in (targets, REWARDS):
        one = regressions("values", shown, heads=heads)
        made = signals(facts=DQN, values={"regressions": one})
        assert CHECKS["wrong-targets-matched"].detect(made, 1e-4) is None


def test_trained_network_in_targets_is_detected():
    one = regressions(
        "values",
        REWARDS + 0.9 * VALUES.max(axis=1),
        heads=(HeadOutput(VALUES, (1,), trained=True),),
    )
    found = CHECKS["wrong-targets-matched"].detect(
        signals(facts=DQN, values={"regressions": one}), 1e-4
    )
    assert "network that is trained" in found.text


def test_time_limits_treated_as_terminal_by_choice_are_a_note():
    cut = {"truncated": np.arange(24) % 6 == 5}
    targets = REWARDS + 0.9 * VALUES.max(axis=1) * ~cut["truncated"]
    levels = []
    for choice in ({}, {"bootstrap_truncation": False}):
        facts = TrainingFacts(gamma=0.9, has_targets=True, choices=2, hyperparameters=choice)
        made = signals(facts=facts, values=fitted(targets, **cut))
        levels.append(CHECKS["wrong-targets-matched"].detect(made, 1e-4).level)
    assert levels == ["warning", "note"]


def test_series_have_bounded_size():
    series = SignalSeries()
    for step in range(100_000):
        series.add(step, step)
    steps, values = series.all()
    assert len(steps) <= 256 and steps[0] == 0 and steps[-1] > 99_000
    assert np.array_equal(steps, values) and len(set(np.diff(steps))) == 1
    assert list(series.first(3)) == [0, 1, 2] and list(series.last(2)) == [99_998, 99_999]


def test_readings():
    assert (
        compute_normalized_entropy(np.array([5, 5])) == pytest.approx(1)
        and compute_normalized_entropy(np.array([10, 0])) == 0
    )
    assert compute_fluctuation(np.arange(10) * 3.0) == pytest.approx(0, abs=1e-9)
    assert compute_effective_rank(np.outer(np.arange(1, 9), np.ones(8))) == 1
    assert compute_effective_rank(np.eye(8)) == 8
    weights = {"critic.0.bias": np.zeros(2), "critic_target.0.bias": np.zeros(2)}
    assert pair_target_parameters(weights) == [("critic_target.0.bias", "critic.0.bias")]
    weights = {"q_network.0.bias": np.zeros(2), "target_network.0.bias": np.zeros(2)}
    assert pair_target_parameters(weights) == [("target_network.0.bias", "q_network.0.bias")]
    inner = ("policy.actor.0.bias", "policy.actor_critic.0.bias", "actor_target.0.bias")
    assert pair_target_parameters(dict.fromkeys(inner, np.zeros(2))) == [(inner[2], inner[0])]


def test_a_threshold_of_no_check_is_refused():
    check_names(["large-policy-shift"], load_own_checks())
    with pytest.raises(SpecError, match="did you mean large-policy-shift"):
        check_names(["large-policy-shif"], load_own_checks())
    only, skip = ["wrong-targets", "no-replay"], ["no-replay"]
    left_out = list_left_out(load_own_checks(), only, skip)
    assert set(CHECKS) - set(left_out) == {"wrong-targets"}
    assert left_out["no-replay"] == "diagnosis.skip"
    assert list_left_out(load_own_checks(), [], skip) == {"no-replay": "diagnosis.skip"}
    with pytest.raises(SpecError, match="leave no check"):
        list_left_out(load_own_checks(), skip, skip)
    assert get_default_thresholds()["large-policy-shift"] == CHECKS["large-policy-shift"].threshold
