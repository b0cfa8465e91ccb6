"""Entries of the catalogue, and refusals before any training."""

import dataclasses

import pytest
import support
from loops import iterate_some

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms.base import UpdateSchedule
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.interventions import catalogue
from parallax.harness.interventions.catalogue import (
    apply_update_counts,
    list_interventions,
    list_patches,
    list_reference_form,
    list_released_bugs,
    make_patches,
    make_replacement,
    resolve_interventions,
)
from parallax.harness.interventions.source import describe_overlap
from parallax.harness.probes.catalogue import PROBES
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.intervention_check import is_as_predicted
from tests.planted_faults import FRAMEWORKS, answer, unplanted

PROBE = {probe.name: probe for probe in PROBES}
# Each of another kind of piece: a function, a method of a policy, a script.
QUICK = {("sb3", "critic-loss-x1"), ("cleanrl", "critic-loss-x0.5")}
ENTRIES = [
    pytest.param(
        framework,
        item,
        id=f"{framework}-{item.name}-{'-'.join(item.algorithms)}",
        marks=() if (framework, item.name) in QUICK else pytest.mark.long,
    )
    for framework in FRAMEWORKS
    for item in list_interventions(load_adapter(framework))
    if item.answers
]


@pytest.mark.parametrize(("framework", "item"), ENTRIES)
def test_interventions_change_probe_answers_as_declared(framework, item):
    for probe, promised in iterate_some(item.answers.items()):
        others = {other: unplanted(other, probe) for other in FRAMEWORKS if other in str(promised)}
        before = unplanted(framework, probe)
        with make_replacement([item]).apply_replacement():
            found = answer(ExperimentCache(load_adapter(framework)), probe)
        assert not is_as_predicted(PROBE[probe], before, promised, others), (
            f"{probe} answered so before"
        )
        assert is_as_predicted(PROBE[probe], found, promised, others), f"{probe}: {found}"


# They act on values that no default has: tests/harness/lockstep/test_unusual_values.py.
SHOWN_BY_TRAININGS = ("targets-after-whole-interval", "one-policy-update-per-delay")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_source_segment_occurs_once_in_the_installed_version(framework):
    for item in iterate_some(list_interventions(load_adapter(framework))):
        for algorithm in item.algorithms:
            assert resolve_interventions(item.name, load_adapter(framework), algorithm) == (item,)
        checked = item.answers or item.name in SHOWN_BY_TRAININGS
        assert not item.source or checked, f"{item.name} says nothing that could be checked"


@pytest.mark.parametrize(
    ("text", "framework", "algorithm", "message"),
    [
        ("value-loss-x0.6", "sb3", "ppo", "is not known. Did you mean value-loss-x0.5"),
        ("nope", "sb3", "ppo", "is not known.* parallax intervention list lists all names"),
        ("bug.gae-ends-shift", "sb3", "ppo", "Did you mean bug.gae-ends-shifted"),
        ("bug.gae-ends-shifted", "skrl", "ppo", "is for framework=sb3, not for skrl"),
        ("half-value-loss", "sb3", "ppo", "was renamed: use intervention=value-loss-x0.5"),
        ("value-loss-x0.5", "cleanrl", "ppo", "is for framework=sb3, not for cleanrl"),
        ("value-loss-x0.5", "sb3", "sac", "is for algorithm=ppo, not for sac"),
        ("value-loss-x0.5+value-loss-x0.5", "sb3", "ppo", "names value-loss-x0.5 twice"),
        (
            "value-loss-x0.5+larger-value-loss",
            "sb3",
            "ppo",
            "and larger-value-loss change the same piece of stable_baselines3.*with without.NAME",
        ),
    ],
)
def test_invalid_interventions_are_one_message_before_training(text, framework, algorithm, message):
    with pytest.raises(SpecError, match=message.replace("+", r"\+")):
        resolve_interventions(text, load_adapter(framework), algorithm)


ENTRY = """
mine:
  does: Something.
  algorithms: [td3]
  source:
    - module: stable_baselines3.td3.td3
      function: TD3.train
      find: {find}
      replace: {replace}
"""
FILLED_ENTRY = ENTRY.format(find="self.logger", replace="x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ENTRY.format(find="nothing of the kind", replace="x"), "is missing: it must match once"),
        (ENTRY.format(find="self", replace="x"), "times: it must match once"),
        (
            ENTRY.format(find="'gradient_steps):'", replace="'gradient_steps)'"),
            "no longer valid Python",
        ),
        (ENTRY.format(find="''", replace="x"), "source.find is empty"),
        (
            FILLED_ENTRY.replace("stable_baselines3.td3.td3", "numpy.linalg"),
            "none of sb3's own modules",
        ),
        (FILLED_ENTRY.replace("TD3.train", "TD3.learning"), "no such function"),
        (FILLED_ENTRY.replace("td3.td3", "td3.td4"), "no such module is installed"),
        (FILLED_ENTRY.replace("does: Something.", "does: ''"), r"length >= 1 - at `\$.does`"),
        (FILLED_ENTRY.replace("[td3]", "[td4]"), "td4 is not known. Did you mean td3"),
        (FILLED_ENTRY.replace("find:", "fnd:"), "unknown field `fnd`"),
        ("mine: {does: Nothing.}", "changes nothing: give it `set`, `wrap` or `source`"),
        ("mine: {does: Sets., algorithms: [td3], set: {gae_lambda: 1}}", "is not a field of td3"),
        ("mine: {does: Wraps., wrap: [{layer: Nothing}]}", "wrap needs `layer`, as module:Class"),
        (f"{FILLED_ENTRY}  updates: {{policy_updates: steps}}", "'steps' an expression of such"),
        (f"{FILLED_ENTRY}  updates: {{updates: gamma}}", "updates.updates must be a count"),
        (f"{FILLED_ENTRY}  updates: {{policy_updates: 9**9**9**9}}", "must be a count"),
        (f"{FILLED_ENTRY}  updates: {{policy_updates: '(lambda: 1)()'}}", "must be a count"),
        ("Mine: {does: Sets., set: {gamma: 1}}", "must be named by small letters"),
        ("mine: [", "is not valid YAML"),
        ("[]", "must hold a mapping"),
    ],
)
def test_bad_entries_are_refused_with_file_entry_and_remedy(text, message, tmp_path, monkeypatch):
    (tmp_path / catalogue.INTERVENTIONS_FILE).write_text(text)
    monkeypatch.setattr(Adapter, "folder", tmp_path)
    with pytest.raises(SpecError, match=message) as caught:
        resolve_interventions("mine", load_adapter("sb3"), "td3")
    if "installed" not in message and "match" not in message:
        assert str(tmp_path) in str(caught.value) or "mine" in str(caught.value)


def test_counts_of_updates_are_expressions_of_counts_and_hyperparameters():
    (bug,) = [one for one in list_released_bugs(load_adapter("sb3")) if one.updates]
    schedule = UpdateSchedule(0, 1, 64, 32, 32)
    hp = dataclasses.replace(load_recipe("td3", "sb3"), gradient_steps=4, policy_delay=3)
    changed = apply_update_counts(schedule, hp, [bug])
    assert changed == dataclasses.replace(schedule, policy_updates=32, target_updates=32)
    hp = dataclasses.replace(hp, gradient_steps=1)
    assert apply_update_counts(schedule, hp, [bug]).policy_updates == 64


def test_two_interventions_on_one_hyperparameter_are_refused(tmp_path, monkeypatch):
    both = "one: {does: Sets., set: {gamma: 1}}\ntwo: {does: Sets., set: {gamma: 0.5}}"
    (tmp_path / catalogue.INTERVENTIONS_FILE).write_text(both)
    monkeypatch.setattr(Adapter, "folder", tmp_path)
    with pytest.raises(SpecError, match="one and two both set gamma"):
        resolve_interventions("one+two", load_adapter("sb3"), "td3")


def test_intervention_is_part_of_the_run_identity(tmp_path):
    plain = support.spec("sb3", "sac", alignment="exact")
    changed = dataclasses.replace(plain, intervention="critic-loss-x1")
    assert "intervention" not in plain.variant
    assert changed.variant.endswith(",intervention=critic-loss-x1")
    assert plain.folder(tmp_path) != changed.folder(tmp_path)
    with pytest.raises(SpecError, match=r"intervention='\.\./x' must be none"):
        support.spec("sb3", "sac", intervention="../x")


@pytest.mark.parametrize("algorithm", ["ppo", "td3", "sac", "ddpg", "dqn"])
@pytest.mark.parametrize("framework", ["sb3", "cleanrl", "tianshou", "torchrl", "skrl", "sbx"])
def test_reference_form_is_compatible_with_every_patch(framework, algorithm):
    adapter = load_adapter(framework)
    fields = [item.field for item in list_patches(adapter)]
    patches = make_patches(adapter, algorithm, load_recipe(algorithm, framework), fields)
    items = [*list_reference_form(adapter, algorithm), *patches]
    assert describe_overlap([(item.name, piece) for item in items for piece in item.source]) == ""
