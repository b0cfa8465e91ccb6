"""Files of other tools that claim too much are refused soon and in a few words; nothing is left."""

import functools
import io
import random
import struct
import time
import zlib
from pathlib import Path

import fuzz_imports
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from parallax.harness.cli.main import main
from parallax.harness.imports import return_curves, tensorboard_and_wandb
from parallax.harness.imports.return_curves import CurveOptions
from parallax.harness.imports.run_import import FORMATS, guess_format
from parallax.harness.imports.run_names import PathPattern
from parallax.harness.imports.tables import read_table
from parallax.harness.imports.tensorboard_and_wandb import read_event_files, read_wandb_file
from parallax.harness.record.files import UnusableError

LONG = "x" * 100_000
DEEP = functools.reduce(lambda inner, _: [inner], range(70), 1)
VERY_DEEP = functools.reduce(lambda inner, _: [inner], range(900), 1)
POINTS = [("charts/episodic_return", step, 1.0) for step in range(1000, 21_000, 1000)]
ROWS = [{"global_step": str(step), "eval/mean_reward": "1.5"} for step in (1000, 2000)]


def write_monitor(*rows, env="A-v1"):
    return "\n".join([f'#{{"env_id": "{env}"}}', "r,l,t", *rows, ""]).encode()


def write_event_file(points, **settings):
    events = fuzz_imports.write_events(points, settings)
    return b"".join(map(fuzz_imports.frame_event, events))


def write_wandb_file(rows, **settings):
    return fuzz_imports.frame_wandb_records(fuzz_imports.write_wandb_rows(rows, settings))


def write_evaluations(*steps):
    file = io.BytesIO()
    np.savez(file, timesteps=np.array(steps), results=np.ones((len(steps), 2)))
    return file.getvalue()


def write_config(name, value):
    return fuzz_imports.write_wandb_rows([], {name: value})[0]


HOSTILE = {
    "an episode of 10^15 steps": (
        "monitor.csv",
        write_monitor("1.0,1000000000000000,1.0"),
        "no episode ended between step 0",
    ),
    "a value of 10^6 characters": (
        "monitor.csv",
        write_monitor('"' + "1" * 10**6),
        "corrupted monitor.csv: field larger than field limit",
    ),
    "a column of 10^6 characters": (
        "monitor.csv",
        b"#{}\n" + b'"' + b"r" * 10**6,
        "corrupted monitor.csv: field larger than field limit",
    ),
    "a start at 10^400 s": (
        "monitor.csv",
        write_monitor("1.0,10000,1.0").replace(b"{", b'{"t_start": 1' + b"0" * 400 + b", ", 1),
        "corrupted monitor.csv: int too large to convert to float",
    ),
    "an episode of 10^300 steps": ("monitor.csv", write_monitor("1.0,1e300,1.0"), "after 1e+300"),
    "a task with a long name": (
        "monitor.csv",
        write_monitor("1.0,10000,1.0", env=LONG),
        "must have at most 200 bytes",
    ),
    "a task that is called as a seed": (
        "monitor.csv",
        write_monitor("1.0,10000,1.0", env="seed=1"),
        "must be a valid folder name",
    ),
    "an episode at step 2^62": (
        "events.out.tfevents.1",
        write_event_file([*POINTS, ("charts/episodic_return", 2**62, 1.0)]),
        "at step 4.61169e+18, which no run can have",
    ),
    "a length of 10^400 steps": (
        "events.out.tfevents.1",
        write_event_file(POINTS, total_timesteps=10**400),
        "says total_timesteps=10000000000000000000, which no run can have",
    ),
    "a step of 400 digits": (
        "run.wandb",
        write_wandb_file([*ROWS, {"global_step": "9" * 400, "eval/mean_reward": "1"}]),
        "has a row whose global_step is not a number of steps",
    ),
    "settings that are nested deeply": (
        "run.wandb",
        write_wandb_file(ROWS, net=DEEP),
        "its settings are nested too deeply",
    ),
    "settings that are nested more deeply": (
        "run.wandb",
        write_wandb_file(ROWS, net=VERY_DEEP),
        "its settings are nested too deeply",
    ),
    "a name of 100,000 characters": (
        "table.csv",
        f"step,return,env\n1,1.0,{LONG}\n".encode(),
        "is not a name: it has 100,000 characters",
    ),
    "a time that has no order": (
        "monitor.csv",
        write_monitor("1.0,10000,nan", "2.0,10000,1.0"),
        "has a time that is not finite: t, or t_start",
    ),
    "a start that has no order": (
        "monitor.csv",
        write_monitor("1.0,10000,1.0").replace(b"{", b'{"t_start": NaN, ', 1),
        "has a time that is not finite: t, or t_start",
    ),
    "an episode of half a step": ("monitor.csv", write_monitor("1.0,10.5,1.0"), "after 10.5 steps"),
    "a column twice": (
        "monitor.csv",
        write_monitor("1.0,10000,1.0,-1.0").replace(b"r,l,t", b"r,l,t,r"),
        "has two columns of one name",
    ),
    "a step below zero": (
        "events.out.tfevents.1",
        write_event_file([*POINTS, ("charts/episodic_return", -5000, 1.0)]),
        "has a value at step -5000, which no run can have",
    ),
    "half a step": (
        "run.wandb",
        write_wandb_file([*ROWS, {"global_step": "2000.5", "eval/mean_reward": "1"}]),
        "has a row whose global_step is not a number of steps",
    ),
    "a return that is a text": (
        "run.wandb",
        write_wandb_file([*ROWS, {"global_step": "3000", "eval/mean_reward": '"12"'}]),
        "has a value of eval/mean_reward that is no number",
    ),
    "a seed of 5,000 digits": (
        "table.csv",
        b"step,seed,return\n1," + b"1" * 5000 + b",1.0\n1,a,1.0\n",
        "seed=1111111111111111111111111111111111111111... is not a name: it has 5,000 characters",
    ),
    "a step that is 2^53 once it is rounded": (
        "table.csv",
        b"step,return\n1,1.0\n9007199254740993.0,1.0\n",
        "column step, row 2: 9007199254740992.0 is not a number of steps",
    ),
    "a last line that is cut off": (
        "monitor.csv",
        b"#{}\nr,l,t\n1.0,2000,10.5\n1.0,2000,1",
        "the last line of monitor.csv is cut off",
    ),
    "a name in another encoding": (
        "table.csv",
        "step,return,env\n1,1.0,caf\xe9\n".encode("latin-1"),
        "invalid UTF8 data",
    ),
    "evaluations at step 2^60": (
        "evaluations.npz",
        write_evaluations(2**60),
        "timesteps do not increase from 0 to at most 2^53",
    ),
    "millions of columns": ("table.csv", b"," * 5_000_000, "is too large: 5,000,000 values"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_with_excessive_sizes_are_refused_in_a_short_message(
    name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    file, content, reason = HOSTILE[name]
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / file).write_bytes(content)
    started = time.process_time()
    code = main(["import", "logs"])
    assert time.process_time() - started < 5
    out, err = capsys.readouterr()
    assert reason in out and max(map(len, out.splitlines())) <= 1000 and not err.strip()
    assert code == 1 and not Path("results").exists()


def test_a_return_that_wandb_writes_as_a_text_counts_as_diverged(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [*ROWS, {"global_step": "3000", "eval/mean_reward": '"NaN"'}]
    Path("run.wandb").write_bytes(write_wandb_file(rows))
    assert main(["import", "run.wandb"]) == 0
    assert "non-finite returns: 1 of 3, first at step 3,000" in capsys.readouterr().out


def test_monitor_files_are_read_up_to_a_size(tmp_path, monkeypatch):
    """A sparse file takes no room on the disk, and four times its size as text."""
    with (tmp_path / "0.monitor.csv").open("wb") as file:
        file.write(write_monitor("1.0,10000,1.0"))
        file.truncate(return_curves._MAX_MONITOR_BYTES + 1)
    with pytest.raises(UnusableError, match="is too large: 33,554,433 bytes"):
        return_curves.read_monitor_files([tmp_path / "0.monitor.csv"], tmp_path, CurveOptions())
    assert return_curves._read_monitor_facts(tmp_path) == {"env": "A-v1"}
    (tmp_path / "0.monitor.csv").write_bytes(write_monitor(*["1.0,10000,1.0"] * 3))
    monkeypatch.setattr(return_curves, "_MAX_EPISODES", 2)
    with pytest.raises(UnusableError, match="is too large: more than 2 episodes"):
        return_curves.read_monitor_files([tmp_path / "0.monitor.csv"], tmp_path, CurveOptions())


def test_settings_of_many_bytes_are_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    settings = [write_config(f"s{i}", LONG[:30_000]) for i in range(150)]
    records = [*settings, *fuzz_imports.write_wandb_rows(ROWS, {})]
    Path("run.wandb").write_bytes(fuzz_imports.frame_wandb_records(records))
    assert main(["import", "run.wandb"]) == 1
    assert "its settings are too large" in capsys.readouterr().out


def test_text_repeated_in_many_rows_is_stored_once(tmp_path):
    """Written out, it would take 5 GB."""
    rows = 50_000
    texts = pyarrow.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pyarrow.array([LONG]))
    columns = {"step": np.arange(rows), "return": np.zeros(rows), "notes": texts}
    file = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    (curve,) = read_table(file, CurveOptions())
    assert len(curve.evaluations.timesteps) == rows


def test_nested_columns_name_no_run(tmp_path):
    file = tmp_path / "table.parquet"
    columns = {"step": [1], "return": [1.0], "env": [[1]], "algorithm": [{"a": 1}]}
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    (curve,) = read_table(file, CurveOptions())
    assert curve.facts == {}
    with pytest.raises(UnusableError, match="has no column env"):
        list(read_table(file, CurveOptions(columns={"env": "env"})))


def test_patterns_refuse_long_names():
    pattern = PathPattern("{algorithm}_{env}_{framework}_{_}_seed{seed}")
    assert pattern.match_name("_" * 100_000) is None
    assert pattern.match_name("ppo_A_sb3__seed1") is None
    assert pattern.match_name("ppo_A_sb3_x_seed1")["seed"] == 1


def test_every_kind_of_file_is_fuzzed():
    names = [make(random.Random(0), lambda raw, rng: raw)[0] for make in fuzz_imports.MAKERS]
    assert set(map(guess_format, names)) == set(FORMATS)


def import_folder(tmp_path, *contents):
    for number, content in enumerate(contents):
        (tmp_path / "logs").mkdir(exist_ok=True)
        (tmp_path / "logs" / f"events.out.tfevents.{number}").write_bytes(content)
    command = ["import", str(tmp_path / "logs"), "--frameworks", "cleanrl", "--algorithms", "ppo"]
    return main([*command, "--results-dir", str(tmp_path / "results")])


EARLIER = [("charts/episodic_return", step, 1.0) for step in range(500, 12_001, 500)]
LATER = [("charts/episodic_return", step, 5.0) for step in range(10_500, 20_001, 500)]


def test_a_restarted_training_counts_from_its_checkpoint_on(tmp_path, capsys):
    files = (write_event_file(part, env_id="A-v1", seed=1) for part in (EARLIER, LATER))
    assert import_folder(tmp_path, *files) == 0
    assert "4 returns that were logged before are left out" in capsys.readouterr().out
    (file,) = (tmp_path / "results").rglob("evaluations.npz")
    assert np.load(file)["results"].ravel().tolist() == [1.0, 5.0]


@pytest.mark.parametrize(
    ("second", "settings", "reason"),
    [
        (LATER, {"env_id": "A-v1", "seed": 2}, "says seed=1 and seed=2: it holds several runs"),
        (LATER, {"env_id": "B-v1", "seed": 1}, "says env_id=A-v1 and env_id=B-v1"),
        (EARLIER, {"env_id": "A-v1", "seed": 1}, "begins again at step 500: it holds several runs"),
    ],
)
def test_event_files_of_several_runs_in_one_folder_are_refused(
    tmp_path, capsys, second, settings, reason
):
    first = write_event_file(EARLIER, env_id="A-v1", seed=1)
    assert import_folder(tmp_path, first, write_event_file(second, **settings)) == 1
    assert reason in capsys.readouterr().out
    assert not list(tmp_path.rglob("run.json"))


def test_a_value_that_a_later_one_of_its_step_replaces_is_counted(tmp_path, capsys):
    points = [("eval/mean_reward", step, value) for step in (500, 1000) for value in (1.0, 5.0)]
    assert import_folder(tmp_path, write_event_file(points)) == 0
    assert "2 returns that were logged before are left out" in capsys.readouterr().out
    (file,) = (tmp_path / "results").rglob("evaluations.npz")
    assert np.load(file)["results"].ravel().tolist() == [5.0, 5.0]


def import_table(tmp_path, content, *words):
    (tmp_path / "table.csv").write_text(content)
    return main(["import", str(tmp_path / "table.csv"), *words, "--results-dir", str(tmp_path)])


@pytest.mark.parametrize("column", ["hps", "env", "task", "framework", "algorithm", "theirs"])
def test_names_that_look_like_one_number_are_two_names(column, tmp_path, capsys):
    table = f"step,return,{column}\n1,1.0,1.10\n1,2.0,1.1\n"
    words = ["--columns", "hps=theirs"] if column == "theirs" else []
    assert import_table(tmp_path, table, *words) == 0
    assert "Imported 2 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "column",
    [
        pyarrow.array([2**31 - 1], pyarrow.int32()).view(pyarrow.date32()),
        pyarrow.array([-(2**63)]).view(pyarrow.timestamp("us")),
        pyarrow.array([2**63 - 1]).view(pyarrow.duration("s")),
    ],
    ids=["date", "time", "duration"],
)
def test_dates_that_python_does_not_have_are_refused(column, tmp_path, capsys):
    table = pyarrow.table({"step": [1], "return": [1.0], "when": column})
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    assert main(["import", str(tmp_path / "table.parquet")]) == 1
    assert "cannot be read as a table" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "steps", "reason"),
    [
        (["--set", "n_envs=0"], (10, 20), "spec.n_envs: expected `int` >= 1"),
        (["--set", f"threads={2**60}"], (10, 20), "spec.threads: expected `int` <="),
        ([], (0,), "spec.steps: expected `int` >= 1"),
        (["--env", "A-v1"], (0,), "spec.steps: expected `int` >= 1"),
        (["--hps", "library defaults"], (10, 20), "hps='library defaults' is a name in tables"),
    ],
)
def test_no_run_is_imported_that_no_command_can_read(words, steps, reason, tmp_path, capsys):
    table = "step,return\n" + "".join(f"{step},{step}\n" for step in steps)
    assert import_table(tmp_path, table, *words) == 1
    assert reason in capsys.readouterr().out
    assert not list(tmp_path.rglob("run.json"))


LAST_ROWS = {
    "a value that is no JSON": {"global_step": "3000", "eval/mean_reward": "{bad"},
    "a value of 5,000 digits": {"global_step": "3000", "eval/mean_reward": "9" * 5000},
    "a step that is a text": {"global_step": '"3000"', "eval/mean_reward": "1"},
    "a step that is true": {"global_step": "true", "eval/mean_reward": "1"},
    "a return without a step": {"eval/mean_reward": "1"},
}


@pytest.mark.parametrize("row", LAST_ROWS.values(), ids=LAST_ROWS)
def test_a_return_of_wandb_that_cannot_be_read_is_not_left_out(tmp_path, row):
    path = tmp_path / "run.wandb"
    path.write_bytes(write_wandb_file([*ROWS, row]))
    found = read_wandb_file(path, None)
    with pytest.raises(UnusableError, match=r"eval/mean_reward that is no number, or has no step"):
        return_curves.make_curve_from_values(found, path, [path], CurveOptions())


def write_value(step, field, content):
    name = fuzz_imports.write_field(1, b"eval/mean_reward")
    value = fuzz_imports.write_field(1, name + fuzz_imports.write_field(field, content))
    return fuzz_imports.write_field(2, step) + fuzz_imports.write_field(5, value)


TENSORS = {
    "whole number": fuzz_imports.write_field(1, 3) + fuzz_imports.write_field(7, 4),
    "half precision": fuzz_imports.write_field(1, 19) + fuzz_imports.write_field(13, 0x4400),
    "two numbers": fuzz_imports.write_field(1, 1) + fuzz_imports.write_field(5, bytes(8)),
    "text": fuzz_imports.write_field(1, 7) + fuzz_imports.write_field(8, b"4"),
}


@pytest.mark.parametrize("tensor", TENSORS.values(), ids=TENSORS)
def test_a_return_of_tensorboard_that_cannot_be_read_is_not_left_out(tmp_path, capsys, tensor):
    events = [write_value(500, 2, 1.0), write_value(1000, 8, tensor)]
    assert import_folder(tmp_path, b"".join(map(fuzz_imports.frame_event, events))) == 1
    assert "that is no number, or has no step" in capsys.readouterr().out


def test_unreadable_returns_are_not_replaced_by_other_ones(tmp_path, capsys):
    others = fuzz_imports.write_events([("rollout/ep_rew_mean", 500, 7.0)], {})
    events = [write_value(500, 8, TENSORS["whole number"]), *others]
    assert import_folder(tmp_path, b"".join(map(fuzz_imports.frame_event, events))) == 1
    assert "has a value of eval/mean_reward that is no number" in capsys.readouterr().out


def test_texts_and_records_of_many_bytes_are_refused(tmp_path, monkeypatch):
    """Rows of a table, and lists in JSON, take 30 times as much memory as in the file."""
    events, wandb = tmp_path / "events.out.tfevents.1", tmp_path / "run.wandb"
    events.write_bytes(write_event_file([], a="x" * 100))
    wandb.write_bytes(write_wandb_file([{"a": "x" * 40_000}]))
    assert read_event_files([events]).settings == {"a": "x" * 100}
    monkeypatch.setattr(tensorboard_and_wandb, "_MAX_SETTINGS_BYTES", 100)
    with pytest.raises(UnusableError, match=r"its settings are too large: 1\d\d bytes"):
        read_event_files([events])
    monkeypatch.setattr(tensorboard_and_wandb, "_MAX_RECORD_BYTES", 40_000)
    with pytest.raises(UnusableError, match=r"too large: a record of more than 40,000 bytes"):
        read_wandb_file(wandb, None)
    wandb.write_bytes(write_wandb_file([{"global_step": "1", "a": "x" * 20_000}] * 3))
    assert "a" in read_wandb_file(wandb, None).incomplete


def test_a_changed_number_in_a_long_event_is_noticed(tmp_path, capsys):
    event = write_value(500, 2, 1.0) + fuzz_imports.write_field(6, bytes(5000))
    raw = fuzz_imports.frame_event(event)
    assert import_folder(tmp_path, raw.replace(struct.pack("<f", 1.0), struct.pack("<f", 9.0))) == 1
    assert "the checksum of an event does not match" in capsys.readouterr().out


def frame_chunk(kind, data):
    check = zlib.crc32(data, zlib.crc32(bytes([kind])))
    return struct.pack("<IHB", check, len(data), kind) + data


@pytest.mark.parametrize(
    "inserted",
    [bytes(7), struct.pack("<IHB", 1, 60_000, 1), *(frame_chunk(kind, b"") for kind in (2, 3, 4))],
    ids=["zeros", "too long", "begun and not ended", "middle alone", "end alone"],
)
def test_damage_within_a_file_of_wandb_is_not_its_end(tmp_path, inserted):
    whole = write_wandb_file(ROWS)
    path = tmp_path / "run.wandb"
    path.write_bytes(whole[:7] + inserted + whole[7:])
    with pytest.raises(UnusableError, match=r"the record at byte .* is damaged"):
        read_wandb_file(path, None)
    path.write_bytes(whole + bytes(100))
    assert len(read_wandb_file(path, None).values["eval/mean_reward"]) == len(ROWS)


def test_small_files_of_millions_of_empty_parts_are_refused(tmp_path, monkeypatch):
    """A file of 30 MB took a gigabyte of memory."""
    empty = fuzz_imports.write_field(1, b"") * 20_000
    wandb, events = tmp_path / "run.wandb", tmp_path / "events.out.tfevents.1"
    wandb.write_bytes(fuzz_imports.frame_wandb_records([fuzz_imports.write_field(2, empty)]))
    events.write_bytes(fuzz_imports.frame_event(fuzz_imports.write_field(5, empty)))
    for read in (lambda: read_wandb_file(wandb, None), lambda: read_event_files([events])):
        with pytest.raises(UnusableError, match=r"too large: a message of more than 16,384 fields"):
            read()
    monkeypatch.setattr(tensorboard_and_wandb, "_MAX_PARTS", 3)
    wandb.write_bytes(write_wandb_file([{}] * 4))
    with pytest.raises(UnusableError, match="is too large: 4 values of 0 names"):
        read_wandb_file(wandb, None)


@pytest.mark.parametrize(
    ("encoded", "value"), [(800, 400), (801, -401), (2**64 - 1, -(2**63)), (2**64 - 2, 2**63 - 1)]
)
def test_whole_numbers_of_wandb_keep_their_sign(encoded, value):
    item = fuzz_imports.write_field(1, b"x") + fuzz_imports.write_field(5, encoded)
    assert tensorboard_and_wandb._read_items(fuzz_imports.write_field(1, item)) == {"x": value}
