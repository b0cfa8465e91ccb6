"""Each way to break an adapter is caught, by the check that is meant to catch it."""

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from parallax.envs.scripted import NARROW_ENV_ID
from parallax.harness.conformance import AdapterConformance
from parallax.harness.conformance.run_folders import make_warm_process, record_run
from parallax.harness.conformance.trainings import observe_cached, train_cached
from parallax.harness.contract import adapter_discovery

TESTS = Path(__file__).parents[2]

# Sabotage, check, its arguments, and what the failure says.
CASES = [
    ("FlippedTau", "targets_move_by_tau", ["td3"], "did not go tau=0.1 of the way"),
    ("DoubledTau", "targets_move_by_tau", ["sac"], "did not go tau=0.1 of the way"),
    ("SwappedLearningRates", "learning_rates_reach_their_networks", ["td3"], "learning_rate"),
    ("IgnoredPolicyDelay", "updates_are_as_many_as_announced", ["td3"], "policy_updates"),
    (
        "UnscaledNoise",
        "exploration_noise_is_a_share_of_half_the_range",
        ["td3", NARROW_ENV_ID],
        r"== 0\.05",
    ),
    (
        "VectorStepsCountedOnce",
        "steps_of_all_copies_are_counted",
        ["ppo"],
        "128 transitions announced, 256 taken",
    ),
    ("TwoUpdates", "updates_are_as_many_as_announced", ["sac"], "total_gradient_steps"),
    ("LargeMinibatches", "updates_are_as_many_as_announced", ["ppo"], "total_gradient_steps"),
    ("NoWarmUp", "updates_are_as_many_as_announced", ["sac"], "random_steps"),
    ("UnseededRandomState", "same_seed_gives_the_same_weights_whatever_ran_before", ["td3"], None),
    ("IgnoredSeed", "other_seed_gives_other_weights", ["ppo"], None),
    (
        "IgnoredLambda",
        "hyperparameter_is_honoured_or_refused",
        ["ppo", "gae_lambda"],
        r"gae_lambda=0\.5 changes nothing",
    ),
    (
        "SilentConstant",
        "hyperparameter_is_honoured_or_refused",
        ["sac", "policy_delay"],
        "DID NOT RAISE",
    ),
    ("UndeclaredField", "every_hyperparameter_is_declared", ["ppo"], None),
    ("NoAnnealing", "learning_rate_schedule_is_followed", ["ppo"], r"went from 0\.01 to 0\.01"),
    ("WrongBudget", "steps_taken_are_the_steps_reported", ["td3"], "128 were requested"),
    ("SampledPolicy", "asking_the_policy_changes_nothing", ["ppo"], None),
    ("FrozenSamplePolicy", "greedy_action_depends_on_the_observation_alone", ["sac"], None),
    ("NarrowCritics", "hidden_sizes_reach_every_network", ["td3"], "has 8 units where 12"),
    ("SameLuckForAllCopies", "steps_of_all_copies_are_counted", ["ppo"], "same random state"),
    ("RescaledPolicy", "actions_are_within_bounds", ["sac", NARROW_ENV_ID], "greedy"),
    ("UnnamedTargets", "target_networks_are_named_so", ["td3"], None),
    ("StaleWeights", "other_seed_gives_other_weights", ["td3"], None),
    (
        "SwallowedError",
        "accident_in_the_task_leaves_a_failed_run_that_says_so",
        ["ppo", "raises"],
        "the task broke at step 100",
    ),
    ("SwallowedInterrupt", "ctrl_c_leaves_an_interrupted_run", ["ppo"], "DID NOT RAISE"),
    pytest.param(
        "StrayProcess",
        "recorded_run_in_a_fresh_process_ends_in_the_same_weights",
        ["ppo"],
        r"processes \[\d+\] are left",
        marks=pytest.mark.long,
    ),
    ("SwappedDiscounts", "lambda_has_no_effect_without_gamma", ["ppo"], "with gae_lambda where"),
    ("LeakyNull", "null_is_a_huge_bound", ["ppo", "max_grad_norm"], "max_grad_norm=null is not"),
    ("QuietRewards", "rewards_are_not_scaled", ["sac"], "times what the rewards' scale makes"),
    ("ApartTargets", "targets_start_equal_to_their_networks", ["sac"], "is not a copy"),
    ("RepeatedWarmUp", "random_actions_are_distinct_and_spread", ["td3"], "actions are distinct"),
    ("ShiftedActions", "actions_scatter_about_the_greedy_one", ["ppo"], "beside the greedy one"),
    ("ShrunkenActions", "actions_reach_the_bounds", ["sac"], "of the bounds"),
    ("LargeMinibatches", "minibatches_have_the_requested_size", ["sac"], "layers saw"),
    ("UnwrappedTask", "normalising_wrappers_change_what_is_learned", ["ppo"], "changes nothing"),
    (
        "LoudTargets",
        "target_noise_is_a_share_of_half_the_range",
        ["target_policy_noise"],
        "of half the range where 0.2 was requested",
    ),
    (
        "LooseTargets",
        "target_noise_is_a_share_of_half_the_range",
        ["target_noise_clip"],
        "of half the range where 0.5 was requested",
    ),
]


@pytest.fixture
def install_faulty_adapter(monkeypatch):
    """Puts a class of `faulty_adapters` in the place of the adapter that it breaks."""

    def replace(name):
        import faulty_adapters

        framework = getattr(faulty_adapters, name).name
        entry = EntryPoint(
            framework, f"faulty_adapters:{name}", adapter_discovery.ENTRY_POINT_GROUP
        )
        others = adapter_discovery.find_adapter_entry_points()
        monkeypatch.setattr(
            adapter_discovery, "find_adapter_entry_points", lambda: others | {framework: entry}
        )
        monkeypatch.setenv("PYTHONPATH", str(TESTS))
        return framework

    caches = (train_cached, observe_cached, record_run, make_warm_process)
    for cache in caches:
        cache.cache_clear()
    yield replace
    for cache in caches:
        cache.cache_clear()


@pytest.mark.parametrize(("name", "check", "arguments", "message"), CASES)
def test_faulty_adapter_fails_the_right_check(
    name, check, arguments, message, install_faulty_adapter, tmp_path
):
    suite = AdapterConformance()
    suite.framework = install_faulty_adapter(name)
    method = getattr(suite, f"test_{check}")
    needs_folder = "tmp_path" in method.__code__.co_varnames[: method.__code__.co_argcount]
    with pytest.raises((AssertionError, pytest.fail.Exception), match=message):
        method(*arguments, *([tmp_path] if needs_folder else []))
