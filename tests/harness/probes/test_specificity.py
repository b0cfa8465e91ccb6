import dataclasses

import numpy as np
import pytest
from loops import iterate_some

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.probes import experiment_setups as setups
from parallax.harness.probes.experiments import ExperimentCache, ProbeExperiment
from parallax.harness.probes.ppo import experiments as ppo
from parallax.harness.probes.td3 import experiments as td3
from tests.planted_faults import ALGORITHMS, FRAMEWORKS, answer, core, steady, unplanted

PAIRS = [(framework, algorithm) for framework in FRAMEWORKS for algorithm in ALGORITHMS]
SEEDS = 24
# One of each framework, with different algorithms; the others wait for the long run.
QUICK_SEEDS = (2, 16)
QUICK_PAIRS = (("sb3", "ddpg"), ("cleanrl", "ppo"), ("torchrl", "sac"), ("tianshou", "dqn"))
CUTTING = ("sb3", "cleanrl", "torchrl")
"""Those that keep next actions within bounds; Tianshou does not."""


@pytest.mark.parametrize(
    ("framework", "algorithm"),
    [pytest.param(*pair, marks=() if pair in QUICK_PAIRS else pytest.mark.long) for pair in PAIRS],
)
def test_an_implementation_does_not_differ_from_itself(framework, algorithm):
    again = ExperimentCache(load_adapter(framework))
    for name in iterate_some(core(algorithm)):
        first = unplanted(framework, name)
        np.testing.assert_array_equal(answer(again, name).value, first.value)


def seeds():
    """One for each implementation and more."""
    marks = [() if seed in QUICK_SEEDS else pytest.mark.long for seed in range(1, SEEDS + 1)]
    return [pytest.param(seed, marks=mark) for seed, mark in enumerate(marks, 1)]


@pytest.mark.parametrize("seed", seeds())
def test_no_probe_reports_a_difference_for_other_numbers(seed):
    # Each seed for one implementation; tests/planted_faults.py measures all of them on all seeds.
    framework, algorithm = PAIRS[seed % len(PAIRS)]
    cache = ExperimentCache(load_adapter(framework), seed)
    for name in iterate_some(core(algorithm)):
        assert steady(name, unplanted(framework, name), answer(cache, name)), name


@pytest.mark.parametrize(
    ("framework", "name", "seed"),
    [
        ("sb3", "sac.target_update", 12),  # its one bias is large beside its step
        ("torchrl", "dqn.target_with_copies", 13),  # some features are nearly proportional
        ("skrl", "dqn.initial_biases", 1),  # its last layer has four biases
        # Its policy maximizes the smaller critic.
        pytest.param("sbx", "td3.critics_seen_by_policy", 3, marks=pytest.mark.long),
    ],
)
def test_regression_seeds_do_not_change_answers(framework, name, seed):
    pytest.importorskip({"sb3": "stable_baselines3"}.get(framework, framework))
    cache = ExperimentCache(load_adapter(framework), seed)
    assert steady(name, unplanted(framework, name), answer(cache, name))


def test_targets_of_unclipped_actions_are_named_for_all_numbers():
    cache = ExperimentCache(load_adapter("tianshou"), seed=7)
    for part in ("critic_target", "target_weights"):
        assert "beyond the bounds are not cut" in answer(cache, f"td3.{part}").meaning


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_copy_with_transplanted_weights_learns_the_same(framework):
    original = td3.RUNS["td3"].run_update(ExperimentCache(load_adapter(framework)))
    experiment = original.experiment
    weights = original.record.final
    one, other = (
        ExperimentCache(load_adapter(framework)).run(
            ProbeExperiment(
                "copy", "td3", experiment.scripted_data, experiment.changes, weights, seed=seed
            )
        )
        for seed in (0, 1)
    )
    for name, array in iterate_some(one.record.final.items()):
        np.testing.assert_array_equal(array, other.record.final[name])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_weights_that_are_written_are_read_back(framework):
    cache = ExperimentCache(load_adapter(framework))
    run = ppo.run_wide_bounds(cache)
    for name, array in iterate_some(setups.make_weights(cache, "ppo").items()):
        np.testing.assert_allclose(run.record.steps[0].before[name], array, rtol=1e-6)


def same_eps(cache):
    experiment = td3.RUNS["td3"].run_update(cache).experiment
    changes = {**experiment.changes, "adam_eps": 1e-8}
    # Minibatches that do not turn: frameworks hold more or fewer transitions at their first update.
    world = dataclasses.replace(experiment.scripted_data, rotates_draws=False)
    changed = {"name": "same epsilon", "changes": changes, "scripted_data": world}
    return cache.run(dataclasses.replace(experiment, **changed))


def test_implementations_that_agree_have_the_same_gradients():
    # The critics' first step, and the policy's, which follows two of the critics.
    first, *others = (
        same_eps(ExperimentCache(load_adapter(name))).record.steps for name in CUTTING
    )
    for number, rounding in ((0, 1e-5), (2, 2e-3)):
        for other in iterate_some(others):
            assert other[number].networks == first[number].networks
            for name, gradient in first[number].gradients.items():
                room = rounding * np.abs(gradient).max()
                np.testing.assert_allclose(other[number].gradients[name], gradient, 0, room)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_recording_of_source_lines_does_not_change_numbers(framework):
    # Only the first training of an algorithm records source lines, which is slower.
    cache = ExperimentCache(load_adapter(framework))
    traced = td3.RUNS["td3"].run_update(cache)
    untraced = cache.run(dataclasses.replace(traced.experiment, name="again"))
    assert traced.record.source_lines and not untraced.record.source_lines
    for name, array in traced.record.final.items():
        np.testing.assert_array_equal(array, untraced.record.final[name], err_msg=name)
    np.testing.assert_array_equal(traced.get_actions(), untraced.get_actions())
