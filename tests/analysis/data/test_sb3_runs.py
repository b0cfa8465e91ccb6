import shutil

import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_runs

ARGS = """!!python/object/apply:collections.OrderedDict
- - - algo
    - ppo
  - - n_timesteps
    - {steps}
  - - seed
    - 7
"""


def write_zoo(root, name="Hopper-v4_1", algorithm="ppo", end=100, shift=0.0, bad=None):
    folder = root / algorithm / name
    folder.mkdir(parents=True)
    timesteps = np.arange(10, end + 1, 10)
    returns = np.add.outer(timesteps, [0.0, 1.0]) + shift
    if bad is not None:
        returns[1, 0] = bad
    lengths = np.full(returns.shape, 5)
    np.savez(folder / "evaluations.npz", timesteps=timesteps, results=returns, ep_lengths=lengths)
    return folder


def write_args(folder, steps):
    inner = folder / "Hopper-v4"
    inner.mkdir()
    (inner / "args.yml").write_text(ARGS.format(steps=steps))


def reasons(root):
    return {item.path.name: item.reason for item in load_runs(root).excluded}


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
def test_a_zoo_tree_is_read_from_any_folder_above_or_at_a_run(tmp_path, depth):
    folder = write_zoo(tmp_path / "logs")
    root = [folder, *folder.parents][depth]
    (run,) = load_runs(root).runs
    cell = run.id.cell
    assert (cell.study, cell.algorithm, cell.env, cell.hps) == (
        *("logs", "ppo", "Hopper-v4", "unknown"),
    )
    assert (run.id.framework, run.id.seed, run.final_score) == ("sb3", 1, 100.5)


def test_environments_with_underscores_keep_their_names(tmp_path):
    write_zoo(tmp_path, "My_Task-v0_12")
    write_zoo(tmp_path, "Plain", shift=3)
    assert [(run.id.cell.env, run.id.seed) for run in load_runs(tmp_path).runs] == [
        ("My_Task-v0", 12),
        ("Plain", None),
    ]


def test_what_the_zoo_asked_for_makes_a_run_too_short(tmp_path):
    write_args(write_zoo(tmp_path, "Hopper-v4_1"), 105)
    write_args(write_zoo(tmp_path, "Hopper-v4_2", shift=1), 110)
    (run,) = load_runs(tmp_path).runs
    assert (run.id.seed, run.spec, run.id.cell.hps) == (
        *(1, {"n_timesteps": 105, "zoo_seed": 7}, "rl_zoo3"),
    )
    assert reasons(tmp_path) == {
        "Hopper-v4_2": "too short: last evaluation at step 100 of 110",
    }


def test_without_settings_the_longest_run_of_a_task_tells_which_are_too_short(tmp_path):
    write_zoo(tmp_path, "Hopper-v4_1")
    write_zoo(tmp_path, "Hopper-v4_2", shift=1, end=90)
    write_zoo(tmp_path, "Ant-v4_1", shift=2, end=90)
    assert load_runs(tmp_path).used == 2
    assert reasons(tmp_path) == {
        "Hopper-v4_2": "too short: last evaluation at step 90; another run reached 100",
    }


def test_copies_damaged_and_non_finite_runs_are_listed(tmp_path):
    shutil.copytree(write_zoo(tmp_path, "Hopper-v4_1"), tmp_path / "ppo" / "Hopper-v4_2")
    write_zoo(tmp_path, "Hopper-v4_3", bad=np.nan)
    (write_zoo(tmp_path, "Hopper-v4_4") / "evaluations.npz").write_bytes(b"PK")
    loaded = load_runs(tmp_path)
    assert (loaded.requested, loaded.completed, loaded.used) == (4, 2, 1)
    found = reasons(tmp_path)
    assert found["Hopper-v4_2"] == "same evaluations as Hopper-v4_1, which is used"
    assert found["Hopper-v4_3"] == "non-finite returns: 1 of 20, first at step 20"
    assert found["Hopper-v4_4"].startswith("corrupted evaluations.npz")


def test_nothing_in_a_zoo_file_is_executed(tmp_path):
    folder = write_zoo(tmp_path)
    write_args(folder, 1)
    target = tmp_path / "made"
    (folder / "Hopper-v4" / "args.yml").write_text(f"!!python/object/apply:os.mkdir ['{target}']\n")
    assert load_runs(tmp_path).used == 1
    assert not target.exists()


@pytest.mark.parametrize(
    "text",
    ["x: !!bool foo", "x: !!timestamp foo", 'x: !!int ""', "x: !!float foo", "&a [*a]", "[" * 9999],
)
def test_zoo_file_that_is_no_yaml_is_passed_over(tmp_path, text):
    folder = write_zoo(tmp_path)
    write_args(folder, 1)
    (folder / "Hopper-v4" / "config.yml").write_text(text)
    assert load_runs(tmp_path).used == 1


def test_foreign_runs_and_ours_stand_side_by_side(results, make_run):
    make_run(env="Hopper-v4", seed=1)
    write_zoo(results, "Hopper-v4_1")
    groups = judge_runs(load_runs(results), VerdictOptions()).groups
    assert [(group.cell.hps, group.n) for group in groups] == [("original", 1), ("unknown", 1)]
