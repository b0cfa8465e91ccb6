"""Files with a grid that nobody vouches for end in one message, soon, and in little memory."""

import math
import time
import types

import pytest
from loops import iterate_some

from parallax.analysis.data.study_grid import _check_range, _override, read_grid
from parallax.harness.record.files import UnusableError

HEAD = "hydra:\n  sweeper:\n    params:\n"
REST = {"algorithm": "ppo", "env": "A-v1", "hps": "sb3", "framework": "sb3", "seed": "range(0,3)"}


def write_grid(path, **changes):
    params = REST | changes
    path.write_text(HEAD + "".join(f"      {name}: {text}\n" for name, text in params.items()))
    return path


BOMB = "hydra: {sweeper: {params: {seed: *k}}}\n"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, after in zip("abcdefghij", "bcdefghijk", strict=True)
)
ATTACKS = {
    "long range": {"seed": "range(0,1000000000)"},
    "long shuffled range": {"seed": "'shuffle(range(0,1000000000))'"},
    "long range backwards": {"seed": "range(1000000000,0,-1)"},
    "range of numbers": {"seed": "range(0,1,0.000000001)"},
    "range that stands": {"seed": "range(0,5,0)"},
    "product": {"seed": "range(0,10000)", "env": ",".join(f"A-v{i}" for i in range(1500))},
    "huge number": {"seed": "9" * 5000},
    "huge seed": {"seed": f"'{'9' * 5000}'"},
    "huge negative": {"seed": "-5"},
    "no number": {"seed": "yes"},
    "mapping": {"seed": "{a: 1}"},
    "nothing": {"seed": ""},
    "deep list": {"env": f"'{'[' * 3000}{']' * 3000}'"},
    "deep call": {"env": f"'{'choice(' * 500}1{')' * 500}'"},
    "glob": {"env": "glob(*)"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_absurd_values_are_refused_in_one_message(tmp_path, attack):
    began = time.monotonic()
    with pytest.raises(UnusableError) as refused:
        read_grid(write_grid(tmp_path / "grid.yaml", **ATTACKS[attack]))
    assert time.monotonic() - began < 20
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5000,
        "a: " * 3000,
        LAUGHS + BOMB,
        "x" * 2**19,
        "null",
        "[]",
        "hydra: {sweeper: {params: [1]}}",
        "hydra: {sweeper: {parts: [1]}}",
        "hydra: {sweeper: {parts: 5}}",
        "hydra: {sweeper: {params: {1: 2}}}",
        f"hydra: {'9' * 5000}",
    ],
    ids=range(11),
)
def test_other_files_are_refused_in_one_message(tmp_path, text):
    (tmp_path / "grid.yaml").write_text(text)
    with pytest.raises(UnusableError) as refused:
        read_grid(tmp_path / "grid.yaml")
    assert len(str(refused.value).splitlines()) == 1


def test_a_grid_is_read(tmp_path):
    assert {run.seed for run in read_grid(write_grid(tmp_path / "grid.yaml")).runs} == {0, 1, 2}


def test_commands_train_what_was_found_and_no_more(tmp_path):
    grid = read_grid(write_grid(tmp_path / "few.yaml", env="A-v1,B-v1", framework="sb3,cleanrl"))
    assert len(grid.runs) == 12
    head = "parallax train -m study=few"
    assert grid.format_commands(grid.runs) == (head,)
    of_a = {run for run in grid.runs if run.env == "A-v1"}
    of_b = {run for run in grid.runs - of_a if run.framework == "sb3" and run.seed != 1}
    assert grid.format_commands(of_a | of_b) == (
        f"{head} algorithm=ppo env=A-v1 hps=sb3",
        f"{head} algorithm=ppo env=B-v1 hps=sb3 framework=sb3 seed=0,2",
    )
    ends = {run for run in grid.runs if run.seed == 2}
    assert grid.format_commands(ends) == (f"{head} algorithm=ppo env=A-v1,B-v1 hps=sb3 seed=2",)


def test_ranges_may_have_as_many_values_as_are_allowed():
    for start, stop, step in iterate_some([(0, 100_000, 1), (0, -100_000, -1), (5, 5, 1)]):
        assert (
            _check_range("seed", types.SimpleNamespace(start=start, stop=stop, step=step)) is None
        )
    for start, stop, step in iterate_some([(0, 100_001, 1), (0, 1, 0), (0, math.nan, 1)]):
        with pytest.raises(UnusableError, match=r"seed=range\(.* 100,000 values or"):
            _check_range("seed", types.SimpleNamespace(start=start, stop=stop, step=step))


def test_only_brackets_inside_others_are_nesting():
    assert _override("env", "(a)[b]{c}" * 20) == "env=" + "(a)[b]{c}" * 20
    assert _override("env", "(" * 16 + ")" * 16) and _override("env", "x" * 9_996)
    with pytest.raises(UnusableError, match="env is nested 17 deep: at most 16"):
        _override("env", "[" * 17)
    with pytest.raises(UnusableError, match="env has 10,001 characters: at most 10,000"):
        _override("env", "x" * 9_997)
