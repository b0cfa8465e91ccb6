"""The four levels of alignment, from the configuration to what a run trains with."""

import pytest

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.interventions.catalogue import list_reference_form, resolve_interventions
from parallax.harness.train.prepare import (
    describe_lost_values,
    describe_translation,
    list_lost_values,
    prepare_run,
)
from tests import support

OTHER_EPSILON = {"adam_eps": 1e-7, "rollout_steps": 256, "minibatch_size": 64}


def prepare(framework, algorithm, env="Pendulum-v1", **values):
    spec = support.spec(framework, algorithm, env=env, **values)
    return prepare_run(spec, load_adapter(framework))


def test_library_defaults_do_not_depend_on_the_recipe():
    for framework in ("sb3", "cleanrl", "skrl"):
        run = prepare(framework, "td3", alignment="defaults")
        assert run.spec.hps == "defaults"
        assert run.hyperparameters.hidden_sizes == load_recipe("td3", framework).hidden_sizes
        assert run.native.patched_fields == ()


def test_library_defaults_refuse_values_without_effect():
    with pytest.raises(SpecError, match=r"hyperparameters.gamma=0.5 would have no effect.*exact"):
        support.spec("sb3", "td3", alignment="defaults", hyperparameters={"gamma": 0.5})


def test_exact_patches_a_constant_and_records_the_patch():
    run = prepare("cleanrl", "ppo", alignment="exact", hyperparameters=OTHER_EPSILON)
    row = next(row for row in run.native.alignment if row.field == "adam_eps")
    assert (row.kind, row.native_value, row.is_fixed) == ("patched", 1e-7, False)
    recorded = describe_translation(run)["interventions"]["patch.adam-eps"]
    assert recorded["source"][0]["replace"].endswith("eps=1e-07)")


def test_matching_constants_are_not_patched():
    run = prepare(
        "cleanrl", "ppo", alignment="exact", hyperparameters=OTHER_EPSILON | {"adam_eps": 1e-5}
    )
    assert "adam_eps" not in run.native.patched_fields


def test_patches_false_refuses_with_the_remedy():
    with pytest.raises(SpecError, match=r"adam_eps=1e-07.*fixed at 1e-05.*patches=true"):
        prepare("cleanrl", "ppo", alignment="exact", patches=False, hyperparameters=OTHER_EPSILON)
    with pytest.raises(SpecError, match="patches=no must be true or false"):
        support.spec("cleanrl", "ppo", patches="no")


def test_patches_option_is_not_part_of_the_identity():
    spec = support.spec("sb3", "td3", alignment="exact", patches=False)
    assert spec == support.spec("sb3", "td3", alignment="exact")
    assert spec_from_dict(spec_to_dict(spec)).patches is False
    older = {name: value for name, value in spec_to_dict(spec).items() if name != "patches"}
    assert spec_from_dict(older).patches is True


def test_common_alignment_lists_lost_recipe_values():
    run = prepare("sb3", "dqn", env="CartPole-v1", alignment="common", hps="zoo")
    lost = list_lost_values(run, load_adapter("sb3"))
    recipe = load_recipe("dqn", "zoo")
    assert lost["train_freq"] == (recipe.train_freq, run.hyperparameters.train_freq)
    assert not set(lost) & type(recipe).common_fields
    exact = prepare("sb3", "dqn", env="CartPole-v1", alignment="exact", hps="zoo")
    assert list_lost_values(exact, load_adapter("sb3")) == {}
    (sentence,) = describe_lost_values([run, run, exact])
    assert f"train_freq ({recipe.train_freq} -> {run.hyperparameters.train_freq})" in sentence
    assert sentence.startswith("alignment=common: sb3 dqn keeps its own values of ")


CONVERSIONS = [
    ("sbx", "ppo", {"max_grad_norm": 0.5}, None, "joint-grad-clip"),
    ("sb3", "ppo", {"value_clip_range": 0.2}, None, "larger-value-loss"),
    ("sbx", "ppo", {"value_clip_range": 0.2}, None, "larger-value-loss"),
    ("skrl", "ppo", {"value_clip_range": 0.2}, None, "larger-value-loss"),
    ("skrl", "ppo", {"normalize_advantage": True}, False, "minibatch-advantage-normalization"),
    ("skrl", "ppo", {"learning_rate_schedule": "linear"}, "constant", "lr-decay-per-rollout"),
    ("skrl", "ppo", {"target_kl": 0.01}, None, "kl-stop-ends-rollout"),
    ("cleanrl", "ppo", {"target_kl": 0.01}, None, "kl-stop-before-step"),
    ("sbx", "td3", {"policy_delay": 2}, 1, "delayed-target-update"),
    ("tianshou", "td3", {"policy_delay": 2}, 1, "delay-from-the-second-update"),
    ("cleanrl", "dqn", {"learning_starts": 200}, 0, "uniform-warmup"),
    ("cleanrl", "sac", {"policy_delay": 2}, 1, "one-policy-update-per-delay"),
    ("sb3", "sac", {"target_update_interval": 2}, 1, "targets-after-whole-interval"),
]


@pytest.mark.parametrize(("framework", "algorithm", "values", "without", "name"), CONVERSIONS)
def test_exact_alignment_converts_different_meanings(framework, algorithm, values, without, name):
    def list_names(alignment, **changes):
        env = "CartPole-v1" if algorithm == "dqn" else "Pendulum-v1"
        run = prepare(framework, algorithm, env, alignment=alignment, **changes)
        kinds = {row.field: row.kind for row in run.native.alignment}
        return [item.name for item in run.interventions], kinds

    (field,) = values
    names, kinds = list_names("exact", hyperparameters=values)
    assert name in names and kinds[field] in ("converted", "patched")
    assert name not in list_names("exact", hyperparameters={field: without})[0]
    assert name not in list_names("common")[0]
    in_form = [item.name for item in list_reference_form(load_adapter(framework), algorithm)]
    assert name in in_form  # so lockstep, which adds no conversion, has it
    with pytest.raises(
        SpecError, match=f"intervention={name}: alignment=exact already includes it"
    ):
        list_names("exact", hyperparameters=values, intervention=name)
    less = list_names("exact", hyperparameters=values, intervention=f"without.{name}")[0]
    assert less == [other for other in names if other != name]
    with pytest.raises(SpecError, match=f"{field}=.*(differently from the schema.*{name}|it is)"):
        list_names("exact", hyperparameters=values, patches=False)


@pytest.mark.parametrize("framework", ["cleanrl", "torchrl", "skrl"])
def test_exact_counts_entropies_of_actions_between_minus_1_and_1(framework):
    for env, level in (("Pendulum-v1", "exact"), ("Pendulum-v1", "common"), ("Ant-v4", "exact")):
        names = [i.name for i in prepare(framework, "sac", env, alignment=level).interventions]
        is_converted = (env, level) == ("Pendulum-v1", "exact")  # whose actions go from -2 to 2
        assert ("log-probability-of-the-scaled-action" in names) == is_converted


def test_exact_alignment_removes_only_converted_interventions():
    with pytest.raises(SpecError, match="alignment=exact that is joint-grad-clip here"):
        prepare("sbx", "ppo", alignment="exact", intervention="without.larger-value-loss")
    with pytest.raises(SpecError, match="alignment=exact that is nothing here"):
        prepare("sb3", "ppo", alignment="exact", intervention="without.joint-grad-clip")
    with pytest.raises(SpecError, match="leaves out what is not changed"):
        prepare("sbx", "ppo", alignment="common", intervention="without.joint-grad-clip")


def test_lockstep_leaves_a_conversion_out_on_request():
    less = prepare("sbx", "ppo", alignment="lockstep", intervention="without.joint-grad-clip")
    assert "joint-grad-clip" not in {item.name for item in less.interventions}


def test_lockstep_adds_the_reference_form():
    adapter = load_adapter("cleanrl")
    form = [item.name for item in list_reference_form(adapter, "sac")]
    assert form
    run = prepare("cleanrl", "sac", alignment="lockstep")
    assert set(form) <= {item.name for item in run.interventions}
    less = prepare("cleanrl", "sac", alignment="lockstep", intervention=f"without.{form[0]}")
    assert form[0] not in {item.name for item in less.interventions}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("without.huber-loss", "intervention=without.huber-loss leaves out what is not changed"),
        ("without.bent-loss", "here. bent-loss was renamed huber-loss"),
        ("{first}", "intervention={first}: alignment=lockstep already includes it: drop it"),
    ],
)
def test_interventions_that_contradict_the_reference_form_are_refused(text, message):
    adapter = load_adapter("cleanrl")
    first = list_reference_form(adapter, "sac")[0].name
    with pytest.raises(SpecError, match=message.format(first=first)):
        resolve_interventions(text.format(first=first), adapter, "sac", reference_form=True)


@pytest.mark.parametrize("level", ["exact", "lockstep"])
def test_refusals_propose_only_accepted_levels(level):
    with pytest.raises(SpecError) as caught:
        prepare("sb3", "ppo", hps="original", alignment=level, n_envs=3, steps=6000)
    assert "or use n_envs=1." in str(caught.value) and "alignment=" not in str(caught.value)
    prepare("sb3", "ppo", hps="original", alignment=level, n_envs=1, steps=6000)


def test_common_proposes_exact_where_only_a_patch_gives_a_value():
    changes = {"hps": "cleanrl", "steps": 6000}
    with pytest.raises(SpecError, match=r"value_clip_range.*or use alignment=exact"):
        prepare("sbx", "ppo", alignment="common", **changes)
    prepare("sbx", "ppo", alignment="exact", **changes)


@pytest.mark.parametrize("framework", ["skrl", "sbx"])
def test_unsupported_images_are_refused_as_images(framework):
    with pytest.raises(SpecError, match="does not train this algorithm on images: use a task"):
        prepare(framework, "dqn", env="MinAtar/Breakout-v1", alignment="exact", hps="minatar")


SEVERAL = [("ppo", "Pendulum-v1"), ("td3", "Pendulum-v1"), ("sac", "Pendulum-v1")]
SEVERAL += [("ddpg", "Pendulum-v1"), ("dqn", "CartPole-v1")]


@pytest.mark.parametrize("framework", ["sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx"])
@pytest.mark.parametrize(("algorithm", "env"), SEVERAL)
def test_parallel_environments_are_accepted_as_documented(framework, algorithm, env):
    lengths = {"train_freq": 4, "gradient_steps": 4}
    lengths = {"rollout_steps": 256, "minibatch_size": 64} if algorithm == "ppo" else lengths
    values = {"env": env, "alignment": "exact", "n_envs": 4, "hyperparameters": lengths}
    if framework == "cleanrl" and algorithm != "ppo":
        with pytest.raises(SpecError, match="scripts with a replay buffer have one environment"):
            prepare(framework, algorithm, **values)
    else:
        assert prepare(framework, algorithm, **values).context.n_envs == 4
