from types import SimpleNamespace

import numpy as np
import pytest

from parallax.harness.probes.families.randomness import describe_shuffles
from parallax.harness.probes.measurements import (
    TargetShares,
    describe_detour,
    measure_target_shares,
)
from parallax.harness.probes.probe import Probe, compare_arrays, run_probe
from parallax.harness.probes.results import AGREES, FUNCTION

NAMES = ("critic1_target.0.weight", "critic1_target.out.bias")


def test_a_share_within_its_rounding_is_tau():
    shares = np.array([[0.005, 0.00501], [0.00502, 0.00495]])
    found = TargetShares(NAMES, shares, np.array([[1e-7, 1e-7], [1e-4, 1e-4]]))
    assert found.find_furthest_from(0.005) == pytest.approx([0.00501, 0.005], rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.01, np.inf])
def test_a_share_beyond_its_rounding_is_reported(share):
    found = TargetShares(NAMES[1:], np.array([[0.005, share]]), np.full((1, 2), 1e-4))
    assert found.find_furthest_from(0.005) == share


TARGET, ONLINE, OTHER_CRITIC = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)


def make_moving_run(move):
    """Return a training of two critics whose first target becomes `move` of the three arrays."""
    arrays = ("critic1_target.out.bias", "critic1.out.bias", "critic2.out.bias")
    before = dict(zip(arrays, (TARGET, ONLINE, OTHER_CRITIC), strict=True))
    step = SimpleNamespace(before=before, after=before, networks=("critic1", "critic2"))
    final = before | {arrays[0]: np.asarray(move(TARGET, ONLINE, OTHER_CRITIC), np.float32)}
    return SimpleNamespace(record=SimpleNamespace(steps=[step], final=final, created=before))


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (lambda t, o, x: 0.9 * t, "are multiplied by 0.9"),
        (lambda t, o, x: 0.95 * t + 0.05 * x, "move by 0.05 to critic2 in place of critic1"),
        (
            lambda t, o, x: 0.95 * t + 0.025 * o,
            "become 0.95 times themselves plus 0.025 times the online network",
        ),
        (lambda t, o, x: t + np.sin(9 * np.arange(8)), ""),
        (lambda t, o, x: t, ""),
    ],
)
def test_what_a_target_becomes_is_described(move, words):
    assert describe_detour(make_moving_run(move), "critic1_target.out.bias") == words


def test_moves_within_rounding_are_none():
    run = make_moving_run(lambda t, o, x: t * (1 + 1.2e-7))
    assert measure_target_shares(run, "critic1").shares.tolist() == [[0.0]]
    run = make_moving_run(lambda t, o, x: 0.95 * t + 0.05 * o)
    assert measure_target_shares(run, "critic1").shares == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize(
    ("value", "kind"), [([1.1, 1.6], AGREES), ([1.6, 0.9], FUNCTION), ([1.1, 1.8], FUNCTION)]
)
def test_each_number_has_its_tolerance(value, kind):
    expected = np.ones(2)
    assert compare_arrays(np.array(value), expected, np.array([0.2, 0.7])).kind == kind


ROWS, ONE, OTHER = np.arange(12), *(np.random.default_rng(i).permutation(12) for i in (0, 1))
COLUMNS = ROWS.reshape(-1, 4).T.ravel()


@pytest.mark.parametrize(
    ("epochs", "words"),
    [
        ((ONE, OTHER, ROWS, ONE), ""),
        ((COLUMNS,) * 4, "not shuffled"),
        ((ONE, ONE[ONE]) * 2, "each epoch permutes"),
        ((COLUMNS[ONE], COLUMNS[ONE[ONE]]) * 2, "each epoch permutes"),
        ((ONE, OTHER) * 2, "each rollout is permuted"),
    ],
)
def test_shuffles_that_repeat_are_described(epochs, words):
    found = describe_shuffles([half for epoch in epochs for half in np.split(epoch, 2)], 4)
    assert bool(found) == bool(words) and words in found


def test_a_library_that_refuses_nan_leaves_a_probe_unmeasured():
    def measure(cache):
        raise ValueError("invalid values: tensor([[nan, 1.]])")

    adapter = SimpleNamespace(supports=lambda algorithm: True)
    cache = SimpleNamespace(adapter=adapter, describe_infinite_actions=lambda algorithm: "")
    probe = Probe("ppo.nan", "", "", "", measure, lambda comparison, measurement: "")
    assert "numbers are NaN" in run_probe(probe, {"sb3": cache}).answers["sb3"].unmeasured
