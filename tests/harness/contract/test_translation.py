"""Translation of hyperparameters to a framework's own settings."""

import dataclasses

import pytest

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms.base import UpdateSchedule
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.fields import SpecError, bounded_field
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.contract.translation import ConfigTranslator, TranslatedSetting


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


def test_fields_that_an_adapter_is_older_than_are_as_before_they_existed():
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


def test_values_as_the_framework_has_them_are_no_refusals():
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
