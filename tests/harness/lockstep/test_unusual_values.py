"""Recipes with unusual values: each means the same in all frameworks in the reference form."""

import pytest
from loops import iterate_some

from benchmarks.lockstep_pairs import LEVEL, change_experiment
from parallax.harness.cli.lockstep import make_lockstep_side
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.lockstep.comparison import LockstepOptions, LockstepTrainings
from parallax.harness.probes.experiments import AlignmentLevel

FRAMEWORKS = ("sb3", "cleanrl", "tianshou", "torchrl", "skrl")
OFF_POLICY = {"tau": 0.0371, "gamma": 0.9296875, "adam_eps": 3e-5, "bootstrap_truncation": False}
UNUSUAL = {
    "ppo": {
        "learning_rate": 0.00737,
        "learning_rate_schedule": "linear",
        "gamma": 0.9296875,
        "gae_lambda": 0.8125,
        "clip_range": 0.17,
        "clip_range_schedule": "linear",
        "value_clip_range": 0.03,
        "normalize_advantage": True,
        "ent_coef": 0.013,
        "vf_coef": 0.37,
        "max_grad_norm": 0.3,
        "adam_eps": 1e-3,
    },
    "td3": {
        **OFF_POLICY,
        "critic_learning_rate": 0.0043,
        "policy_delay": 3,
        "target_policy_noise": 0.37,
        "target_noise_clip": 0.41,
    },
    "sac": {
        **OFF_POLICY,
        "critic_learning_rate": 0.0043,
        "temperature_learning_rate": 0.0077,
        "policy_delay": 3,
        "target_update_interval": 2,
        "initial_temperature": 0.43,
        "target_entropy": -0.71,
    },
    "ddpg": {
        **OFF_POLICY,
        "critic_learning_rate": 0.0043,
        "policy_delay": 3,
        "policy_weight_decay": 0.023,
        "critic_weight_decay": 0.041,
    },
    "dqn": {
        "gamma": 0.9296875,
        "adam_eps": 3e-5,
        "bootstrap_truncation": False,
        "double_q": True,
        "huber_delta": 0.29,
        "max_grad_norm": 0.21,
    },
}
UPDATES = {"ppo": [4, 8, 12]}


def compare(algorithm, sides, **more):
    """Largest distances of sides after some updates with the unusual values of an algorithm."""
    how = LockstepOptions(shared_stream=algorithm != "ppo", level=LEVEL)
    lengths = UPDATES.get(algorithm, [1, 2, 3, 6])
    with change_experiment(algorithm, UNUSUAL[algorithm] | more):
        trainings = LockstepTrainings(sides, algorithm, how)
        for number in range(1, len(sides)):
            assert trainings.find_divergence_before_updates(0, number) is None
        return {
            side.label: trainings.measure_distances(0, number, lengths)
            for number, side in enumerate(sides)
            if number
        }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("algorithm", UNUSUAL)
def test_unusual_values_have_the_same_meaning_in_all_frameworks(algorithm):
    sides = [
        make_lockstep_side(name, NO_INTERVENTION, algorithm, LEVEL.name) for name in FRAMEWORKS
    ]
    for label, distances in iterate_some(compare(algorithm, sides).items()):
        assert distances and all(item.is_rounding for item in distances), (label, distances)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("framework", "algorithm", "left_out"),
    [
        ("sb3", "ppo", "larger-value-loss"),
        ("skrl", "ppo", "larger-value-loss"),
        ("sb3", "sac", "targets-after-whole-interval"),
        ("cleanrl", "sac", "one-policy-update-per-delay"),
    ],
)
def test_interventions_for_unusual_values_are_necessary(framework, algorithm, left_out):
    sides = [
        make_lockstep_side(framework, name, algorithm, LEVEL.name)
        for name in (NO_INTERVENTION, f"without.{left_out}")
    ]
    (distances,) = compare(algorithm, sides).values()
    assert not all(item.is_rounding for item in distances)


@pytest.mark.filterwarnings("ignore")
def test_target_kl_needs_a_stop_that_ends_the_rollout():
    # One framework with itself: after a stop frameworks draw different numbers of permutations.
    sides = [
        make_lockstep_side("skrl", name, "ppo", LEVEL.name)
        for name in (NO_INTERVENTION, "without.kl-stop-ends-rollout")
    ]
    (distances,) = compare("ppo", sides, target_kl=0.02).values()
    assert not all(item.is_rounding for item in distances)


@pytest.mark.filterwarnings("ignore")
def test_a_recipe_of_other_networks_is_compared_with_those_of_the_probes():
    # Its one layer of 128 units cannot take the scripted weights.
    sides = [
        make_lockstep_side(name, NO_INTERVENTION, "ppo", LEVEL.name) for name in ("sb3", "cleanrl")
    ]
    how = LockstepOptions(level=AlignmentLevel("lockstep", "minatar"))
    distances = LockstepTrainings(sides, "ppo", how).measure_distances(0, 1, [4])
    assert distances and all(item.is_rounding for item in distances)
