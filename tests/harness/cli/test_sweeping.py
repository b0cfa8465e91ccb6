"""Runs that a command line requests, their order and their batches."""

from importlib.resources import files

import pytest
import yaml
from hydra import compose, initialize
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf

from hydra_plugins.parallax_sweeper import OnceSweeper


class Launcher:
    """Notes what it is given."""

    def __init__(self):
        self.batches = []

    def launch(self, batch, initial_job_idx):
        self.batches.append((initial_job_idx, batch))
        return []


class Context:
    """A fake of Hydra; globs are not used here."""

    config_loader = None


def swept(*arguments, **options):
    sweeper = OnceSweeper(**options)
    sweeper.config = OmegaConf.create({"hydra": {"sweep": {"dir": ""}}})
    sweeper.hydra_context, sweeper._launcher = Context(), Launcher()
    sweeper.sweep(list(arguments))
    return sweeper._launcher.batches


def test_sweep_writes_no_file_into_the_current_folder():
    config = yaml.safe_load((files("parallax.harness.conf") / "config.yaml").read_text())
    assert config["hydra"]["sweep"]["dir"] == ""


@pytest.mark.parametrize("word", ["+hydra.sweeper.params={a:1}", "+hydra.sweeper.params.a=1"])
def test_parameters_of_a_sweep_are_set_on_the_command_line(word):
    with initialize(version_base="1.3"):
        composed = compose(overrides=["hydra/sweeper=once", word], return_hydra_config=True)
    assert composed.hydra.sweeper.params == {"a": 1}


LINES = [
    ("a=1,2", "b=x,y"),
    ("seed=range(0,3)", "+new=choice('a b',c)"),
    ("~gone", "a={x:1},{x:2}", "b=[1,2]", "a.b=null"),
    ("a=1,2", "b=3", "a=4,5"),
    (),
]


@pytest.mark.parametrize("line", LINES)
def test_runs_equal_those_of_hydras_sweeper(line):
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    overrides = OverridesParser.create().parse_overrides(list(line))
    (expected,) = BasicSweeper.split_arguments(overrides, None)
    assert swept(*line) == [(0, expected)]


def test_batches_and_values_of_a_file():
    batches = swept("b=3", max_batch_size=2, params={"a": "1,2,3", "b": "9"})
    assert batches == [(0, [["a=1", "b=3"], ["a=2", "b=3"]]), (2, [["a=3", "b=3"]])]


@pytest.mark.parametrize(
    ("argument", "options", "words"),
    [
        ("a=interval(0,1)", {}, r"a=interval\(0,1\) names no values"),
        ("a=1", {"max_batch_size": 0}, "max_batch_size=0 must be 1 or more"),
        ("a=range(0,1000000000)", {}, r"range\(0,1000000000\) is too large: .* 200,000 runs"),
        ("a=shuffle(range(0,1000000000))", {}, "is too large: a sweep can have 200,000 runs"),
        ("a=range(0.0,1.0,1e-30)", {}, "is too large"),
        ("a=range(0,3,0)", {}, r"a=range\(0,3,0\) is no range of numbers"),
        ("a=range(0,3,nan)", {}, "is no range"),
        ("a=range(0,500)", {"params": {"b": "range(0,500)"}}, "The sweep is too large"),
    ],
)
def test_values_that_cannot_be_swept_are_refused(argument, options, words):
    with pytest.raises(HydraException, match=words):
        swept(argument, **options)


PARTS = [
    {"framework": "one", "hps": "paper,one", "env": "x,y"},
    {"framework": "two", "hps": "paper,two", "env": "x,y"},
    {"framework": "one,two", "hps": "paper", "env": "x,z"},
]


def test_parts_are_joined_without_duplicate_runs():
    ((_, runs),) = swept(params={"seed": "0,1"}, parts=PARTS)
    assert len(runs) == 2 * (4 + 4 + 2)
    assert len({tuple(run) for run in runs}) == len(runs)
    assert runs[0] == ["seed=0", "framework=one", "hps=paper", "env=x"]
    assert ["seed=1", "framework=two", "hps=two", "env=y"] in runs
    assert ["seed=0", "framework=two", "hps=one", "env=x"] not in runs


def test_command_line_filters_parts_and_sets_open_values():
    line = ("seed=7", "hps=two,one", "env=x", "steps=5")
    ((_, runs),) = swept(*line, params={"seed": "0,1"}, parts=PARTS)
    assert [set(run) for run in runs] == [
        {"seed=7", "steps=5", "env=x", "framework=one", "hps=one"},
        {"seed=7", "steps=5", "env=x", "framework=two", "hps=two"},
    ]


def test_values_missing_in_all_parts_are_refused_with_the_known_ones():
    with pytest.raises(HydraException) as refused:
        swept("framework=three", "env=x", parts=PARTS)
    assert str(refused.value) == (
        "No part of the study has env=x framework=three. Its parts have env: x, y, z; "
        "framework: one, two. hydra.sweeper.parts=null drops the parts."
    )


def test_a_value_that_no_selected_part_has_is_refused():
    with pytest.raises(HydraException, match="has env=w framework=two"):
        swept("framework=two", "env=x,w", parts=PARTS)
    # Only the parts of the other framework have it.
    with pytest.raises(HydraException, match="has framework=two hps=one"):
        swept("framework=two", "hps=paper,one", parts=PARTS)
