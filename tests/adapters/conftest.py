"""Selects the conformance checks that run only in `make test-long`."""

import pytest

# PPO and TD3 represent the two kinds of loops; probes and fidelity tests cover all.
WAITING = ("sac", "ddpg", "dqn", "r2d2")
# Its agents are put together in one way, and the fidelity test makes a run of each.
LATE = {"skrl": ("ppo", "td3", *WAITING)}
IN_A_FRESH_PROCESS = "test_recorded_run_in_a_fresh_process_ends_in_the_same_weights"
# Of an algorithm that waits only this is shown, and that its weights are those of upstream alone.
SHOWN = (
    "test_every_hyperparameter_is_declared",
    IN_A_FRESH_PROCESS,
    "test_learned_policy_plays_its_last_evaluation_again",
    "test_what_is_announced_is_what_the_schema_defines",
    "test_learning_rates_reach_their_networks",
    "test_targets_start_equal_to_their_networks",
)
# Three processes each; normalizing wrappers are stored in the same way with every algorithm.
KILLED = "test_run_that_is_killed_ends_as_one_that_is_not"
# They share a run. Most frameworks train DDPG in the loop of their TD3, and SAC in a similar one;
# fidelity tests make a run of each.
RECORDED = (IN_A_FRESH_PROCESS, "test_learned_policy_plays_its_last_evaluation_again")
# CleanRL has most patches; probes measure each of them anyway.
PATCHED = "test_patch_changes_its_constant_and_nothing_else"
# These cost most. One of both loops of each framework is tried, and the other in the long run.
COSTLY = (
    *RECORDED,
    KILLED,
    PATCHED,
    "test_hyperparameter_is_honoured_or_refused",
    "test_updates_are_as_many_as_announced",
)
TRIED = {"sb3": "ppo", "cleanrl": "td3", "torchrl": "td3", "tianshou": "ppo", "skrl": "dqn"}
# One framework represents the others.
FURTHER = "test_run_with_further_actions_is_learned_from_and_played_again"
IMAGES = "test_images_are_learned_from_or_refused"
# Other frameworks serialize their states in the same way with images; only buffers differ.
KILLED_ON_IMAGES = "test_run_on_images_that_is_killed_ends_as_one_that_is_not"
# What JAX compiles for images takes half a minute.
ON_IMAGES = (IMAGES, "test_conv_filters_reach_every_network")
# Patches of PPO and DQN are measured, and those of the others in the long run.
MEASURED = "test_probe_measures_the_value_that_a_patch_sets"
# What is tried is this project's own writing, with any framework.
OURS = "test_full_disk_leaves_a_failed_run_that_says_so"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name == "test_conformance.py" and waits(item):
            item.add_marker(pytest.mark.long)


def waits(item):
    """Return whether a conformance check runs only in the long run."""
    framework = item.path.parent.name
    if item.originalname in (OURS, KILLED_ON_IMAGES):
        return framework != "sb3"
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    if item.originalname in ON_IMAGES and framework == "sbx":
        return True
    if item.originalname == KILLED and parameters["wrappers"] == "normalized":
        return True
    algorithms = {value for name, value in parameters.items() if name.endswith("algorithm")}
    if item.originalname in COSTLY and framework in TRIED:
        late = (framework, item.originalname) == ("cleanrl", PATCHED)
        return late or TRIED[framework] not in algorithms
    if item.originalname in (FURTHER, IMAGES):
        return framework != "sb3"
    if item.originalname == MEASURED:
        return parameters["patched_algorithm"] not in ("ppo", "dqn")
    return bool(algorithms & set(LATE.get(framework, WAITING))) and item.originalname not in SHOWN
