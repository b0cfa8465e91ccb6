"""Translation of hyperparameters to a framework's own settings."""

import dataclasses

import pytest

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms.base import UpdateSchedule
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.fields import SpecError, bounded_field
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.translation import (
    ConfigTranslator,
    TranslatedSetting,
    select_options,
)


@dataclasses.dataclass(frozen=True)
class Values:
    gamma: float = bounded_field()
    rate: float = bounded_field()
    filters: int = bounded_field(legacy_value=3)

    def compute_update_schedule(self, steps):
        return UpdateSchedule(0, 1, steps, steps, 0)


def make(patchable=(), **changes):
    values = {"gamma": 0.9, "rate": 0.1, "filters": 3} | changes
    return ConfigTranslator("own", Values(**values), patchable)


def rows(config):
    return {row.field: (row.kind, row.native_name, row.native_value) for row in config.alignment}


def test_options_reach_the_framework_under_its_names():
    t = make()
    t.set_option("gamma", "discount")
    t.emulate_option("rate", "lr", 0.2, "halved")
    t.share_option("filters", "lr", "as the rate")
    t.set_extra_options(seed=5)
    config = t.finish(100)
    assert config.settings == {"discount": 0.9, "lr": 0.2, "seed": 5}
    assert rows(config) == {
        "gamma": ("aligned", "discount", 0.9),
        "rate": ("emulated", "lr", 0.2),
        "filters": ("aligned", "lr", 0.2),
    }
    assert [row.note for row in config.alignment] == ["", "halved", "as the rate"]
    assert (config.total_steps, config.framework_steps) == (100, 100)
    assert config.update_schedule == UpdateSchedule(0, 1, 100, 100, 0)
    assert config.patched_fields == ()


def test_steps_and_updates_may_differ_from_those_of_the_hyperparameters():
    t = make()
    for name in ("gamma", "rate"):
        t.set_option(name, name)
    schedule = UpdateSchedule(1, 2, 3, 4, 5)
    config = t.finish(100, framework_steps=0, update_schedule=schedule)
    assert (config.framework_steps, config.update_schedule) == (0, schedule)


def test_fields_newer_than_an_adapter_have_their_legacy_value():
    t = make()
    t.set_option("gamma", "gamma")
    t.set_option("rate", "rate")
    assert rows(t.finish(10))["filters"] == ("constant", "", 3)
    other = make(filters=4)
    other.set_option("gamma", "gamma")
    other.set_option("rate", "rate")
    with pytest.raises(SpecError, match=r"hyperparameters\.filters=4: in own it is fixed at 3\."):
        other.finish(10)
    claimed = make(filters=4)
    for name in ("gamma", "rate", "filters"):
        claimed.set_option(name, name)
    assert rows(claimed.finish(10))["filters"] == ("aligned", "filters", 4)


def test_a_field_without_a_translation_is_an_error_of_the_adapter():
    t = make()
    t.set_option("gamma", "gamma")
    with pytest.raises(AssertionError, match=r"own declares nothing for \['rate'\]"):
        t.finish(10)


def test_all_refusals_are_in_one_message_with_the_last_reason_of_each():
    t = make()
    t.reject_value("gamma", "something")
    t.declare_constant("gamma", 0.99)
    t.declare_tied("rate", 0.5, "as another")
    with pytest.raises(
        SpecError,
        match=r"^\w+\.gamma=0\.9: .* fixed at 0\.99; [^;]*rate=0\.1: .* 0\.5 \(as another\)\.$",
    ):
        t.finish(10)


def test_values_equal_to_the_frameworks_are_accepted():
    t = make()
    t.declare_constant("gamma", 0.9)
    t.declare_tied("rate", 0.1, "as another")
    config = t.finish(10)
    assert rows(config)["gamma"] == ("constant", "", 0.9)
    assert rows(config)["rate"] == ("tied", "", 0.1)
    assert all(row.is_fixed for row in config.alignment)
    assert not TranslatedSetting("a", 1, "aligned", "a", 1).is_fixed


def test_a_patch_takes_any_value():
    t = make(patchable=["gamma", "filters"], filters=5)
    assert t.is_patchable("gamma") and not t.is_patchable("rate")
    t.declare_constant("gamma", 0.99)
    t.set_option("rate", "rate")
    config = t.finish(10)
    assert rows(config)["gamma"] == ("patched", "", 0.9)
    assert config.patched_fields == ("gamma", "filters")


@pytest.mark.parametrize(
    ("allowed", "constant", "kind", "settings"),
    [
        (True, 0.99, "emulated", {"discount": 7}),
        (True, 0.9, "constant", {}),
        (False, 0.9, "constant", {}),
    ],
)
def test_other_values_are_emulated_where_that_is_allowed(allowed, constant, kind, settings):
    t = make()
    t.emulate_other_values("gamma", constant, "discount", allowed=allowed, native=7)
    t.emulate_option("rate", "rate")
    config = t.finish(10)
    assert rows(config)["gamma"][0] == kind and config.settings == {"rate": 0.1} | settings
    refused = make()
    refused.emulate_other_values("gamma", 0.99, "discount", allowed=False)
    refused.set_option("rate", "rate")
    with pytest.raises(SpecError, match=r"in own it is fixed at 0\.99"):
        refused.finish(10)


@pytest.mark.parametrize(("image", "kind"), [((4, 84, 84), "aligned"), ((), "constant")])
def test_convolutions_are_set_for_images_only(image, kind):
    filters = (8, 16) if image else None
    values = dataclasses.replace(load_recipe("dqn", "original"), conv_filters=filters)
    t = ConfigTranslator("own", values)
    for field in dataclasses.fields(DQN):
        if field.name != "conv_filters":
            t.set_option(field.name, field.name)
    t.set_conv_filters("convolutions", Task("A-v0", 8, (), (), 0, 3, image=image), "as in SB3")
    config = t.finish(10)
    assert rows(config)["conv_filters"][0] == kind
    assert config.settings.get("convolutions") == (list(filters) if filters else None)


def test_rounded_settings_have_the_value_that_upstream_uses():
    t = make()
    t.set_option("gamma", "gamma")
    t.set_option("rate", "rate", 7)
    t.declare_rounded("gamma", 0.9)
    t.declare_rounded("rate", 0.25)
    gamma, rate, _ = t.finish(10).alignment
    assert gamma == TranslatedSetting("gamma", 0.9, "aligned", "gamma", 0.9)
    assert rate == TranslatedSetting("rate", 0.25, "rounded", "rate", 7)


def test_meanings_are_converted_where_that_is_requested_and_makes_a_difference():
    for converts, unless, expected in (
        (True, None, {"gamma": "name"}),
        (True, 0.9, {}),
        (False, None, {}),
    ):
        t = ConfigTranslator("own", Values(0.9, 0.1, 3), (), converts)
        t.set_option("gamma", "discount", 8)
        t.declare_constant("rate", 0.1)
        t.convert_meaning("gamma", "name", unless)
        t.convert_meaning("rate", "other", 0.1)
        config = t.finish(10)
        assert config.conversions == expected
        kind = "converted" if expected else "aligned"
        row = TranslatedSetting("gamma", 0.9, kind, "discount", 8, "", expected.get("gamma", ""))
        assert config.alignment[0] == row and not row.is_fixed
    fixed = TranslatedSetting("a", 1, "converted", "", 1)
    assert fixed.is_fixed and not dataclasses.replace(fixed, native_name="b").is_fixed
    assert not dataclasses.replace(fixed, kind="emulated").is_fixed


@pytest.mark.parametrize(
    ("low", "high", "is_converted"),
    [((-1.0, 0.0), (1.0, 2.0), False), ((-1.0, 0.0), (1.0, 1.0), True), ((-2.0,), (2.0,), True)],
)
def test_the_entropy_has_another_unit_unless_all_ranges_of_actions_are_2(low, high, is_converted):
    for entropy in (None, -3.0):
        values = dataclasses.replace(load_recipe("sac", "original"), target_entropy=entropy)
        t = ConfigTranslator("own", values, (), True)
        for field in dataclasses.fields(values):
            t.set_option(field.name, field.name)
        t.convert_entropy_unit(Task("A-v0", 8, low, high, 0, 0))
        name = "log-probability-of-the-scaled-action"
        expected = {"target_entropy": name} if is_converted else {}
        assert t.finish(10).conversions == expected


def test_refused_images_error_names_an_alternative():
    make().reject_images(Task("A-v0", 8, (), (), 0, 3))
    with pytest.raises(SpecError, match=r"^env=A-v0 shows images, and framework=own does not trai"):
        make().reject_images(Task("A-v0", 8, (), (), 0, 3, image=(4, 84, 84)))


def test_options_of_a_component_are_those_with_its_name_before_the_dot():
    settings = {"a.x": 1, "a.b.y": 2, "ab.z": 3, "a": 4}
    assert select_options(settings, "a") == {"x": 1, "b.y": 2}


def test_a_value_that_a_patch_takes_is_never_refused():
    t = make(patchable=["gamma"])
    t.set_option("gamma", "discount")
    t.reject_value("gamma", "something")
    t.set_option("rate", "rate")
    assert rows(t.finish(10))["gamma"] == ("patched", "discount", 0.9)
    assert t.value("rate") == 0.1
