"""Parts of packed studies, and names of replay strategies."""

import dataclasses
import json
import runpy
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from parallax.analysis.data import packed, replay_metrics
from parallax.analysis.data.packed import exclude_copies_and_short_runs, parse_settings
from parallax.analysis.data.replay_metrics import LAGS, RecurrentStateStrategy, read_staleness
from parallax.analysis.data.runs import CompletedRun, ExcludedRun, RunId, StudyCell
from parallax.harness.record import packed as packed_rows
from parallax.harness.record import trace
from parallax.harness.record.files import UnusableError
from parallax.harness.record.npz_files import RunEvaluations


def test_the_command_writes_the_file_that_it_is_given(monkeypatch, tmp_path):
    requested, written = [], []
    monkeypatch.setattr(packed_rows, "read_rows", lambda path: requested.append(path) or iter(()))
    monkeypatch.setattr(
        packed_rows, "write_rows", lambda rows, path: written.append((list(rows), path))
    )
    monkeypatch.setattr(sys, "argv", ["reference_runs", "first", "second"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(packed.__file__, run_name="__main__")
    assert ended.value.code == 0
    assert requested == [Path("first")]
    assert written == [([], packed.REFERENCE_FILE)]


def test_the_command_needs_a_file(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["packed"])
    with pytest.raises(IndexError):
        runpy.run_path(packed.__file__, run_name="__main__")


def test_command_reports_completion(monkeypatch, tmp_path):
    written = tmp_path / "written.parquet"
    rows = list(packed.read_rows(packed.REFERENCE_FILE))
    monkeypatch.setattr(packed, "REFERENCE_FILE", written)
    packed.write_rows(rows[:2], tmp_path / "study.parquet")
    assert packed.main([str(tmp_path / "study.parquet")]) == 0
    assert len(list(packed.read_rows(written))) == 2


def test_reference_runs_are_the_used_ones_at_equal_hyperparameters_without_interventions():
    def make(variant, reason=None):
        return {"variant": variant, "not_used_because": reason}

    chosen = [make("steps=5,alignment=exact"), make("alignment=exact,seed=1")]
    others = [
        make("alignment=exact", "it failed"),
        make("alignment=exact,intervention=huber-loss"),
        make("alignment=exactly"),
        make("steps=5"),
    ]
    assert list(packed.select_reference_rows(chosen + others)) == chosen


def test_anonymous_records_have_no_host_and_no_folders():
    record = {
        "host": "far",
        "attempts": [{"host": "far", "status": "failed"}],
        "provenance": {
            "host": "far",
            "executable": "/home/me/python",
            "command": ["/home/me/parallax", "train", "seed=1"],
            "preloaded": "",
            "git": "/not/stripped",
        },
    }
    assert json.loads(packed._anonymize_record(json.dumps(record))) == {
        "attempts": [{"status": "failed"}],
        "provenance": {
            "executable": "python",
            "command": ["parallax", "train", "seed=1"],
            "preloaded": "",
            "git": "/not/stripped",
        },
    }
    for damaged in (None, "", "[1]", "{", '{"attempts": 5}'):
        assert packed._anonymize_record(damaged) is None


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("{}", {}),
        ('{"n_timesteps": 1, "zoo_seed": -3}', {"n_timesteps": 1, "zoo_seed": -3}),
        (json.dumps({"n_timesteps": packed._MAX_STEPS}), {"n_timesteps": packed._MAX_STEPS}),
    ],
)
def test_settings_of_other_tools_are_whole_numbers(text, settings):
    assert parse_settings(text) == settings


@pytest.mark.parametrize(
    "text",
    [
        *(None, "", "{", "[]", '{"n_timesteps": 0}', '{"n_timesteps": 1.5}', '{"other": 1}'),
        json.dumps({"n_timesteps": packed._MAX_STEPS + 1}),
    ],
)
def test_other_settings_are_refused(text):
    with pytest.raises(UnusableError, match="corrupted row: column spec"):
        parse_settings(text)


def make_run(name, steps, results=None, cell="A-v0"):
    steps = np.array(steps)
    results = np.arange(len(steps), dtype=float)[:, None] if results is None else results
    run_id = RunId(StudyCell("s", cell, "ppo", "own", ""), "sb3", None)
    return CompletedRun(run_id, Path(name), steps, results, np.ones_like(results, dtype=int), {})


def reasons(*runs):
    return [getattr(item, "reason", "") for item in exclude_copies_and_short_runs(runs)]


def test_run_is_short_if_another_has_one_more_evaluation():
    first, second = make_run("a", [100, 200]), make_run("b", [100, 200, 300])
    short = "too short: last evaluation at step 200; another run reached 300"
    assert reasons(first, second) == [short, ""]
    assert reasons(make_run("a", [100, 201]), second) == ["", ""]
    assert reasons(first, make_run("b", [100, 200, 300], cell="B-v0")) == ["", ""]
    assert reasons(make_run("a", [150]), second) == [short.replace("200", "150"), ""]
    assert reasons(make_run("a", [151]), second) == ["", ""]
    assert reasons(make_run("a", [100, 150, 220]), second) == [short.replace("200", "220"), ""]


def test_the_second_of_two_copies_is_left_out_unless_returns_never_vary():
    first, copy = make_run("a", [100, 200]), make_run("b", [100, 200])
    assert reasons(first, copy) == ["", "same evaluations as a, which is used"]
    assert exclude_copies_and_short_runs([first, copy])[1].completed
    constant = np.full((2, 1), 5.0)
    solved = [make_run(name, [100, 200], constant) for name in "ab"]
    assert reasons(*solved) == ["", ""]
    wide = np.array([[0.0], [1.0]])
    assert reasons(*(make_run(name, [100, 200], wide) for name in "ab"))[1] != ""
    longer = dataclasses.replace(copy, ep_lengths=copy.ep_lengths + 1)
    assert reasons(first, longer) == ["", ""]


def test_folders_in_a_packed_file_are_relative_or_the_name():
    assert packed._format_folder(Path("/a/b/c"), Path("/a")) == "b/c"
    assert packed._format_folder(Path("/a/b"), Path("/a/b")) == "b"


def test_packed_rows_of_other_tools_have_their_settings_in_order(tmp_path):
    run = make_run(str(tmp_path / "a"), [100, 200])
    foreign = dataclasses.replace(run, spec={"zoo_seed": 1, "n_timesteps": 5})
    row = packed._run_to_row(foreign, tmp_path)
    assert row["spec"] == '{"n_timesteps": 5, "zoo_seed": 1}' and row["run_json"] is None
    assert (row["seconds"], row["completed"], row["failed"]) == (None, True, False)
    assert (row["final_score"], row["timesteps"], row["folder"]) == (1.0, [100, 200], "a")
    own = dataclasses.replace(run, record="{}", seconds=2.5)
    assert packed._run_to_row(own, tmp_path)["spec"] is None
    assert packed._run_to_row(own, tmp_path)["seconds"] == 2.5


def test_strategies_of_one_name_are_named_by_differing_fields():
    names = replay_metrics._name_strategies(
        [
            {"name": "uniform"},
            {"name": "per", "alpha": 0.6, "beta": 0.4},
            {"name": "per", "alpha": 0.7, "beta": 0.4},
        ]
    )
    assert names == ["uniform", "per, alpha=0.6", "per, alpha=0.7"]
    assert replay_metrics._get_strategy({}) == {"name": "uniform"}
    assert replay_metrics._get_strategy({"replay": {"alpha": 1}})["name"] == "?"


def make_item(variant):
    cell = StudyCell("s", "A-v0", "dqn", "own", variant)
    return types.SimpleNamespace(id=types.SimpleNamespace(cell=cell))


def test_strategies_share_the_variant_of_uniform_replay():
    variants = ["steps=5,replay=per,replay.alpha=1", "steps=5", "steps=7,replay=per"]
    specs = [{"steps": 5, "replay": {"name": "per"}}, {"steps": 5}, {"steps": 7}]
    found = replay_metrics._find_shared_variants(
        [make_item(text) for text in variants], specs, ["per", "uniform", "per"]
    )
    assert found == ["steps=5", "steps=5", "steps=7"]
    hashed = replay_metrics._find_shared_variants(
        [make_item("a=1"), make_item("steps=5")], [{"steps": 5}] * 2, ["per", "uniform"]
    )
    assert hashed == ["steps=5", "steps=5"]


def test_recurrent_states_are_read_of_runs_that_recorded_them(monkeypatch):
    def make(name, **values):
        spec = {"actors": 4} if name == "lagged" else {}
        return types.SimpleNamespace(effective_hyperparameters=values, path=Path(name), spec=spec)

    recorded = {"stale": ([100], [0.5]), "lagged": ([100, 200], [0.5, 1.5]), "never": ([], [])}

    def read(path, metric):
        name = path.parent.name
        if name == "damaged":
            raise UnusableError("damaged")
        if name == "lagged" and metric.endswith("/stale"):
            return np.array([100]), np.array([9.0])
        is_known = metric in ("discrepancy/first", "discrepancy/last") or name == "lagged"
        return tuple(map(np.array, recorded[name if is_known else "never"]))

    monkeypatch.setattr(trace, "read_metric", read)
    values = {"stored_state": 1, "burn_in": 2.0}
    runs = [make("stale", **values), make("never", **values), make("damaged", **values)]
    runs += [make("stale", burn_in=2), make("stale", stored_state=True), make("stale")]
    found, without = read_staleness([*runs, lagged := make("lagged", **values)])
    assert without == runs[1:] and [item.run for item in found] == [runs[0], lagged]
    assert not found[0].lags and not found[0].by_lag
    assert found[1].lags == dict.fromkeys(LAGS, 1.0) | {"stale": 9.0}
    assert found[1].by_lag["last", "stale"] == 9 and found[1].by_lag["first", "fresh"] == 1
    assert found[1].strategy == RecurrentStateStrategy(True, 2, 4)
    assert found[1].strategy.title == "stored state, burn-in 2, 4 actors"
    assert found[0].strategy == RecurrentStateStrategy(True, 2)
    assert list(found[0].discrepancies) == ["first", "last"]
    assert RecurrentStateStrategy(True, 2).title == "stored state, burn-in 2"
    assert RecurrentStateStrategy(False, 0).title == "zero state, burn-in 0"
    assert RecurrentStateStrategy(False, 5) < RecurrentStateStrategy(True, 0)


PLACE = RunId(StudyCell("s", "A-v0", "ppo", "own", ""), "sb3", 3)


def judge_foreign(steps, returns, **spec):
    results = np.array(returns, dtype=float)[:, None]
    evaluations = RunEvaluations(np.array(steps), results, np.ones_like(results, dtype=int))
    return packed.judge_foreign(PLACE, Path("x"), evaluations, spec)


@pytest.mark.parametrize(
    ("steps", "requested", "is_short"),
    [([100, 200], 299, False), ([100, 200], 300, True), ([200], 399, False), ([200], 400, True)],
)
def test_a_run_of_another_tool_is_short_by_a_whole_evaluation(steps, requested, is_short):
    found = judge_foreign(steps, [1.0] * len(steps), n_timesteps=requested)
    if is_short:
        reason = f"too short: last evaluation at step 200 of {requested}"
        assert found == ExcludedRun(PLACE, Path("x"), reason)
    else:
        assert (found.id, found.path, found.spec) == (PLACE, Path("x"), {"n_timesteps": requested})
    assert judge_foreign(steps, [1.0] * len(steps)).spec == {}


def test_a_run_of_another_tool_has_failed_where_returns_are_not_finite():
    found = judge_foreign([100, 2000], [1.0, np.inf], n_timesteps=9)
    assert found.reason.startswith("non-finite returns: 1 of 2") and found.failed
    assert not judge_foreign([100, 2000], [1.0, 2.0], n_timesteps=9000).failed
    text = judge_foreign([100, 2000], [1.0, 2.0], n_timesteps=9000).reason
    assert text == "too short: last evaluation at step 2,000 of 9,000"


def test_a_folder_counts_once_in_a_packed_file():
    runs = [make_run("a", [100]), make_run("b", [100]), make_run("a", [200])]
    gone = ExcludedRun(PLACE, Path("b"), "why")
    first, second, third, fourth = packed._without_repeated_folders([*runs, gone])
    assert (first, second, fourth) == (runs[0], runs[1], gone)
    reason = "corrupted row: another row of the file has the same folder"
    assert third == ExcludedRun(runs[2].id, Path("a"), reason)


def test_only_runs_of_other_tools_are_compared_with_each_other():
    own = dataclasses.replace(make_run("a", [100, 200]), provenance=object())
    copies = [make_run("b", [100, 200]), make_run("c", [100, 200])]
    gone = ExcludedRun(PLACE, Path("d"), "why")
    found = packed._judge_foreign_together([gone, copies[0], own, copies[1]])
    assert found[:3] == [gone, copies[0], own]
    assert found[3].reason == "same evaluations as b, which is used"


def test_record_text_is_that_of_a_readable_file(tmp_path):
    run = make_run(str(tmp_path), [100])
    assert packed.read_record_text(run) is None
    (tmp_path / "run.json").write_text("{}")
    assert packed.read_record_text(run) == "{}"
    assert packed.read_record_text(dataclasses.replace(run, record="")) == ""
    (tmp_path / "run.json").write_bytes(b"\xff")
    assert packed.read_record_text(run) is None
    (tmp_path / "run.json").write_bytes(b" " * 2**24)
    assert len(packed.read_record_text(run)) == 2**24
    (tmp_path / "run.json").write_bytes(b" " * (2**24 + 1))
    assert packed.read_record_text(run) is None


def test_names_are_shortened_for_pages():
    assert packed._shorten_name(None) == "?" and packed._shorten_name("") == ""
    assert packed._shorten_name("x" * 300) == "x" * 255
    assert "\x1b" not in packed._shorten_name("a\x1bb")


def test_an_excluded_run_is_packed_with_its_reason_and_state(tmp_path):
    gone = ExcludedRun(PLACE, tmp_path / "d", "why", True, True, record="{}")
    row = packed._run_to_row(gone, tmp_path)
    assert row == {
        **dataclasses.asdict(PLACE.cell),
        **{"framework": "sb3", "seed": 3, "folder": "d", "run_json": "{}"},
        **{"completed": True, "failed": True, "not_used_because": "why"},
    }


@pytest.mark.parametrize(
    ("value", "stripped"),
    [
        ("/a/b", "b"),
        ("a/b", "a/b"),
        (["/a/b", 5, ["/c/d"]], ["b", 5, ["d"]]),
        (None, None),
        ({"/a": "/b/c"}, {"/a": "/b/c"}),
    ],
)
def test_only_absolute_paths_lose_their_folders(value, stripped):
    assert packed._strip_directories(value) == stripped


def read_metrics(item, name, monkeypatch, recorded=None):
    timings = types.SimpleNamespace(parts={"replay": {"minibatches": 3.0}})
    record = types.SimpleNamespace(timings=timings, files={})

    def read(path, metric):
        assert path.name == "trace.parquet"
        if recorded is None:
            raise UnusableError("no trace")
        steps, errors = map(np.array, recorded)
        return steps, errors if metric == "replay/mape" else 2 * errors

    reading = types.SimpleNamespace(record=record)
    monkeypatch.setattr(replay_metrics, "read_run", lambda path: reading)
    monkeypatch.setattr(replay_metrics, "read_metric", read)
    monkeypatch.setattr(replay_metrics, "parse_record", lambda text: (record, {}))
    found = replay_metrics._read_run_metrics(item, item.id.cell, name)
    steps, errors = map(list, found.errors)
    np.testing.assert_array_equal(found.weights[1], 2 * found.errors[1])
    return steps, errors, found.costs, found.unread


def test_checks_of_priorities_are_read_of_runs_that_replay_by_them(monkeypatch):
    run, nothing = make_run("a", [100]), ([], [], {}, "")
    recorded, costs = ([10, 20], [0.5, 0.25]), {"minibatches": 3.0}
    assert read_metrics(run, "per", monkeypatch, recorded) == (*recorded, costs, "")
    assert read_metrics(run, "per", monkeypatch) == ([], [], costs, "no trace")
    assert read_metrics(run, "uniform", monkeypatch, recorded) == nothing
    gone = ExcludedRun(PLACE, Path("b"), "why")
    assert read_metrics(gone, "per", monkeypatch, recorded) == nothing
    from_file = dataclasses.replace(run, record="{}")
    without = "packed files have no traces"
    assert read_metrics(from_file, "per", monkeypatch, recorded) == ([], [], costs, without)
