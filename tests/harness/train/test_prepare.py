"""Preparation of runs, and messages of refused ones."""

import dataclasses
import types
from pathlib import Path

import pytest
import support

from parallax.envs.tasks import TaskError, load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.replay import UNIFORM_REPLAY
from parallax.harness.train import limits, prepare
from parallax.harness.train.prepare import prepare_run, prepare_runs

SB3 = load_adapter("sb3")


def raises(words, check, *given, **options):
    with pytest.raises(SpecError) as error:
        check(*given, **options)
    assert str(error.value) == words


@pytest.mark.parametrize("alignment", ["common", "exact", "lockstep", "defaults"])
def test_the_translation_knows_the_run_and_whether_meanings_are_converted(alignment):
    spec = support.spec(n_envs=2, seed=3, alignment=alignment, steps=6000)
    assert prepare_run(spec, SB3).context == RunContext(
        task=load_task(spec.env),
        steps=6000,
        seed=3,
        n_envs=2,
        replay=UNIFORM_REPLAY,
        device="cpu",
        patch_constants=spec.patch_constants,
        converts_meanings=alignment in ("exact", "lockstep"),
        script=None,
        acceleration="none",
        actors=1,
    )


@pytest.mark.parametrize(("python", "checked"), [(None, ["sb3", "none"]), ("/p", ["/p of sb3"])])
def test_requirements_are_checked_in_the_interpreter_of_the_run(monkeypatch, python, checked):
    found = []
    monkeypatch.setattr(prepare, "check_logger_installed", found.append)
    monkeypatch.setattr(
        prepare, "check_interpreter", lambda path, framework: found.append(f"{path} of {framework}")
    )
    adapter = types.SimpleNamespace(check_installed=lambda: found.append("sb3"))
    spec = types.SimpleNamespace(python=python, logger="none", framework="sb3")
    prepare._check_installation(spec, adapter)
    assert found == checked


def test_unknown_task_is_a_command_line_error(monkeypatch):
    def fail(env, **options):
        raise TaskError(f"{env} is no task with {options}")

    monkeypatch.setattr(prepare, "load_task", fail)
    spec = types.SimpleNamespace(env="A-v0", env_options={"g": 1})
    raises("A-v0 is no task with {'g': 1}", prepare._load_task, spec)


@pytest.mark.parametrize(("on_this_machine", "cores"), [(True, 2), (False, 1024)])
def test_bounds_are_those_of_the_machine_that_trains(monkeypatch, on_this_machine, cores):
    found = []
    machine = limits.Machine(2, 2**40, "this machine")
    monkeypatch.setattr(limits.Machine, "of_this_host", classmethod(lambda cls: machine))
    monkeypatch.setattr(limits, "check_limits", lambda *given: found.append(given[-1].cores))
    monkeypatch.setattr(limits, "check_compatibility", lambda *given: found.append(given[-1]))
    prepare_run(support.spec(), SB3, on_this_machine)
    assert found == [cores, on_this_machine]


@pytest.mark.parametrize("must_learn", [True, False])
def test_run_without_an_update_is_refused_if_learning_is_required(must_learn):
    spec = support.spec(algorithm="td3", steps=600)
    values = dataclasses.replace(spec.hyperparameters, learning_starts=600)
    spec = dataclasses.replace(spec, hyperparameters=values)
    if not must_learn:
        assert prepare_run(spec, SB3, must_learn=False).hyperparameters.learning_starts == 600
        return
    with pytest.raises(SpecError, match="leaves nothing to learn from"):
        prepare_run(spec, SB3)


def make_segment(module):
    return types.SimpleNamespace(module=module)


@pytest.mark.parametrize(("choices", "kind"), [(0, "discrete"), (2, "continuous")])
def test_interventions_on_unused_code_are_refused_with_a_suitable_task(choices, kind):
    adapter = types.SimpleNamespace(
        name="sb3", runs_module=lambda algorithm, module, context: module in ("a", "c")
    )
    spec = types.SimpleNamespace(algorithm="ppo", env="A-v0")
    context = types.SimpleNamespace(task=types.SimpleNamespace(choices=choices))
    sources = [make_segment(name) for name in "abc"]

    def make(*source):
        values = dict.fromkeys(field.name for field in dataclasses.fields(prepare.Intervention))
        return prepare.Intervention(**(values | {"name": "changed", "source": source}))

    executed = prepare._keep_executed(make(*sources), adapter, spec, context)
    assert executed.source == (sources[0], sources[2]) and executed.name == "changed"
    assert prepare._keep_executed(make(), adapter, spec, context).source == ()
    raises(
        "intervention=changed changes b, which framework=sb3 does not run on env=A-v0: use a task "
        f"with {kind} actions.",
        *(prepare._keep_executed, make(sources[1]), adapter, spec, context),
    )


def make_row(field, value, conversion):
    return types.SimpleNamespace(field=field, value=value, conversion=conversion)


def test_values_that_only_a_change_of_source_converts_are_all_named():
    rows = [make_row("a", 0.5, "fix-a"), make_row("b", True, ""), make_row("c", None, "fix-c")]
    native = types.SimpleNamespace(alignment=rows)
    middle = "sb3 interprets it differently from the schema, and only a change of its source"
    raises(
        f"hyperparameters.a=0.5: {middle} (fix-a) helps; "
        f"hyperparameters.c=null: {middle} (fix-c) helps.",
        *(prepare.check_no_conversion, "sb3", native),
    )
    native.alignment = rows[1:2]
    assert prepare.check_no_conversion("sb3", native) is None


@pytest.mark.parametrize(
    ("text", "kind"), [("hyperparameters.a=1", prepare._RefusedValueError), ("steps=1", SpecError)]
)
def test_only_refused_values_have_remedies(text, kind):
    def refuse(*given):
        raise SpecError(text)

    adapter, spec = types.SimpleNamespace(translate=refuse), support.spec()
    with pytest.raises(SpecError) as error:
        prepare._translate(spec, adapter, None, None)
    assert type(error.value) is kind and str(error.value) == text


@pytest.mark.parametrize(
    ("accepted", "words"),
    [
        ([], "Change the value."),
        (["n_envs"], "Change the value, or use n_envs=1."),
        (
            ["alignment"],
            "Change the value, or use alignment=exact, which patches upstream's constants.",
        ),
    ],
)
def test_refusal_names_each_sufficient_change(monkeypatch, accepted, words):
    spec = support.spec(n_envs=2, alignment="common")
    tried = []

    def fake(changed, adapter, on_this_machine, must_learn):
        differs = [
            name for name in ("n_envs", "alignment") if vars(changed)[name] != vars(spec)[name]
        ]
        tried.append((differs, on_this_machine, must_learn))
        if not differs or differs[0] not in accepted:
            raise prepare._RefusedValueError("hyperparameters.a=1 is fixed at 2.")

    monkeypatch.setattr(prepare, "_prepare_run", fake)
    raises(f"hyperparameters.a=1 is fixed at 2. {words}", prepare_run, spec, SB3)
    assert tried == [([], True, True), (["alignment"], False, False), (["n_envs"], False, False)]


def test_common_accepts_only_values_that_every_framework_exposes(monkeypatch):
    monkeypatch.setattr(prepare, "_prepare_run", lambda *given, **options: None)
    spec = support.spec(alignment="common")
    common = sorted(spec.hyperparameters.common_fields)[0]
    for overridden, accepted in (((), True), ((common,), True), ((common, "adam_eps"), False)):
        one = dataclasses.replace(spec, overridden=overridden)
        assert prepare._is_accepted(one, SB3) is accepted
        exact = dataclasses.replace(one, alignment="exact")
        assert prepare._is_accepted(exact, SB3) is True


def test_alignment_except_defaults_has_the_recipe_and_set_values(monkeypatch):
    spec = support.spec(alignment="defaults", steps=6000)
    values = dataclasses.replace(spec.hyperparameters, learning_rate=0.5)
    spec = dataclasses.replace(spec, hyperparameters=values, overridden=("learning_rate",))
    assert prepare._change_run(spec, {"n_envs": 1}) == dataclasses.replace(spec, n_envs=1)
    changed = prepare._change_run(spec, {"alignment": "exact"})
    usual = prepare.load_recipe("ppo", "original")
    recipe = dataclasses.replace(usual, learning_rate=0.5)
    assert (changed.hps, changed.alignment) == ("original", "exact")
    assert changed.hyperparameters == recipe
    plain = support.spec(alignment="common")
    exact = dataclasses.replace(plain, alignment="exact")
    assert prepare._change_run(plain, {"alignment": "exact"}) == exact
    monkeypatch.setattr(prepare, "list_recipe_names", lambda algorithm: ["sb3"])
    exact = dataclasses.replace(spec, alignment="exact")
    assert prepare._change_run(spec, {"alignment": "exact"}) == exact


def test_a_framework_without_a_recipe_has_no_defaults(monkeypatch):
    monkeypatch.setattr(prepare, "list_recipe_names", lambda algorithm: ["original"])
    given = (SB3, "ppo", support.spec().hyperparameters)
    assert prepare.resolve_hyperparameters(*given, "exact", None) is given[2]
    raises(
        "framework=sb3 has no recipe hp_configs/ppo/sb3.yaml, which alignment=common takes its "
        "defaults from: add it, or use alignment=exact.",
        *(prepare.resolve_hyperparameters, *given, "common", None),
    )


def test_recipe_of_a_framework_resolves_to_its_library_defaults(monkeypatch):
    requested = support.spec().hyperparameters
    own = dataclasses.replace(requested, learning_rate=0.25, gamma=0.5)
    owner = types.SimpleNamespace(
        supports=lambda algorithm: algorithm == "ppo",
        get_library_defaults=lambda algorithm, recipe, context: own,
    )
    monkeypatch.setattr(prepare, "load_adapter", lambda name: owner)
    resolve = prepare.resolve_library_recipe
    assert resolve("original", "ppo", requested, (), None) is requested
    assert resolve("sb3", "td3", requested, (), None) is requested
    assert resolve("sb3", "ppo", requested, (), None) == own
    both = dataclasses.replace(own, gamma=requested.gamma)
    assert resolve("sb3", "ppo", requested, ("gamma",), None) == both


def make_run(framework="sb3", steps=1000, rollout=300, **changes):
    spec = {"framework": framework, "algorithm": "dqn", "steps": steps, "alignment": "exact"}
    values = {"has_targets": True} | ({"rollout_steps": rollout} if rollout else {})
    updates = changes.pop("target_updates", 1)
    return types.SimpleNamespace(
        spec=types.SimpleNamespace(**(spec | changes)),
        hyperparameters=types.SimpleNamespace(**values),
        native=types.SimpleNamespace(update_schedule=types.SimpleNamespace(target_updates=updates)),
    )


STILL = "dqn never updates its target network in steps=1000: lower "
STILL += "hyperparameters.target_update_interval, or raise steps."
PARTIAL = (
    "steps=1000 is not a multiple of hyperparameters.rollout_steps=300: some frameworks learn "
)
PARTIAL += "from one more rollout than others. With steps=900 or steps=1200, all learn from the "
PARTIAL += "same number."


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        ([make_run(), make_run("cleanrl")], [PARTIAL]),
        ([make_run(), make_run()], []),
        ([make_run(), make_run("cleanrl", alignment="common")], []),
        ([make_run(rollout=250), make_run("cleanrl", rollout=250)], []),
        ([make_run(rollout=1001), make_run("cleanrl", rollout=1001)], []),
        ([make_run(rollout=None), make_run("cleanrl", rollout=None)], []),
        ([make_run(steps=999), make_run("cleanrl")], []),
        ([make_run(target_updates=0), make_run(target_updates=0)], [f"sb3 {STILL}"]),
        (
            [make_run(target_updates=0), make_run("cleanrl", target_updates=0)],
            [f"sb3 {STILL}", f"cleanrl {STILL}", PARTIAL],
        ),
    ],
)
def test_suspicious_run_settings_are_named_once(monkeypatch, runs, said):
    monkeypatch.setattr(prepare, "describe_lost_values", lambda runs: ["lost"])
    assert prepare.describe_doubtful_runs(runs) == ["lost", *said]


def make_lost(**changes):
    spec = {"framework": "sb3", "env": "A-v0", "algorithm": "dqn", "replay": None, "hps": "zoo"}
    spec |= {"alignment": "common", "hyperparameters": (("tau", 0.5),)}
    return types.SimpleNamespace(spec=types.SimpleNamespace(**(spec | changes)))


def test_lost_values_are_described_once_per_framework_recipe_and_values(monkeypatch):
    translated = []

    def list_lost(run, adapter):
        translated.append((run.spec.framework, run.spec.env))
        return {} if run.spec.env == "B-v0" else {"tau": (0.5, 1.0), "gamma": (0.9, 0.99)}

    monkeypatch.setattr(prepare, "list_lost_values", list_lost)
    runs = [make_lost(), make_lost(), make_lost(env="B-v0"), make_lost(env="C-v0")]
    runs += [make_lost(alignment="exact", env="D-v0"), make_lost(framework="cleanrl")]
    end = "dqn keeps its own values of tau (0.5 -> 1.0), gamma (0.9 -> 0.99), although it can take "
    end += "those of hps=zoo. alignment=exact sets them."
    said = [f"alignment=common: {name} {end}" for name in ("sb3", "cleanrl")]
    assert prepare.describe_lost_values(runs) == said
    assert translated == [("sb3", f"{name}-v0") for name in "ABC"] + [("cleanrl", "A-v0")]


def test_only_values_that_the_framework_accepts_are_lost():
    spec = support.spec(algorithm="dqn", alignment="common", env="CartPole-v1")
    wanted = dataclasses.replace(
        spec.hyperparameters, train_freq=8, gradient_steps=5, gamma=0.5, huber_delta=3.0
    )
    used = spec.hyperparameters
    prepared = prepare_run(spec, SB3)
    prepared = dataclasses.replace(
        prepared, hyperparameters=used, spec=dataclasses.replace(spec, hyperparameters=wanted)
    )

    def translate(algorithm, values, context):
        assert algorithm == "dqn" and context == prepared.context
        if values.huber_delta != used.huber_delta:
            raise SpecError("fixed")

    adapter = types.SimpleNamespace(translate=translate)
    assert "gamma" in used.common_fields and "train_freq" not in used.common_fields
    lost = prepare.list_lost_values(prepared, adapter)
    assert lost == {"train_freq": (8, used.train_freq), "gradient_steps": (5, used.gradient_steps)}


def test_problems_of_several_runs_are_listed_once_each(monkeypatch):
    loaded, given = [], []

    def prepare_one(spec, adapter, on_this_machine):
        given.append((spec.seed, adapter, on_this_machine))
        if spec.seed:
            raise SpecError(f"too large: {spec.seed // 2}")
        return spec.seed

    monkeypatch.setattr(prepare, "load_adapter", lambda name: loaded.append(name) or name)
    monkeypatch.setattr(prepare, "prepare_run", prepare_one)
    specs = [support.spec(seed=seed) for seed in (0, 0, 2, 3, 4)]
    assert prepare_runs(specs[:2]) == [0, 0] and loaded == ["sb3"]
    assert given == [(0, "sb3", True)] * 2
    raises("too large: 1", prepare_runs, specs[2:3], on_this_machine=False)
    assert given[-1] == (2, "sb3", False)
    words = f"{specs[2].title}: too large: 1\n{specs[4].title}: too large: 2"
    raises(words, prepare_runs, specs)
    assert prepare_runs([]) == []


def test_an_edited_wrapper_is_named_with_both_hashes_and_the_remedy(monkeypatch):
    monkeypatch.setattr(prepare, "hash_wrapper_sources", lambda wrappers: {"m:W": "b" * 64})
    raises(
        "f holds a run with env.wrappers=m:W, whose file has been edited since (SHA-256 "
        "aaaaaaaaaaaa then, bbbbbbbbbbbb now). Choose another study.name or results_dir, or give "
        "the wrapper another name.",
        *(prepare.check_wrapper_sources, support.spec(), {"m:W": "a" * 64}, Path("f")),
    )


def test_changes_and_wrappers_are_described_if_present(monkeypatch):
    prepared = prepare_run(support.spec(), SB3)
    plain = {
        "hyperparameters": dataclasses.asdict(prepared.hyperparameters),
        "native": dict(prepared.native.settings),
    }
    assert prepare.describe_translation(prepared) == plain
    monkeypatch.setattr(prepare, "hash_wrapper_sources", lambda wrappers: {"m:W": "b"})
    change = types.SimpleNamespace(name="changed", to_dict=lambda: {"does": "x"})
    changed = prepare.describe_translation(dataclasses.replace(prepared, interventions=(change,)))
    more = {"interventions": {"changed": {"does": "x"}}, "wrapper_sources": {"m:W": "b"}}
    assert changed == plain | more


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ({"b": 1, "a": 1}, {"b": 2, "a": 1}, "p: b=1 then, 2 now"),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, "p: a=1 then, 2 now"),
        ({"a": 1}, {"a": 1, "c": 3}, "p: c=None then, 3 now"),
        ({"a": 1}, 3, "p: {'a': 1} then, 3 now"),
        (3, {"a": 1}, "p: 3 then, {'a': 1} now"),
    ],
)
def test_the_first_difference_of_a_translation_is_named(old, new, words):
    assert prepare._describe_translation_difference("p", old, new) == words


def test_fields_that_were_added_later_make_no_difference():
    assert prepare._select_decisive({"a": None, "b": 0, "c": False}) == {"b": 0, "c": False}
    assert prepare._select_decisive([None]) == [None]
