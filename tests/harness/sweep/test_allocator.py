"""Another memory allocator: found or refused, recorded, and without any effect on results."""

import pytest
import support
from loops import iterate_some

from parallax.harness.contract.fields import SpecError
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.run_process import get_allocator_variables
from parallax.harness.sweep.sweep import run_sweep


def is_there():
    try:
        return bool(get_allocator_variables("malloc", "tcmalloc"))
    except SpecError:
        return False


def test_malloc_none_changes_nothing():
    assert get_allocator_variables("malloc", "none") == {}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("tmalloc", r"malloc='tmalloc' is not an allocator: use none, tcmalloc or the path"),
        ("/nowhere/lib.so", r"malloc=/nowhere/lib.so cannot be loaded .*Install it .*use none"),
        (__file__, r"cannot be loaded on this machine \(.*invalid ELF header.*Install it"),
    ],
)
def test_missing_allocator_is_refused_with_the_remedy(value, words):
    with pytest.raises(SpecError, match=words):
        get_allocator_variables("malloc", value)


@pytest.mark.long
@pytest.mark.skipif(not is_there(), reason="libtcmalloc_minimal.so.4 is not installed")
def test_results_are_the_same_with_another_allocator(tmp_path):
    settings = {"learning_starts": 70, "batch_size": 8}
    specs = [
        support.spec("sb3", "td3", hyperparameters=settings, steps=128, eval_every=64, seed=seed)
        for seed in (0, 1)  # two, so that they are forked
    ]
    runs = [
        [read_run(o.folder, with_evaluations=True) for o in run_sweep(specs, tmp_path / m, 1, m)]
        for m in ("none", "tcmalloc")
    ]
    for plain, other in iterate_some(zip(*runs, strict=True)):
        assert plain.content["weights_sha256"] == other.content["weights_sha256"]
        files = [(run.folder / "evaluations.npz").read_bytes() for run in (plain, other)]
        assert files[0] == files[1]
        assert plain.content["provenance"]["preloaded"] == []
        (library,) = other.content["provenance"]["preloaded"]
        assert "libtcmalloc" in library
