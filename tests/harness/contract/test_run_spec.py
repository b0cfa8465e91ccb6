"""Settings of a run: what is allowed up to its bounds, and what is not, in one message each."""

import dataclasses
import hashlib
import math
import re
from pathlib import Path

import pytest
import support
from loops import iterate_some

from parallax.harness.contract import run_spec
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import OwnScript
from parallax.harness.contract.recipes import load_recipe, read_recipe
from parallax.harness.contract.run_spec import (
    make_run_spec,
    rename_study,
    spec_from_dict,
    spec_to_dict,
)

ENDPOINTS = "must be final, auc, last-K such as last-3, or steps-P such as steps-90."


@pytest.mark.parametrize(
    ("name", "allowed", "refused", "words"),
    [
        ("logger", ["none", "tensorboard", "wandb"], ["x", 1], "must be one of none, tensorboard"),
        ("checkpoint_every", [0, 0.5, 10**6], [-1, 10**6 + 1, True, "5"], "from 0, which is off, "),
        ("patches", [True, False], [1, None, "true"], "must be true or false."),
        ("evaluate_untrained", [True, False], [0, None], "must be true or false."),
        (
            "endpoint",
            ["final", "auc", "last-1", "last-9999", "steps-1", "steps-99", "steps-100"],
            ["last-0", "last-10000", "steps-0", "steps-101", "last", "finals", 3, None],
            ENDPOINTS,
        ),
        ("env_wrappers", [("a.b:C", "d:E_1")], ["a", ["a"], ["1:A"], 5, ["a:b:c"]], "must list cl"),
        ("env_kwargs", [{"a": 1, "b": [True, None, {"c": "d", "e": [0.5]}]}], [5, "a"], "by name."),
        ("python", ["/a/python", None], [], ""),
    ],
)
def test_settings_outside_the_identity_are_unchanged_or_refused(name, allowed, refused, words):
    for value in iterate_some(allowed):
        spec = support.spec(**{name: value})
        assert getattr(spec, name) == value
        assert type(getattr(spec, name)) is (float if name == "checkpoint_every" else type(value))
        assert spec_from_dict(spec_to_dict(spec)) == spec
    for value in refused:
        with pytest.raises(SpecError, match=re.escape(words)):
            support.spec(**{name: value})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({1: 2}, "env.kwargs.1 must be the name of an argument of the task."),
        ({"a-b": 2}, "env.kwargs.a-b must be the name of an argument of the task."),
        (
            {"wrappers": 2},
            "env.kwargs.wrappers cannot be set: wrappers are listed in env.wrappers.",
        ),
        ({"a": float("inf")}, "env.kwargs.a=inf must be a finite number, a text, true, false, nul"),
        ({"a": [1, {"b": float("nan")}]}, "must be a finite number, a text, true, false, null, or"),
        ({"a": {1: 2}}, "env.kwargs.a={1: 2} must be a finite number, a text, true, false, null, "),
        ({"a": {2}}, "env.kwargs.a={2} must be a finite number, a text, true, false, null, or a "),
    ],
)
def test_arguments_of_a_task_are_plain_values_by_name(given, words):
    with pytest.raises(SpecError, match=re.escape(words)):
        support.spec(env_kwargs=given)


def test_an_interval_of_evaluations_is_a_tenth_of_the_steps_rounded_up():
    for steps, expected in ((600, 60), (601, 61), (5, 1), (1, 1)):
        assert support.spec(algorithm="td3", steps=steps, eval_every=None).eval_every == expected
    for steps in ("many", math.nan, math.inf):
        with pytest.raises(SpecError, match=f"steps={steps!r} must be a whole number"):
            given = {"steps": steps, "eval_every": None}
            make_run_spec(spec_to_dict(support.spec()) | given, {}, {})
    assert support.spec(steps=600, eval_every=600).eval_every == 600


def test_title_names_changed_settings():
    plain = support.spec()
    assert plain.title == "sb3 ppo InvertedPendulum-v4 sb3 seed=0"
    script = OwnScript("own.py", hashlib.sha256(b"").hexdigest(), "")
    changed = dataclasses.replace(
        plain,
        intervention="a+b",
        acceleration="compile",
        seed=7,
        env_kwargs={"g": 1},
        script=script,
    )
    name = f"sb3@own-{script.sha256[:8]}"
    assert changed.title == f"{name}+a+b+compile ppo InvertedPendulum-v4,g=1 sb3 seed=7"
    assert changed.implementation == name and plain.implementation == "sb3"
    assert changed.folder(Path("r")) == Path("r").joinpath(
        *("test", "InvertedPendulum-v4,g=1", "ppo", "sb3", name, changed.variant, "seed=7")
    )
    assert (plain.env_options, changed.env_options) == ({}, {"g": 1})
    wrapped = dataclasses.replace(changed, env_wrappers=("a:B",))
    assert wrapped.env_options == {"g": 1, "wrappers": ("a:B",)}


@pytest.mark.parametrize(("alignment", "may_patch"), [("common", 0), ("exact", 1), ("lockstep", 1)])
def test_constants_are_patched_in_exact_runs_that_allow_it(alignment, may_patch):
    spec = dataclasses.replace(support.spec(), alignment=alignment)
    assert spec.patch_constants is bool(may_patch)
    assert dataclasses.replace(spec, patches=False).patch_constants is False


def test_a_variant_is_a_hash_beyond_its_largest_length(monkeypatch):
    spec = support.spec(threads=2)
    text = "steps=600,eval_every=300,eval_episodes=2,threads=2,rollout_steps=576"
    assert spec.variant == text
    monkeypatch.setattr(run_spec, "_MAX_VARIANT_LENGTH", len(text))
    assert spec.variant == text
    monkeypatch.setattr(run_spec, "_MAX_VARIANT_LENGTH", len(text) - 1)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    assert spec.variant == f"steps=600,overrides={digest}"


def make(alignment, **changes):
    recipe = read_recipe("td3", "original")
    values = spec_to_dict(support.spec("sb3", "td3")) | {"alignment": alignment, "hps": "original"}
    return make_run_spec(values, recipe | changes, recipe)


def test_library_defaults_apply_except_to_the_protocol():
    spec = make("defaults", learning_starts=77)
    own = load_recipe("td3", "sb3")
    assert spec.hyperparameters == dataclasses.replace(own, learning_starts=77)
    assert (spec.hps, spec.overridden) == ("defaults", ("learning_starts",))
    with pytest.raises(
        SpecError,
        match=r"^hyperparameters\.gamma=0\.5 would have no effect: alignment=defaults trains with",
    ):
        make("defaults", gamma=0.5)


def test_hyperparameters_of_other_algorithms_are_named_with_these():
    for name, owner in (("clip_range", "ppo"), ("lstm_size", "r2d2")):
        words = f"hyperparameters.{name} is a hyperparameter of {owner} only: sweep algorithms sep"
        with pytest.raises(SpecError, match=re.escape(words)):
            make("exact", **{name: 1})
    spec = make("exact", gamma=0.5, tau=0.25)
    assert spec.overridden == ("tau", "gamma")  # in the order of the fields
    assert spec.variant.endswith(",tau=0.25,gamma=0.5")


def test_the_study_of_a_run_can_have_another_name():
    spec = support.spec()
    assert rename_study(spec, "other") == dataclasses.replace(spec, study="other")
    with pytest.raises(SpecError, match="study='a/b' must be a valid folder name"):
        rename_study(spec, "a/b")


def test_a_stored_run_has_all_fields_and_no_others():
    stored = spec_to_dict(support.spec())
    lacking = {name: value for name, value in stored.items() if name not in ("seed", "steps")}
    for content, words in (
        (lacking, "spec lacks seed, steps."),
        (lacking | {"a": 1, "b": 2}, "spec lacks seed, steps and has no field a, b."),
        (stored | {"imported": {}}, "the run was imported from files of another tool: it cannot"),
        (stored | {"overridden": ["beta"]}, "overridden=['beta'] must list names of hyperparamet"),
    ):
        with pytest.raises(SpecError, match=re.escape(words)):
            spec_from_dict(content)


@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("device", ["cuda", "cuda:1", "cuda:10"], ["Cuda", "cuda:", "cuda:x", "1", ""]),
        ("intervention", ["a+b-1.5", "none"], ["A", "a b", "", "a_b"]),
    ],
)
def test_devices_and_interventions_have_names_of_plain_characters(name, allowed, refused):
    stored = spec_to_dict(support.spec())
    for value in allowed:
        assert getattr(spec_from_dict(stored | {name: value}), name) == value
    for value in refused:
        with pytest.raises(SpecError, match=f"^{name}='{value}' must be "):
            spec_from_dict(stored | {name: value})


def test_algorithm_of_a_broken_package_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setitem(run_spec.BROKEN_ALGORITHMS, "theirs", "a:B: ImportError: c")
    with pytest.raises(
        SpecError, match=r"^algorithm=theirs cannot be used \(a:B: ImportError: c\)"
    ):
        spec_from_dict(spec_to_dict(support.spec()) | {"algorithm": "theirs"})
