"""Untrusted grid files end in one message, quickly, and in little memory."""

import math
import time
import types

import pytest
from loops import iterate_some

from parallax.analysis.data import study_grid
from parallax.analysis.data.runs import ExcludedRun, RunId, StudyCell
from parallax.analysis.data.study_grid import (
    RequestedRun,
    _check_range,
    _merge_axis,
    _override,
    read_grid,
    requested_run_from_folder,
)
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
    "empty range": {"seed": "range(0,0)"},
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
        HEAD + "".join(f"      {name}: {text}\n" for name, text in [*REST.items(), ("seed", "1")]),
    ],
    ids=range(12),
)
def test_files_of_another_format_are_refused_in_one_message(tmp_path, text):
    (tmp_path / "grid.yaml").write_text(text)
    with pytest.raises(UnusableError) as refused:
        read_grid(tmp_path / "grid.yaml")
    assert len(str(refused.value).splitlines()) == 1


def test_a_grid_is_read(tmp_path):
    assert {run.seed for run in read_grid(write_grid(tmp_path / "grid.yaml")).runs} == {0, 1, 2}


def test_commands_train_the_given_runs_only(tmp_path):
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"gamma": "0.9,0.99", "tau": "1,2", "alignment": "exact"},
            "it sweeps gamma, tau; a grid has values of algorithm, env, hps, framework, seed, and "
            "of nothing else",
        ),
        ({"seed": "1,x2"}, "seed=x2 is not a whole number from 0 to 4294967295"),
        ({"seed": f"1,{2**32}"}, f"seed={2**32} is not a whole number from 0 to 4294967295"),
        (
            {"seed": "range(0,1001)", "env": ",".join(f"A{i}-v1" for i in range(1000))},
            "it requests more than 1,000,000 runs or 1,000 parts: name fewer values",
        ),
        (
            {"seed": "[1]", "hps": "{a: 1}"},
            "hps is a dict: write its values in one line, such as `seed: range(0,10)` or `env: "
            "A-v1,B-v1`",
        ),
    ],
)
def test_untrainable_grid_states_the_reason(tmp_path, changes, message):
    with pytest.raises(UnusableError) as refused:
        read_grid(write_grid(tmp_path / "grid.yaml", **changes))
    assert str(refused.value) == message


def test_a_grid_names_all_axes(tmp_path):
    text = HEAD + "      algorithm: ppo\n      hps: x\n      seed: 1\n"
    (tmp_path / "grid.yaml").write_text(text)
    with pytest.raises(UnusableError, match="it lacks env, framework; a grid has values of"):
        read_grid(tmp_path / "grid.yaml")


def test_parts_of_a_grid_replace_what_is_general(tmp_path):
    lines = "".join(f"      {name}: {text}\n" for name, text in REST.items())
    parts = "    parts:\n      - {seed: 7}\n      - {env: 'B-v1,C-v1', seed: '1,2'}\n"
    (tmp_path / "two.yaml").write_text(HEAD + lines + parts)
    grid = read_grid(tmp_path / "two.yaml")
    assert (grid.name, grid.path) == ("two", tmp_path / "two.yaml")
    found = sorted((run.env, run.seed) for run in grid.runs)
    assert found == [("A-v1", 7), ("B-v1", 1), ("B-v1", 2), ("C-v1", 1), ("C-v1", 2)]
    run = max(grid.runs)
    assert run == RequestedRun("ppo", "C-v1", "sb3", "sb3", 2)
    assert run.setting == ("ppo", "C-v1", "sb3", "sb3")
    first = {one for one in grid.runs if one.env != "C-v1"}
    assert grid.format_commands([*first, RequestedRun("dqn", "A-v1", "x", "y", 0)]) == (
        "parallax train -m study=two algorithm=ppo env=A-v1,B-v1 hps=sb3",
    )
    assert grid.format_commands([]) == ()


def test_a_folder_belongs_to_the_run_of_its_identity():
    cell = StudyCell("s", "A-v1", "ppo", "h", "v")
    for seed in (None, 0, 4):
        item = ExcludedRun(RunId(cell, "sb3", seed), None, "")
        expected = None if seed is None else RequestedRun("ppo", "A-v1", "h", "sb3", seed)
        assert requested_run_from_folder(item) == expected


def test_choices_that_differ_in_one_axis_only_are_merged():
    choices = [(("a",), ("x",), ("1",)), (("b",), ("x",), ("1", "2")), (("a",), ("y",), ("1",))]
    assert _merge_axis(choices, 1) == [(("a",), ("x", "y"), ("1",)), choices[1]]
    assert _merge_axis([choices[0], (("a",), ("x",), ("2", "1"))], 2) == [
        (("a",), ("x",), ("1", "2"))
    ]
    assert _merge_axis([choices[0], (("b",), ("x",), ("1",))], 0) == [(("a", "b"), ("x",), ("1",))]


def test_a_grid_may_be_as_large_as_is_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(study_grid, "_MOST_VALUES", 3)
    monkeypatch.setattr(study_grid, "_MOST_RUNS", 6)

    def read(**changes):
        return len(read_grid(write_grid(tmp_path / "grid.yaml", **changes)).runs)

    assert read(seed="'shuffle(range(0,3))'", env="A-v1,B-v1") == 6
    with pytest.raises(UnusableError, match="seed has more than 3 values: name fewer"):
        read(seed="1,2,3,4")
    with pytest.raises(UnusableError, match="it requests more than"):
        read(seed="1,2,3", env="A-v1,B-v1,C-v1")
    parts = "    parts:\n      - {env: A-v1}\n      - {env: B-v1}\n"
    for more, allowed in (("", True), ("{env: B-v1, seed: 0}", False), ("{seed: 7}", False)):
        text = write_grid(tmp_path / "grid.yaml", seed="range(0,3)").read_text() + parts
        text += f"      - {more}\n" if more else ""
        monkeypatch.setattr(study_grid, "_MOST_PARTS", 2 if "7" in more else 3)
        monkeypatch.setattr(study_grid, "_MOST_RUNS", 99 if "7" in more else 6)
        (tmp_path / "parts.yaml").write_text(text)
        if allowed:
            assert len(read_grid(tmp_path / "parts.yaml").runs) == 6
        else:
            with pytest.raises(UnusableError, match="it requests more than"):
                read_grid(tmp_path / "parts.yaml")
