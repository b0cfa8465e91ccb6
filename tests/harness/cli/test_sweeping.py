"""Which runs a command line asks for, in which order, and in which batches."""

import pytest
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
    """Stands for Hydra; globs are not asked for here."""

    config_loader = None


def swept(tmp_path, *arguments, **options):
    sweeper = OnceSweeper(**options)
    sweeper.config = OmegaConf.create({"hydra": {"sweep": {"dir": str(tmp_path / "sweep")}}})
    sweeper.hydra_context, sweeper._launcher = Context(), Launcher()
    sweeper.sweep(list(arguments))
    assert (tmp_path / "sweep" / "multirun.yaml").exists()
    return sweeper._launcher.batches


LINES = [
    ("a=1,2", "b=x,y"),
    ("seed=range(0,3)", "+new=choice('a b',c)"),
    ("~gone", "a={x:1},{x:2}", "b=[1,2]", "a.b=null"),
    ("a=1,2", "b=3", "a=4,5"),
    (),
]


@pytest.mark.parametrize("line", LINES)
def test_runs_are_those_of_hydras_own_sweeper(line, tmp_path):
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

    overrides = OverridesParser.create().parse_overrides(list(line))
    (expected,) = BasicSweeper.split_arguments(overrides, None)
    assert swept(tmp_path, *line) == [(0, expected)]


def test_batches_and_values_of_a_file(tmp_path):
    batches = swept(tmp_path, "b=3", max_batch_size=2, params={"a": "1,2,3", "b": "9"})
    assert batches == [(0, [["a=1", "b=3"], ["a=2", "b=3"]]), (2, [["a=3", "b=3"]])]


@pytest.mark.parametrize(
    ("argument", "options", "words"),
    [
        ("a=interval(0,1)", {}, r"a=interval\(0,1\) names no values"),
        ("a=1", {"max_batch_size": 0}, "max_batch_size=0 must be at least 1"),
    ],
)
def test_what_cannot_be_swept_is_refused(argument, options, words, tmp_path):
    with pytest.raises(HydraException, match=words):
        swept(tmp_path, argument, **options)
