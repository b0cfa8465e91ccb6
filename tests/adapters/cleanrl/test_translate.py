import types
from dataclasses import replace

import pytest
import support
import torch
from loops import iterate_some

from parallax.adapters.cleanrl import CleanRLAdapter, scripts, settings
from parallax.adapters.cleanrl import script_runner as bridge
from parallax.adapters.cleanrl.settings import make_script_arguments
from parallax.envs.tasks import Task, load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.interventions.catalogue import (
    apply_settings,
    check_no_conflict,
    make_patches,
    resolve_interventions,
)
from parallax.harness.train.prepare import prepare_run


def translate(algorithm, steps=10_000, patched=False, **changes):
    hyperparameters = replace(load_recipe(algorithm, "cleanrl"), **changes)
    task = load_task(support.ENVS[ALGORITHMS[algorithm].actions])
    context = RunContext(task, steps, seed=3, patch_constants=patched, converts_meanings=patched)
    return CleanRLAdapter().translate(algorithm, hyperparameters, context)


def parsed(algorithm, arguments, kind="continuous"):
    """Parse a command line with the parser of the script."""
    _, source = scripts.read_script(algorithm, kind)
    head = source[: source.index("def make_env")].split("import gym")[0]
    parser = source[source.index("def parse_args") : source.index("def make_env")]
    names = {"__file__": "script.py"}
    exec(head + "\n" + parser, names)
    import sys

    before, sys.argv = sys.argv, ["script.py", *arguments]
    try:
        return vars(names["parse_args"]())
    finally:
        sys.argv = before


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.mark.parametrize("algorithm", support.algorithms_of("cleanrl"))
def test_own_recipe_equals_the_script_defaults(algorithm):
    ours = parsed(algorithm, make_script_arguments(translate(algorithm, 500_000)))
    upstream = parsed(algorithm, [])
    different = {name for name in upstream if ours[name] != upstream[name]}
    assert different - {"env_id", "total_timesteps"} == {"seed", "cuda"}


def test_atari_defaults_are_those_of_the_script_for_images():
    game = Task("a game", 1, (), (), 0, choices=6, image=(4, 84, 84), brightest=255)
    context = RunContext(game, 10_000, 0, n_envs=8)
    adapter = CleanRLAdapter()
    own = adapter.get_library_defaults("ppo", load_recipe("ppo", "cleanrl"), context)
    ours = parsed("ppo", make_script_arguments(adapter.translate("ppo", own, context)), "images")
    upstream = parsed("ppo", [], "images")
    different = {name for name in upstream if ours[name] != upstream[name]}
    assert different == {"env_id", "total_timesteps", "seed", "cuda"}


def test_minibatch_size_becomes_a_count():
    native = translate("ppo", rollout_steps=1024, minibatch_size=128)
    assert native.settings["num-minibatches"] == 8


def test_minibatches_that_are_not_whole_are_refused():
    with pytest.raises(SpecError, match=r"minibatch_size=100: .*divisor of rollout_steps=2048"):
        translate("ppo", minibatch_size=100)


def test_annealing_is_a_flag():
    assert translate("ppo", learning_rate_schedule="linear").settings["anneal-lr"] is True
    assert translate("ppo", learning_rate_schedule="constant").settings["anneal-lr"] is False
    with pytest.raises(SpecError, match="clip_range_schedule=linear"):
        translate("ppo", clip_range_schedule="linear")


def test_value_clipping_shares_the_clip_range():
    assert translate("ppo", value_clip_range=None).settings["clip-vloss"] is False
    assert translate("ppo", clip_range=0.1, value_clip_range=0.1).settings["clip-vloss"] is True
    with pytest.raises(SpecError, match=r"value_clip_range=0\.3: .*clip_range=0\.2"):
        translate("ppo", value_clip_range=0.3)


def test_td3_has_one_learning_rate():
    with pytest.raises(SpecError, match=r"critic_learning_rate=0\.01"):
        translate("td3", critic_learning_rate=0.01)
    native = translate("td3", policy_learning_rate=0.01, critic_learning_rate=0.01)
    assert native.settings["learning-rate"] == 0.01


def test_sac_temperature_shares_the_critics_learning_rate():
    with pytest.raises(SpecError, match=r"temperature_learning_rate=0\.01: .*0\.001"):
        translate("sac", temperature_learning_rate=0.01)


@pytest.mark.parametrize("field", ["train_freq", "gradient_steps"])
def test_update_ratio_is_fixed(field):
    with pytest.raises(SpecError, match=f"{field}=2: in cleanrl it is fixed at 1"):
        translate("td3", **{field: 2})


@pytest.mark.parametrize("algorithm", support.algorithms_of("cleanrl"))
def test_every_hyperparameter_takes_other_values_with_patches(algorithm):
    schema = ALGORITHMS[algorithm]
    base = load_recipe(algorithm, "cleanrl")
    for field, values in iterate_some(schema.alternatives.items()):
        if field == "conv_filters":
            continue  # none without images
        for value in values:
            rows = translate(algorithm, patched=True, **{field: value}).alignment
            row = next(row for row in rows if row.field == field)
            assert row.value == value, field
            if row.kind in ("constant", "tied"):
                assert value == getattr(base, field)


@pytest.mark.parametrize("algorithm", support.algorithms_of("cleanrl"))
def test_patches_of_all_fields_are_compatible(algorithm):
    adapter = CleanRLAdapter()
    fields = sorted(adapter.list_patchable_fields(algorithm))
    patches = make_patches(adapter, algorithm, load_recipe(algorithm, "cleanrl"), fields)
    assert sorted(item.field for item in patches) == fields != []
    check_no_conflict(patches)


def test_a_loss_that_is_logged_before_the_policy_learns_is_refused():
    with pytest.raises(SpecError, match="would log the policy's loss at a multiple of 100 steps"):
        translate("td3", 30_000, learning_starts=299, policy_delay=200)


def test_delays_count_critic_steps_from_the_first():
    # 25,000 steps of warm-up are a multiple of 4, and not of 3.
    assert not translate("td3", 30_000, patched=True, policy_delay=4).patched_fields
    # The script logs after its 100th step; the policy's first loss may come in the same one.
    same_step = {"learning_starts": 300, "policy_delay": 100}
    assert not translate("td3", 30_000, patched=True, **same_step).patched_fields
    assert translate("td3", patched=True, policy_delay=3).patched_fields == ("policy_delay",)
    native = translate("td3", 30_000, patched=True, train_freq=4, gradient_steps=2, policy_delay=3)
    assert native.patched_fields == ("train_freq", "gradient_steps", "policy_delay")
    schedule = native.update_schedule
    assert (schedule.first_update, schedule.total_gradient_steps) == (25_004, 2500)
    assert schedule.policy_updates == schedule.target_updates == 833
    native = translate("sac", patched=True, train_freq=4)
    assert native.patched_fields == ("train_freq", "policy_delay", "target_update_interval")


def test_weight_of_the_value_loss_compensates_the_factor_of_the_script():
    assert translate("ppo", vf_coef=0.25).settings["vf-coef"] == 0.25
    assert translate("ppo", vf_coef=0.25, patched=True).settings["vf-coef"] == 0.5


def test_minibatches_that_are_not_whole_are_patched():
    assert translate("ppo", patched=True, minibatch_size=100).patched_fields == ("minibatch_size",)


def test_steps_round_down_to_whole_rollouts():
    assert translate("ppo", steps=20_000).total_steps == 18_432
    assert translate("td3", steps=20_000).total_steps == 20_000
    with pytest.raises(SpecError, match="steps=2047 is less than one rollout"):
        translate("ppo", steps=2047)


@pytest.mark.parametrize("algorithm", ["td3", "ddpg"])
def test_exploration_noise_is_left_out_by_an_intervention(algorithm):
    changes = resolve_interventions("no-exploration-noise", CleanRLAdapter(), algorithm)
    assert apply_settings(load_recipe(algorithm, "cleanrl"), changes).exploration_noise == 0


@pytest.mark.parametrize(
    ("env", "module"),
    [("CartPole-v1", "cleanrl.ppo"), ("Pendulum-v1", "cleanrl.ppo_continuous_action")],
)
def test_changes_are_those_of_the_script_that_the_task_runs(env, module):
    spec = support.spec(
        "cleanrl", "ppo", env=env, steps=4096, intervention="value-loss-x1", alignment="exact"
    )
    (change,) = prepare_run(spec, CleanRLAdapter()).interventions
    assert {segment.module for segment in change.source} == {module}


def test_change_of_a_script_that_the_task_does_not_run_is_refused():
    spec = support.spec("cleanrl", "ppo", env="CartPole-v1", steps=4096, intervention="mutant-001")
    message = "ppo_continuous_action, which framework=cleanrl does not run on env=CartPole-v1"
    with pytest.raises(SpecError, match=message):
        prepare_run(spec, CleanRLAdapter())


def test_another_version_of_a_script_is_refused(monkeypatch):
    other = replace(settings.ALGORITHMS["td3"], script=("td3_continuous_action.py", "0" * 64))
    monkeypatch.setitem(settings.ALGORITHMS, "td3", other)
    with pytest.raises(SpecError, match=r"not the script of cleanrl's wheel.*pip install"):
        CleanRLAdapter().check_installed()


def test_missing_wheel_error_names_the_install_command(monkeypatch, tmp_path):
    monkeypatch.setattr(scripts, "_find_package_folder", lambda: tmp_path)
    with pytest.raises(SpecError, match=r"Run: pip install --no-deps --ignore"):
        bridge.load_script("ppo")


def test_dqn_of_the_previous_release_copies_its_target_completely(monkeypatch):
    monkeypatch.setattr(settings, "is_before_1_2", lambda: True)
    assert "tau" not in translate("dqn", tau=1.0).settings
    with pytest.raises(SpecError, match="tau"):
        translate("dqn", tau=0.5)


def test_greedy_sac_actions_are_the_squashed_mean_in_action_units():
    class Actor:
        action_scale, action_bias = torch.tensor([2.0, 0.5]), torch.tensor([1.0, -0.5])

        def __call__(self, observations):
            return observations, None

    mean = torch.tensor([[0.0, 0.0], [100.0, -100.0]])
    found = settings.predict_actions_sac({"actor": Actor()}, mean, None)
    assert found.tolist() == [[1.0, -0.5], [3.0, -1.0]]


def test_greedy_actions_are_argmax_clipped_mean_or_actor_output():
    low, high = (-1.0, 0.0), (1.0, 0.5)
    agent = types.SimpleNamespace(
        network=lambda images: images.flatten(1)[:, :2],
        actor=lambda features: features * torch.tensor([1.0, -1.0]),
        actor_mean=lambda observations: observations,
    )
    rows = torch.tensor([[2.0, 0.25], [-3.0, 9.0]])
    tasks = {
        "continuous": Task("A-v0", 2, low, high, 0, 0),
        "discrete": Task("A-v0", 2, (), (), 0, 2),
        "images": Task("A-v0", 4, (), (), 0, 2, image=(1, 2, 2), brightest=10),
    }
    found = {
        kind: settings.predict_actions_ppo({"agent": agent}, rows, RunContext(task, 1, seed=0))
        for kind, task in tasks.items()
        if kind != "images"
    }
    assert found["continuous"].tolist() == [[1.0, 0.25], [-1.0, 0.5]]
    assert found["discrete"].tolist() == [0, 0]
    seen = []
    agent.network = lambda images: (seen.append(images), images.flatten(1)[:, :2])[1]
    images = torch.tensor([[[[20.0, 0.0], [0.0, 0.0]]], [[[-20.0, 0.0], [0.0, 0.0]]]])
    context = RunContext(tasks["images"], 1, seed=0)
    assert settings.predict_actions_ppo({"agent": agent}, images, context).tolist() == [0, 1]
    assert seen[0].max() == 2
    own = {"actor": lambda rows: rows + 1, "q_network": lambda rows: rows}
    for predict in (settings.ALGORITHMS[name].predict_actions for name in ("td3", "ddpg")):
        assert predict(own, rows, None).tolist() == [[3.0, 1.25], [-2.0, 10.0]]
    assert settings.predict_actions_dqn(own, rows, None).tolist() == [0, 1]
    assert {kind: settings.get_script_kind(task) for kind, task in tasks.items()} == {
        kind: kind for kind in tasks
    }


def test_scripts_are_chosen_by_the_kind_of_task():
    ppo, td3 = settings.ALGORITHMS["ppo"], settings.ALGORITHMS["td3"]
    kinds = ("continuous", "discrete", "images")
    assert [ppo.get_script(kind)[0] for kind in kinds] == [
        "ppo_continuous_action.py",
        "ppo.py",
        "ppo_atari.py",
    ]
    assert {td3.get_script(kind)[0] for kind in kinds} == {"td3_continuous_action.py"}


def test_the_release_of_the_scripts_is_read_from_the_distribution(monkeypatch):
    for text, is_before in (("1.1.0", True), ("1.2", False), ("2.0", False)):
        monkeypatch.setattr(settings, "version", lambda name, text=text: text)
        assert settings.is_before_1_2() is is_before

    def fail(name):
        raise settings.PackageNotFoundError

    monkeypatch.setattr(settings, "version", fail)
    assert settings.is_before_1_2() is False


@pytest.mark.parametrize("starts", [0, 50, 63, 64])
@pytest.mark.parametrize(("every", "interval"), [(4, 4), (4, 12), (10, 30), (3, 8)])
@pytest.mark.parametrize("tau", [1.0, 0.5])
def test_updates_of_dqn_are_those_of_the_scripts_loop(starts, every, interval, tau):
    hp = replace(
        load_recipe("dqn", "cleanrl"),
        learning_starts=starts,
        train_freq=every,
        target_update_interval=interval,
        tau=tau,
        gradient_steps=1,
    )
    updates = moves = 0
    has_changed = False  # with tau below 1 a target never equals the network again
    for step in range(200):
        if step > starts:
            if step % every == 0:
                updates, has_changed = updates + 1, True
            if step % interval == 0:
                moves, has_changed = moves + has_changed, tau < 1
    context = RunContext(load_task("CartPole-v1"), 200, seed=3)
    found = settings._count_dqn_updates(hp, context)
    assert (found["policy_updates"], found["target_updates"]) == (updates, moves)
