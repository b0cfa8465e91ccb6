"""Arguments and wrappers of a task: checked, part of a run's identity, used everywhere."""

import dataclasses
import json

import gymnasium
import pytest

from parallax.analysis.data.published import split_version
from parallax.envs.batched_env import GymnasiumBatchedEnv, make_batched_env
from parallax.envs.tasks import TaskError, load_task, make_task_env
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.record.layout import format_task_name, parse_run_path
from parallax.harness.train.trust import list_named_code
from tests import support

DOUBLE = f"{__name__}:DoubledReward"


class DoubledReward(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


class Plain:
    def __init__(self, env):
        pass


def spec(**changes):
    return support.spec(env="Pendulum-v1", **changes)


def test_options_are_part_of_the_identity(tmp_path):
    usual, light = spec(), spec(env_kwargs={"g": 9.81})
    wrapped = spec(env_kwargs={"g": 9.81}, env_wrappers=[DOUBLE])
    assert len({usual, light, wrapped, spec(env_kwargs={"g": 9.8})}) == 4
    folders = [
        one.folder(tmp_path).relative_to(tmp_path).parts[1] for one in (usual, light, wrapped)
    ]
    assert folders == ["Pendulum-v1", "Pendulum-v1,g=9.81", f"Pendulum-v1,g=9.81,wrappers={DOUBLE}"]
    assert parse_run_path(light.folder(tmp_path)).env == light.task_name
    assert split_version(light.task_name) == (light.task_name, "")  # no published task


def test_options_are_restored_from_records_and_empty_in_old_ones():
    requested = spec(env_kwargs={"g": 9.81, "list": [1, {"a": None}]}, env_wrappers=[DOUBLE])
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(requested)))) == requested
    content = spec_to_dict(spec())
    del content["env_kwargs"], content["env_wrappers"]
    assert spec_from_dict(content) == spec()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"env_kwargs": {"render_mode": "human"}}, "env.kwargs.render_mode cannot be set"),
        ({"env_kwargs": {"id": "x"}}, "use env.name"),
        ({"env_kwargs": {"a b": 1}}, "env.kwargs.a b must be the name of an argument"),
        ({"env_kwargs": {"g": float("nan")}}, "finite number"),
        ({"env_kwargs": [1]}, "must hold values by name"),
        ({"env_wrappers": ["nothing"]}, "module:Class"),
        ({"env_wrappers": ["../x:Y"]}, "module:Class"),
    ],
)
def test_invalid_option_values_are_refused(changes, message):
    with pytest.raises(SpecError, match="env") as error:
        spec(**changes)
    assert message in str(error.value)


def test_unsafe_folder_names_become_a_hash():
    names = {format_task_name("A-v1", {"file": path}, []) for path in ("/a/b.xml", "/a/c.xml")}
    assert len(names) == 2
    assert all(name.startswith("A-v1,changed=") and "/" not in name for name in names)


def test_env_options_apply_in_training_and_evaluation():
    env = make_task_env("Pendulum-v1", g=1.5, wrappers=[DOUBLE])
    assert env.unwrapped.g == 1.5 and type(env).__name__ == "DoubledReward"
    assert load_task("Pendulum-v1", max_episode_steps=7).max_episode_steps == 7
    batch = make_batched_env("InvertedPendulum-v4", 2, wrappers=[DOUBLE])
    assert isinstance(batch, GymnasiumBatchedEnv)  # the fast way knows no wrappers


def test_wrappers_that_cannot_be_used_are_named():
    for name in (f"{__name__}:Plain", f"{__name__}:Missing", "no_such_module:Wrapper"):
        with pytest.raises(TaskError, match=f"env.wrappers={name} cannot be used"):
            make_task_env("Pendulum-v1", wrappers=[name])
    with pytest.raises(TaskError, match=r"'no_such_module' \(PYTHONPATH=. finds modules"):
        make_task_env("Pendulum-v1", wrappers=["no_such_module:Wrapper"])


def test_a_stored_wrapper_is_code_that_needs_trust():
    known = "gymnasium.wrappers:FlattenObservation"
    requested = spec(env_wrappers=["evil.module:Wrapper", known])
    assert list_named_code([requested]) == [
        "import of the module evil.module: env.wrappers=evil.module:Wrapper"
    ]


@pytest.mark.parametrize(
    "text", ["evil.Car", "evil.Car ", "e-vil.Car", "evil.Car!", "evil.1", "1.x"]
)
def test_whatever_is_before_a_dot_may_be_imported(text):
    """`highway_env.utils.class_from_path` imports it before it looks for the class."""
    requested = spec(env_kwargs={"config": {"other_vehicles_type": text, "limit": "-0.5e3"}})
    assert list_named_code([requested]) == [f"a file or module: env.kwargs.config={text}"]


def test_a_run_is_trained_and_evaluated_in_the_changed_task(tmp_path):
    short = {"steps": 64, "eval_every": 64, "eval_episodes": 1}
    own = {"rollout_steps": 32, "minibatch_size": 32, "epochs": 1}
    kwargs = {"max_episode_steps": 5}
    _, usual = support.run(spec(env_kwargs=kwargs, hyperparameters=own, **short), tmp_path)
    _, double = support.run(
        spec(env_kwargs=kwargs, env_wrappers=[DOUBLE], hyperparameters=own, **short), tmp_path
    )
    assert usual["spec"]["env_kwargs"] == kwargs and double["spec"]["env_wrappers"] == [DOUBLE]
    # Another reward is another training; the first evaluation episode begins alike all the same.
    assert double["final_score"] < 1.5 * usual["final_score"] < 0
    assert dataclasses.replace(spec(), env_kwargs=kwargs).title.startswith(
        "sb3 ppo Pendulum-v1,max"
    )
