"""Runs with many constants of the scripts patched at once: saved, resumed and loaded."""

import pytest

from parallax.harness.conformance.run_folders import (
    check_killed_run,
    execute_prepared_run,
    prepare_scripted_run,
)
from parallax.harness.policies.loading import load_policy
from parallax.harness.policies.worker import (
    EvaluationConditions,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import initialize_run

OFF_POLICY = {
    "hidden_sizes": (9, 7, 5),
    "adam_eps": 1e-4,
    "bootstrap_truncation": False,
    "gradient_steps": 3,
    "learning_starts": 16,
}
CHANGES = {
    "ppo": {
        "hidden_sizes": (9,),
        "clip_range_schedule": "linear",
        "value_clip_range": 0.7,
        "bootstrap_truncation": True,
        "minibatch_size": 24,
    },
    "td3": {**OFF_POLICY, "train_freq": 2, "critic_learning_rate": 0.004, "policy_delay": 2},
    "sac": {
        **OFF_POLICY,
        "train_freq": 2,
        "temperature_learning_rate": 0.02,
        "initial_temperature": 0.3,
        "target_entropy": -3.0,
    },
    "ddpg": {
        **OFF_POLICY,
        "train_freq": 2,
        "critic_learning_rate": 0.004,
        "critic_weight_decay": 0.1,
        "policy_weight_decay": 0.01,
        "exploration_noise_kind": "ornstein-uhlenbeck",
    },
    "dqn": {
        **OFF_POLICY,
        "dueling": True,
        "double_q": True,
        "huber_delta": 0.5,
        "max_grad_norm": 1.0,
    },
}
ALGORITHMS = [
    pytest.param(name, marks=pytest.mark.long if name in ("td3", "sac") else ()) for name in CHANGES
]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_run_is_recorded_and_its_policy_is_loaded(algorithm, tmp_path):
    changes = tuple(CHANGES[algorithm].items())
    run = prepare_scripted_run("cleanrl", algorithm, changes, steps=128, eval_every=64)
    assert len(run.native.patched_fields) >= len(changes) - 2
    initialize_run(run, tmp_path / "run")
    assert execute_prepared_run(run, tmp_path / "run") == "completed"
    content = read_run(tmp_path / "run").content
    names = {f"patch.{name.replace('_', '-')}" for name in run.native.patched_fields}
    assert set(content["interventions"]) == names | set(run.native.conversions.values())
    policy = load_policy(tmp_path / "run")
    replayed = evaluate_loaded_policy(policy, EvaluationConditions())
    assert has_same_returns(replayed, get_recorded_returns(policy))


@pytest.mark.parametrize("algorithm", ["ddpg", pytest.param("dqn", marks=pytest.mark.long)])
def test_killed_run_ends_as_one_that_is_not(algorithm, tmp_path):
    check_killed_run(
        "cleanrl", algorithm, tmp_path / "run", changes=tuple(CHANGES[algorithm].items())
    )
