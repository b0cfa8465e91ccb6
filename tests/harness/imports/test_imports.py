"""Runs of other tools: files that the real libraries write come back with equal numbers."""

import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pandas
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies

from parallax.analysis.data.load import load_runs
from parallax.harness.cli.main import main
from parallax.harness.contract.fields import SpecError
from parallax.harness.imports.run_names import PathPattern
from parallax.harness.imports.tensorboard_and_wandb import (
    parse_setting,
    read_event_files,
    read_wandb_file,
)
from parallax.harness.record.files import UnusableError
from parallax.harness.record.reading import read_run
from parallax.harness.sweep.sweep import _check_same_run
from parallax.slurm.states import assess_run

WANDB_FILE = Path(__file__).parents[2] / "data" / "imports" / "run.wandb"
ZOO_ARGS = """!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - env
    - CartPole-v1
  - - n_timesteps
    - 512
  - - seed
    - 7
"""


@pytest.fixture(scope="module")
def sb3_logs(tmp_path_factory):
    """A training of Stable-Baselines3 with its callback, monitors and TensorBoard files."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import EvalCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.monitor import Monitor

    root = tmp_path_factory.mktemp("logs")
    callback = EvalCallback(
        Monitor(gymnasium.make("CartPole-v1")),
        eval_freq=64,
        n_eval_episodes=3,
        log_path=str(root / "eval" / "ppo" / "CartPole-v1_4"),
        verbose=0,
    )
    envs = make_vec_env("CartPole-v1", 2, seed=4, monitor_dir=str(root / "monitors" / "ppo_seed4"))
    model = PPO(
        *("MlpPolicy", envs), n_steps=128, seed=4, device="cpu", tensorboard_log=str(root / "tb")
    )
    model.learn(512, callback=callback)
    return root


@pytest.fixture
def call(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*words):
        return main(["import", *map(str, words)])

    return run


def find_runs(folder="results"):
    return load_runs(Path(folder)).runs


def test_callback_evaluations_are_imported_unchanged(sb3_logs, call, capsys):
    source = sb3_logs / "eval"
    assert call(source, "--frameworks", "sb3", "--pattern", "{algorithm}/{env}_{seed}") == 0
    (run,) = find_runs()
    with np.load(source / "ppo" / "CartPole-v1_4" / "evaluations.npz") as arrays:
        assert (run.timesteps == arrays["timesteps"]).all()
        assert (run.results == arrays["results"]).all()
        assert (run.ep_lengths == arrays["ep_lengths"]).all()
    cell = run.id.cell
    assert (cell.study, cell.algorithm, cell.env, cell.hps, run.id.framework, run.id.seed) == (
        *("imported", "ppo", "CartPole-v1", "unknown", "sb3", 4),
    )
    assert cell.variant == "steps=512,eval_every=128,eval_episodes=3"
    assert "Unknown: hps of 1 run." in capsys.readouterr().out


def test_imported_hyperparameters_give_the_variant_of_a_trained_run(sb3_logs, call, capsys):
    words = ["--frameworks", "sb3", "--pattern", "{algorithm}/{env}_{seed}", "--hps", "original"]
    stated = ("gamma=0.9", "gae_lambda=0.95", "hidden_sizes=[8, 8]", "target_kl=null")
    words += [word for value in stated for word in ("--set", f"hyperparameters.{value}")]
    assert call(sb3_logs / "eval", *words, "--set", "hyperparameters.epochs=x") == 1
    assert "hyperparameters.epochs='x' must be a whole number" in capsys.readouterr().out
    assert call(sb3_logs / "eval", *words) == 0
    (run,) = find_runs()  # the recipe has the other two values
    assert run.id.cell.variant.endswith("eval_episodes=3,gamma=0.9,hidden_sizes=[8,8]")


def test_episodes_of_a_short_run_need_no_interval(sb3_logs, call):
    assert call(sb3_logs / "monitors", "--pattern", "{algorithm}_seed{seed}") == 0
    (run,) = find_runs()
    assert run.id.cell.variant == "steps=400,eval_every=100,returns=training"


def test_monitors_of_parallel_environments_are_one_run(sb3_logs, call):
    from stable_baselines3.common.monitor import load_results

    folder = sb3_logs / "monitors" / "ppo_seed4"
    assert call(folder, "--pattern", "{algorithm}_seed{seed}", "--every", 128) == 0
    (run,) = find_runs()
    episodes = load_results(str(folder))
    ends = episodes["l"].cumsum()
    expected = episodes["r"].groupby((ends / 128).apply(np.ceil)).mean()
    np.testing.assert_allclose(run.results[:, 0], expected.to_numpy()[: len(run.results)], 1e-12)
    assert (run.id.cell.env, run.id.framework, run.id.seed) == ("CartPole-v1", "unknown", 4)
    assert "returns=training" in run.id.cell.variant


def test_event_file_scalars_equal_those_of_tensorboard(sb3_logs, call):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = sb3_logs / "tb" / "PPO_1"
    events = EventAccumulator(str(folder))
    events.Reload()
    found = read_event_files(list(folder.iterdir()))
    assert set(found.values) == set(events.Tags()["scalars"])
    for name in found.values:
        expected = [(item.step, item.value) for item in events.Scalars(name)]
        assert [list(map(repr, pair)) for pair in found.values[name]] == [
            list(map(repr, pair)) for pair in expected
        ]
    assert call(sb3_logs / "tb", "--pattern", "{algorithm}_{_}", "--frameworks", "SB3") == 0
    (run,) = find_runs()
    assert [value for _, value in found.values["eval/mean_reward"]] == run.results[:, 0].tolist()
    assert (run.id.framework, run.id.cell.algorithm, run.id.seed) == ("sb3", "ppo", None)


def write_cleanrl_run(root, seed, steps=4000):
    """A run folder as CleanRL's ppo.py writes it."""
    from torch.utils.tensorboard import SummaryWriter

    values = {"exp_name": "ppo", "seed": seed, "env_id": "CartPole-v1", "total_timesteps": steps}
    values |= {"learning_rate": 0.00025, "anneal_lr": True}
    writer = SummaryWriter(str(root / f"CartPole-v1__ppo__{seed}__1700000000"))
    rows = "\n".join(f"|{name}|{value}|" for name, value in values.items())
    writer.add_text("hyperparameters", f"|param|value|\n|-|-|\n{rows}")
    for step in range(100, steps + 1, 100):
        writer.add_scalar("charts/episodic_return", step / 10 + seed, step, new_style=step > 2000)
    writer.close()


def test_cleanrl_folders_state_task_seed_and_length(tmp_path, call):
    for seed in (1, 2):
        write_cleanrl_run(tmp_path / "runs", seed)
    assert call(tmp_path / "runs", "--frameworks", "cleanrl", "--algorithms", "ppo") == 0
    first, second = find_runs()
    assert (first.id.seed, second.id.seed, first.id.cell.env) == (1, 2, "CartPole-v1")
    assert first.timesteps.tolist() == list(range(400, 4001, 400))
    assert first.results[0, 0] == pytest.approx(np.mean([10, 20, 30, 40]) + 1)
    record = read_run(first.path).record
    assert record.native["learning_rate"] == 0.00025 and record.native["anneal_lr"] is True
    assert record.imported.stated_by["seed"] == "file"


@pytest.mark.parametrize("text", ["1_0", "1_0.5", "\N{ARABIC-INDIC DIGIT THREE}", "nan", "1e999"])
def test_settings_that_are_no_plain_numbers_stay_texts(text):
    assert parse_setting(text) == text
    assert [parse_setting(plain) for plain in ("10", "-0.5", "1e-3")] == [10, -0.5, 0.001]


def test_offline_files_of_wandb_need_no_wandb(call):
    assert "wandb" not in sys.modules
    found = read_wandb_file(WANDB_FILE, None)
    assert found.values["charts/episodic_return"] == [(i * 1000, 10.5 * i) for i in range(1, 6)]
    assert found.settings["net"] == {"hidden": [64, 64]}
    assert call(WANDB_FILE, "--algorithms", "ppo", "--every", 1000) == 0
    (run,) = find_runs()
    assert run.results[:, 0].tolist() == [10.5 * i for i in range(1, 6)]
    assert (run.id.seed, run.id.cell.env) == (3, "CartPole-v1")
    with pytest.raises(UnusableError, match=r"counts calls of log.*--columns step=NAME"):
        read_wandb_file(WANDB_FILE, "frames")


def make_table():
    rows = [
        (framework, "sac", "Hopper-v4", seed, step, 10.0 * seed + step / 100 + bonus)
        for framework, bonus in (("sb3", 0.0), ("theirs", 0.5))
        for seed in (0, 1)
        for step in (1000, 2000, 3000)
    ]
    return pandas.DataFrame(
        rows, columns=["framework", "algorithm", "task", "seed", "step", "return"]
    )


@pytest.mark.parametrize(
    ("name", "separator"), [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.csv.gz", ",")]
)
def test_separators_and_gzip(tmp_path, call, name, separator):
    path = tmp_path / name
    make_table().to_csv(path, index=False, sep=separator)
    assert call(path) == 0
    assert len(find_runs()) == len(make_table().groupby(["framework", "seed"]))


def test_recipe_file_is_refused_with_the_command(tmp_path, call, capsys):
    (tmp_path / "ppo.yml").write_text("CartPole-v1:\n  n_steps: 8\n")
    assert call("ppo.yml") == 2
    assert "parallax new recipe ppo.yml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("header", "env"),
    [
        ('#{"env_id": "CartPole-v1"}', "CartPole-v1"),
        ('#{"env_id": ["x"]}', "unknown"),
        ("no header", "unknown"),
    ],
)
def test_monitor_file_next_to_evaluations_states_the_task(tmp_path, call, header, env):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "monitor.csv").write_text(f"{header}\nr,l,t\n1,2,3\n")
    np.savez(
        folder / "evaluations.npz",
        timesteps=np.array([10, 20]),
        results=np.array([[1.0], [2.0]]),
        ep_lengths=np.ones((2, 1), int),
    )
    assert call(folder) == 0
    (run,) = find_runs()
    assert run.id.cell.env == env


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_of_rows(tmp_path, call, suffix):
    table, path = make_table(), tmp_path / f"table{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    assert call(path, "--returns", "evaluation", "--set", "eval_episodes=30") == 0
    runs = find_runs()
    assert {(run.id.framework, run.id.seed) for run in runs} == {
        *(("sb3", 0), ("sb3", 1), ("theirs", 0), ("theirs", 1))
    }
    for run in runs:
        rows = table[(table.framework == run.id.framework) & (table.seed == run.id.seed)]
        assert run.results[:, 0].tolist() == rows["return"].tolist()
        assert run.id.cell.variant == "steps=3000,eval_every=1000"


def test_intervals_of_episodes_are_refused_for_evaluations(tmp_path, call, capsys):
    make_table().to_csv(tmp_path / "table.csv", index=False)
    write_evaluations(tmp_path / "evaluations.npz")
    words = ["--returns", "evaluation", "--every", 2000]
    assert call(tmp_path / "table.csv", tmp_path / "evaluations.npz", *words) == 2
    assert "--every 2000 averages episodes of a training, but" in capsys.readouterr().err


@pytest.mark.parametrize("episodes", [1, 30])
def test_runs_with_a_stated_number_of_episodes_are_read_packed(tmp_path, call, episodes):
    path = tmp_path / "table.csv"
    make_table().to_csv(path, index=False)
    assert call(path, "--returns", "evaluation", "--set", f"eval_episodes={episodes}") == 0
    assert main(["study", "pack", "results/imported", "--output", "packed.parquet"]) == 0
    loaded = load_runs(Path("packed.parquet"))
    assert len(loaded.runs) == 4 and not loaded.excluded


def write_evaluations(path, steps=(10, 20), **others):
    results = np.array([[1.0, 2.0], [3.0, 4.0]])[: len(steps)]
    np.savez(path, timesteps=np.array(steps), results=results, **others)


def test_evaluations_of_tasks_with_goals_are_read(tmp_path, call):
    write_evaluations(tmp_path / "evaluations.npz", successes=np.ones((2, 2), bool))
    assert call(tmp_path / "evaluations.npz") == 0


@pytest.mark.parametrize(
    ("steps", "setting", "reason"),
    [
        ((10, 20), "eval_episodes=3", "has evaluations of 2 episodes: leave out eval_episodes"),
        ((10, 20), "n_envs=0", "spec.n_envs: expected `int` >= 1"),
        ((0,), "n_envs=1", "spec.steps: expected `int` >= 1"),
    ],
)
def test_a_dry_run_refuses_what_an_import_refuses(tmp_path, call, capsys, steps, setting, reason):
    write_evaluations(tmp_path / "evaluations.npz", steps)
    for words in (["--dry-run"], []):
        assert call(tmp_path / "evaluations.npz", "--set", setting, *words) == 1
        assert reason in capsys.readouterr().out
        assert not Path("results").exists()


def test_a_run_that_another_process_has_just_imported_is_refused(
    tmp_path, call, capsys, monkeypatch
):
    make_table().to_csv(tmp_path / "table.csv", index=False)
    rename = Path.rename

    def rename_second(path, target):
        if "seed=0" in str(target) and "sb3" in str(target):
            shutil.copytree(path, target)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", rename_second)
    assert call(tmp_path / "table.csv") == 1
    out = capsys.readouterr().out
    assert "Imported 3 runs; 1 refused." in out and "already exists, and no run is overw" in out
    assert not list(Path("results").glob(".*"))


def test_rows_without_a_seed_are_one_run(tmp_path, call, capsys):
    table = {"step": [1, 2] * 2, "seed": [0.0, 0.0, np.nan, np.nan], "return": [1.0, 2, 3, 4]}
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pyarrow.table(table), path)
    assert call(path) == 0
    assert "Imported 2 runs; 0 refused." in capsys.readouterr().out


@pytest.mark.parametrize(("value", "word"), [("nan", "failed training"), ("1", "Imported 1 run")])
def test_a_training_that_diverges_after_its_last_point_has_failed(
    tmp_path, call, capsys, value, word
):
    rows = [f"{i},100,{i}" for i in range(30)]
    text = "\n".join(['#{"env_id": "A"}', "r,l,t", *rows, f"{value},50,40", ""])
    (tmp_path / "monitor.csv").write_text(text)
    assert call(tmp_path / "monitor.csv") == 0
    out = capsys.readouterr().out
    assert word in out and ("failed" in out) == (value == "nan")


def test_tables_with_other_names_and_with_a_column_for_each_run(tmp_path, call):
    path = tmp_path / "export.csv"
    path.write_text(
        "Step,td3_s0 - score,td3_s1 - score,td3_s0 - loss\n10,1,2,9\n20,3,,9\n30,,5,9\n"
    )
    words = ("--columns", "step=Step", "--wide", "{algorithm}_s{seed} - score", "--steps", 30)
    assert call(path, *words, "--env", "Hopper-v4") == 1  # the first run ends at step 20
    (run,) = find_runs()
    assert (run.id.cell.algorithm, run.id.seed) == ("td3", 1)
    assert (run.timesteps.tolist(), run.results[:, 0].tolist()) == ([10, 30], [2, 5])


def test_several_rows_of_a_step_are_episodes(tmp_path, call, capsys):
    path = tmp_path / "episodes.csv"
    path.write_text("t,score\n1,5\n1,7\n2,8\n2,10\n")
    assert call(path, "--columns", "step=t,return=score", "--returns", "evaluation") == 0
    (run,) = find_runs()
    assert run.results.tolist() == [[5, 7], [8, 10]]
    path.write_text("t,score\n1,5\n1,7\n2,8\n")
    assert call(path, "--columns", "step=t,return=score") == 1
    assert "1 to 2 values at a step" in capsys.readouterr().out


def test_imported_runs_are_compared_with_others(tmp_path, call, capsys):
    path = tmp_path / "table.csv"
    make_table().to_csv(path, index=False)
    assert call(path, "--returns", "evaluation") == 0
    for command in (
        ["study", "verdicts", "results/imported"],
        ["status", "results"],
        ["run", "validate", "results"],
        ["study", "pack", "results/imported", "--output", "packed.parquet"],
        ["compare", "packed.parquet"],
        ["study", "merge", "packed.parquet", "results/imported"],
    ):
        code = main(command)
        assert code == (2 if command[1] == "merge" else 0), command
    assert "4 of its runs are in the study already" in capsys.readouterr().err
    packed = load_runs(Path("packed.parquet")).runs
    assert [run.final_score for run in packed] == [run.final_score for run in find_runs()]
    verdicts = pandas.read_csv("results/imported/analysis/consistency.csv")
    assert len(verdicts) == 1


def test_imported_run_is_never_trained(tmp_path, call):
    path = tmp_path / "table.csv"
    make_table().to_csv(path, index=False)
    assert call(path) == 0
    run = find_runs()[0]
    state = assess_run(run.path)
    assert (state.state, state.reason) == ("completed", "imported")
    with pytest.raises(SpecError, match=r"imported from .* never trained again"):
        _check_same_run(None, read_run(run.path))
    assert main(["run", "reproduce", str(run.path)]) == 2


def test_existing_runs_are_not_overwritten_and_copies_refused(tmp_path, call, capsys):
    write_cleanrl_run(tmp_path / "runs", 1)
    shutil.copytree(tmp_path / "runs", tmp_path / "again")
    assert call(tmp_path / "runs", tmp_path / "again") == 1
    assert "same returns as" in capsys.readouterr().out
    (run,) = find_runs()
    before = (run.path / "run.json").read_bytes()
    assert call(tmp_path / "runs") == 1
    assert "already exists" in capsys.readouterr().out
    assert (run.path / "run.json").read_bytes() == before
    assert not list(Path("results").glob(".import*"))


def test_no_run_is_imported_through_a_link(tmp_path, call, capsys):
    write_cleanrl_run(tmp_path / "runs", 1)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    Path("results").mkdir()
    Path("results/imported").symlink_to(elsewhere)
    for words in ([], ["--dry-run"]):
        assert call(tmp_path / "runs", *words) == 1
        assert "results/imported is a link, and searches" in capsys.readouterr().out
    assert list(elsewhere.iterdir()) == []
    Path("results/imported").unlink()
    Path("results").rename("real")
    Path("results").symlink_to("real")  # a folder that the user names
    assert call(tmp_path / "runs") == 0


def test_files_of_other_kinds_in_a_folder_are_named(tmp_path, call, capsys):
    write_cleanrl_run(tmp_path / "runs", 1)
    (folder,) = {path.parent for path in (tmp_path / "runs").rglob("*tfevents*")}
    for name in ("progress.csv", "more.csv", "notes.txt"):
        (folder / name).write_text("a")
    assert call(tmp_path / "runs", "--dry-run") == 0
    said = f"Not imported: 2 files beside others of another kind, such as {folder / 'more.csv'}"
    assert f"{said}. --format reads one kind: table.\n" in capsys.readouterr().out
    for words in ([folder / "more.csv"], [tmp_path / "runs", "--format", "tensorboard"]):
        call(*words, "--dry-run")
        assert "Not imported" not in capsys.readouterr().out


def test_a_dry_run_writes_nothing(tmp_path, call, capsys):
    write_cleanrl_run(tmp_path / "runs", 1)
    assert call(tmp_path / "runs", "--dry-run") == 0
    assert "Would import 1 run" in capsys.readouterr().out
    assert not Path("results").exists()


def test_file_and_options_must_agree(tmp_path, call, capsys):
    write_cleanrl_run(tmp_path / "runs", 1)
    assert call(tmp_path / "runs", "--env", "Hopper-v4") == 1
    assert "the option says env=Hopper-v4 and the file env=CartPole-v1" in capsys.readouterr().out


def test_zoo_files_state_seed_and_length(tmp_path, call, sb3_logs):
    shutil.copytree(sb3_logs / "eval", tmp_path / "logs")
    inner = tmp_path / "logs" / "ppo" / "CartPole-v1_4" / "CartPole-v1"
    inner.mkdir()
    (inner / "args.yml").write_text(ZOO_ARGS)
    assert call(tmp_path / "logs", "--frameworks", "sb3") == 0
    (run,) = find_runs()
    cell = run.id.cell
    assert (cell.algorithm, cell.env, cell.hps, run.id.seed) == ("ppo", "CartPole-v1", "rl_zoo3", 7)


def test_zoo_files_execute_no_code(tmp_path, call, sb3_logs):
    shutil.copytree(sb3_logs / "eval", tmp_path / "logs")
    inner = tmp_path / "logs" / "ppo" / "CartPole-v1_4" / "CartPole-v1"
    inner.mkdir()
    target = tmp_path / "made"
    (inner / "args.yml").write_text(f"!!python/object/apply:os.mkdir ['{target}']\n")
    assert call(tmp_path / "logs") == 0
    assert not target.exists()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("evaluations.npz", b"PK", "no archive"),
        ("monitor.csv", b"r,l,t\n1,2,3\n", "not a monitor.csv"),
        ("monitor.csv", b'#{"env_id": "A"}\nr,l,t\n1.0,20,0.5\n2.0,', "line 4 is cut"),
        ("monitor.csv", b'#{"env_id": "A"}\nr,l,t\n1.0,0,0.5\n', "after 0 steps"),
        ("events.out.tfevents.1", b"", "is empty"),
        ("events.out.tfevents.1", b"not an event file at all", "is not a TensorBoard event file"),
        ("run-1.wandb", b"nothing", "not a file of W&B"),
        ("table.csv", b"a,b\n1,2\n", "has no column step; it has a, b"),
        ("table.csv", b"step,return\n1,x\n", "'x', no number"),
        ("table.csv", b"step;return\n1;2,5\n", "'2,5', no number like 12.5"),
        ("table.csv", b"step,return\n1,\n2,1\n", "the return at step 1 is missing"),
        ("table.csv", b"step;score\n1;1\n", "it has step, score"),
        ("table.csv.gz", b"step,return\n1,2\n", "no gzip file"),
        ("table.csv", b"step,return\n1.5,1\n", "1.5 is not a number of steps"),
        ("table.csv", b"step,return\n", "no rows"),
        ("table.parquet", b"PAR1", "the size of its footer is wrong"),
    ],
)
def test_damaged_files_are_refused_with_a_reason(tmp_path, call, capsys, name, content, reason):
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / name).write_bytes(content)
    assert call(folder) == 1
    assert reason in capsys.readouterr().out
    assert not Path("results").exists()


@pytest.mark.parametrize(
    "read", [lambda p: read_event_files([p]), lambda p: read_wandb_file(p, "x")]
)
@given(position=strategies.integers(0, 400), byte=strategies.integers(0, 255))
@settings(max_examples=50, deadline=None)
def test_damaged_files_raise_the_documented_errors_only(tmp_path_factory, read, position, byte):
    folder = tmp_path_factory.mktemp("changed")
    raw = bytearray(WANDB_FILE.read_bytes())
    raw[position % len(raw)] = byte
    (folder / "run.wandb").write_bytes(raw)
    try:
        read(folder / "run.wandb")
    except UnusableError as error:
        assert str(error)


def test_truncated_event_file_is_read_up_to_the_last_complete_event(tmp_path):
    write_cleanrl_run(tmp_path, 1)
    (file,) = tmp_path.rglob("*tfevents*")
    whole = read_event_files([file]).values["charts/episodic_return"]
    file.write_bytes(file.read_bytes()[:-10])
    assert read_event_files([file]).values["charts/episodic_return"] == whole[:-1]
    raw = bytearray(file.read_bytes())
    raw[-60] ^= 1
    file.write_bytes(raw)
    with pytest.raises(UnusableError, match="checksum of event"):
        read_event_files([file])


@pytest.mark.parametrize(
    ("pattern", "name", "found"),
    [
        ("{algorithm}/{env}_{seed}", "logs/ppo/My_Task-v0_12", ("ppo", "My_Task-v0", 12)),
        ("{algorithm}-{env}-{seed}", "td3-Hopper-3", ("td3", "Hopper", 3)),
    ],
)
def test_patterns(pattern, name, found):
    fields = PathPattern(pattern).match_path(Path(name))
    assert (fields["algorithm"], fields["env"], fields["seed"]) == found


def test_ambiguous_and_unmatched_patterns_are_refused():
    with pytest.raises(UnusableError, match="in two ways: algorithm could be ppo_lstm or ppo"):
        PathPattern("{algorithm}_{env}_{seed}").match_path(Path("ppo_lstm_Pong_1"))
    with pytest.raises(UnusableError, match="does not fit"):
        PathPattern("{algorithm}_{seed}").match_path(Path("td3_seed0"))
    below = Path("logs/td3_seed0/train")  # td3_seed0/train.monitor.csv
    with pytest.raises(UnusableError, match=r"\{algorithm\}_seed\{seed\}/\{_\} fits$"):
        PathPattern("{algorithm}_seed{seed}").match_path(below)
    with pytest.raises(SpecError, match=r"pattern '{algo}' must name some of"):
        PathPattern("{algo}")


def test_foreign_folders_are_named_with_the_command_that_imports_them(sb3_logs, call, capsys):
    assert main(["compare", str(sb3_logs / "eval")]) == 2
    assert f"parallax import {sb3_logs}" in capsys.readouterr().err


def test_reading_needs_no_framework():
    code = (
        "import sys, parallax.harness.cli.import_runs;"
        "print([m for m in ('torch', 'tensorboard', 'wandb', 'stable_baselines3') "
        "if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_settings_that_cannot_be_used_are_named(tmp_path, call, capsys):
    path = tmp_path / "table.csv"
    make_table().to_csv(path, index=False)
    for words, reason in (
        (("--set", "alignment=fully"), "give one of defaults, common, exact, lockstep"),
        (("--set", "n_env=4"), "Did you mean n_envs"),
        (("--columns", "steps=t"), "ROLE is one of"),
        (("--algorithms", "ppo", "--set", "hyperparameters.gama=1"), "Did you mean gamma"),
        (("--set", "device="), "give NAME=VALUE"),
        (("--set", "n_envs=2", "--set", "n_envs=3"), "n_envs occurs twice"),
        (("--set", "hyperparameters.a=2", "--set", "hyperparameters.a=3"), "occurs twice"),
        (("--columns", "step=step,step=return"), "step occurs twice"),
        (("--results-dir", str(path)), f"--results-dir {path} is no folder"),
        (("--results-dir", str(path), "--dry-run"), f"--results-dir {path} is no folder"),
        (("--study", "a/b"), "must be a valid folder name"),
        (("--study", "e\u0301"), "looks like another name"),
        (("--study", "a "), "must not begin or end with a space"),
    ):
        code = call(path, *words)
        output = capsys.readouterr()
        assert code in (1, 2) and reason in output.err + output.out, words
    assert not Path("results").exists()


@pytest.mark.parametrize("value", ["gamma=5", "epochs=[1", "gamma=nan", "learning_rate=null"])
def test_values_are_checked_without_a_known_recipe_too(tmp_path, call, capsys, value):
    (tmp_path / "a.csv").write_text("step,return\n10,500\n20,500\n")
    words = ["--algorithms", "ppo", "--hps", "theirs", "--set", f"hyperparameters.{value}"]
    assert call(tmp_path / "a.csv", *words) == 1
    assert f"hyperparameters.{value.partition('=')[0]}=" in capsys.readouterr().out


def test_solved_runs_without_seeds_are_not_copies(tmp_path, call):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("step,return\n10,500\n20,500\n")
    assert call(tmp_path / "a.csv", tmp_path / "b.csv") == 0
    assert [run.final_score for run in find_runs()] == [500, 500]


def test_length_is_ignored_for_an_unknown_task(tmp_path, call):
    (tmp_path / "a.csv").write_text("step,return\n10,1\n20,2\n")
    (tmp_path / "b.csv").write_text("step,return\n10,3\n20,4\n30,5\n")
    assert call(tmp_path / "a.csv", tmp_path / "b.csv") == 0
    assert call(tmp_path / "a.csv", tmp_path / "b.csv", "--env", "A-v0", "--study", "two") == 1


def write_two_runs(path: Path, returns: str) -> None:
    """Write a table of two runs of four evaluations; the returns of the second one are given."""
    rows = [f"0,{step},1.0" for step in range(1, 5)]
    rows += [f"1,{step},{value}" for step, value in enumerate(returns.split(","), 1)]
    path.write_text("\n".join(["seed,step,return", *rows]) + "\n")


@pytest.mark.parametrize("returns", ["1.0,nan", "NaN,NaN,NaN,NaN", "1.0,2.0,-inf,3.0", "1,1e99"])
def test_a_run_that_diverged_is_imported_as_failed(tmp_path, call, capsys, returns):
    write_two_runs(tmp_path / "t.csv", returns)
    assert call(tmp_path / "t.csv", "--returns", "evaluation") == 0
    assert "Imported 2 runs; 0 refused" in (out := capsys.readouterr().out)
    assert "failed training" in out and "non-finite returns" in out
    readings = {read_run(path.parent).place.seed: path.parent for path in Path().rglob("run.json")}
    good, bad = (read_run(readings[seed], with_evaluations=True) for seed in (0, 1))
    assert good.complete and not bad.complete and not bad.damaged
    assert bad.reason.startswith("failed: non-finite returns")
    assert bad.record.final_score is None and bad.place.variant == good.place.variant


def test_divergence_after_the_requested_steps_is_ignored(tmp_path, call, capsys):
    write_two_runs(tmp_path / "t.csv", "1.0,2.0,3.0,nan")
    assert call(tmp_path / "t.csv", "--steps", "3") == 0
    assert "failed training" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("empty", "imported", "failed"), [("refuse", 1, 0), ("skip", 2, 0), ("fail", 2, 1)]
)
def test_empty_return_needs_an_option(tmp_path, call, capsys, empty, imported, failed):
    write_two_runs(tmp_path / "t.csv", "1.0,2.0,,3.0")
    code = call(tmp_path / "t.csv", "--empty-returns", empty)
    out = capsys.readouterr().out
    assert code == (empty == "refuse") and f"Imported {imported} run" in out
    assert out.count("failed training") == failed
    assert ("the return at step 3 is missing" in out) == (empty == "refuse")


def test_episodes_of_a_training_that_diverged_are_imported_as_failed(tmp_path, call, capsys):
    lines = ['#{"env_id": "A"}', "r,l,t", *(f"{n},100,{n}" for n in range(40)), "nan,100,41"]
    (tmp_path / "monitor.csv").write_text("\n".join(lines) + "\n")
    assert call(tmp_path / "monitor.csv", "--every", "1000", "--steps", "20000") == 0
    assert "failed training" in capsys.readouterr().out


def test_monitors_that_started_at_different_times_are_merged_by_the_clock(tmp_path, call):
    folder = tmp_path / "monitors"
    folder.mkdir()
    # The second environment starts 10 s later; its first episode ends after all of the first's.
    for number, start, value in ((0, 100.0, 1.0), (1, 110.0, 9.0)):
        rows = [f"{value},50,{end}" for end in (1.0, 2.0, 3.0)]
        header = f'#{{"t_start": {start}, "env_id": "A"}}'
        (folder / f"{number}.monitor.csv").write_text("\n".join([header, "r,l,t", *rows]) + "\n")
    assert call(folder, "--every", 150) == 0
    (run,) = find_runs()
    assert run.results[:, 0].tolist() == [1.0, 9.0]
