import pytest

from parallax.harness.cli import alignment
from parallax.harness.cli.main import main
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.translation import NativeConfig, TranslatedSetting
from parallax.harness.probes import catalogue, worker
from parallax.harness.probes.experiments import AlignmentLevel, ExperimentCache

DEFAULTS = {"gamma": 0.99, "noise": None, "clip": False, "seed": 1, "_private": 2}


def make_native(**settings: object) -> NativeConfig:
    row = TranslatedSetting("gamma", 0.9, "aligned", "gamma", 0.9, "")
    return NativeConfig({"gamma": 0.9, "seed": 7, **settings}, (row,), 10, 10, None)


def test_options_are_those_that_no_hyperparameter_and_no_run_states():
    options = make_native(noise="Gaussian").list_upstream_options(DEFAULTS)
    assert [(o.name, o.default, o.value) for o in options] == [
        ("noise", None, "Gaussian"),
        ("clip", False, False),
    ]
    assert [o.is_overridden for o in options] == [True, False]
    assert make_native().list_upstream_options(None) == []


def test_restored_options_have_upstreams_default_and_others_are_unchanged():
    native = make_native(noise="Gaussian", other=3)
    restored = native.restore_upstream_options(DEFAULTS)
    assert restored.settings == {"gamma": 0.9, "seed": 7, "noise": None, "other": 3}
    assert restored.alignment == native.alignment


def test_command_lists_the_options_of_skrl():
    tables = alignment.format_options(["ppo"], None, ["skrl", "sb3"], "simple")
    overridden, untouched = tables.split("stay at upstream's default")
    assert "PPO_CFG.time_limit_bootstrap  false                 true" in overridden
    assert "sb3" not in overridden
    assert "use_sde false" in untouched


@pytest.mark.parametrize("mode", ["--options", "--paper"])
@pytest.mark.parametrize("words", [["--hps", "original"], ["--no-patches"]])
def test_alignment_tables_refuse_options_that_they_ignore(mode, words, capsys):
    assert main(["alignment", mode, *words]) == 2
    assert f"drop {words[0]}." in capsys.readouterr().err


def test_with_upstreams_default_skrl_lets_advantages_continue_over_time_limits():
    (probe,) = catalogue.select_probes([], ["ppo.truncation"])[:1]
    answers = {}
    for name in ("defaults", "upstream"):
        cache = ExperimentCache(load_adapter("skrl"), 0, (), AlignmentLevel(name))
        answers[name] = worker.answer_probe(probe, cache).answers["skrl"]
    assert answers["defaults"].comparison.kind == "agrees"
    assert "the mask of ends is missing" in answers["upstream"].meaning
