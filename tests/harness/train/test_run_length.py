"""Runs in which nothing could be learned are refused before a folder is made."""

import dataclasses

import pytest

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import read_recipe
from parallax.harness.contract.run_spec import RUN_DEFAULTS, make_run_spec
from parallax.harness.train.prepare import describe_doubtful_runs, prepare_run
from tests import support

STEPS = 1000
CASES = [
    ("td3", {"learning_starts": STEPS}, "hyperparameters.learning_starts=1000 leaves nothing"),
    ("dqn", {"learning_starts": 9 * STEPS}, "hyperparameters.learning_starts=9000"),
    ("ppo", {"rollout_steps": 1024}, "hyperparameters.rollout_steps=1024 is longer than the run"),
    ("sac", {"learning_starts": STEPS}, "Raise steps above 1000"),
    ("ddpg", {"learning_starts": STEPS + 1}, "for example hyperparameters.learning_starts=100."),
]


def spec_of(framework, algorithm, changes):
    recipe = read_recipe(algorithm, framework)
    values = RUN_DEFAULTS | {"study": "s", "framework": framework, "algorithm": algorithm}
    values |= {"env": "CartPole-v1" if algorithm == "dqn" else "Pendulum-v1", "hps": framework}
    values |= {"seed": 0, "steps": STEPS, "eval_every": None, "alignment": "common"}
    return make_run_spec(values, recipe | changes, recipe)


@pytest.mark.parametrize(("algorithm", "changes", "message"), CASES)
@pytest.mark.parametrize(
    "framework", support.frameworks("sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx")
)
def test_runs_without_an_update_are_refused(framework, algorithm, changes, message):
    with pytest.raises(SpecError) as error:
        prepare_run(spec_of(framework, algorithm, changes), load_adapter(framework))
    assert message in str(error.value)


def test_late_first_update_is_refused_by_the_count_of_the_framework():
    # CleanRL's counter is one behind, and its update comes when it exceeds learning_starts.
    with pytest.raises(SpecError, match=r"framework=cleanrl would never update its networks"):
        prepare_run(
            spec_of("cleanrl", "td3", {"learning_starts": STEPS - 1}), load_adapter("cleanrl")
        )


@pytest.mark.parametrize(("interval", "warnings"), [(STEPS, 0), (2 * STEPS, 1)])
def test_a_target_network_that_never_moves_is_a_warning(interval, warnings):
    values = {"target_update_interval": interval}
    spec = support.spec(
        algorithm="dqn", steps=STEPS, alignment="exact", hyperparameters=values, eval_every=STEPS
    )
    found = describe_doubtful_runs([prepare_run(spec, load_adapter("sb3"))])
    assert len(found) == warnings
    assert all("sb3 dqn never updates its target network in steps=1000" in text for text in found)


@pytest.mark.parametrize(
    ("frameworks", "rollout", "alignment", "warnings"),
    [
        (("sb3", "cleanrl"), 300, "exact", 1),
        (("sb3", "cleanrl"), 300, "common", 0),
        (("sb3", "cleanrl"), 500, "exact", 0),
        (("sb3", "sb3"), 300, "exact", 0),
    ],
)
def test_steps_that_end_within_a_rollout_are_a_warning(frameworks, rollout, alignment, warnings):
    values = {"rollout_steps": rollout, "minibatch_size": 100}
    options = {"alignment": alignment, "hyperparameters": values, "eval_every": STEPS}
    found = describe_doubtful_runs(
        [
            prepare_run(
                support.spec(framework=name, algorithm="ppo", steps=STEPS, **options),
                load_adapter(name),
            )
            for name in frameworks
        ]
    )
    assert len(found) == warnings
    assert all("With steps=900 or steps=1200, all learn" in text for text in found)


def test_evaluation_interval_defaults_to_a_tenth_of_the_steps():
    spec = spec_of("sb3", "ppo", {"rollout_steps": 500})
    assert spec.eval_every == 100
    recipe = read_recipe("ppo", "sb3")
    values = {field.name: getattr(spec, field.name) for field in dataclasses.fields(spec)}
    odd = make_run_spec(values | {"steps": 7, "eval_every": None}, recipe, recipe)
    assert odd.eval_every == 1
    assert make_run_spec(values | {"eval_every": 250}, recipe, recipe).eval_every == 250
