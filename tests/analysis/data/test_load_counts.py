"""Every folder is counted once, whatever is wrong with it, and gaps between frameworks show."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parallax.analysis.data.load import load_runs
from parallax.harness.cli.main import main
from parallax.harness.record.completeness import check_complete
from parallax.harness.record.files import UnusableError
from parallax.harness.record.npz_files import RunEvaluations

DAMAGES = {
    "none": None,
    "pending": "pending",
    "failed": "failed: boom",
    "short": "too short",
    "infinite": "non-finite returns",
    "no record": "missing run.json",
    "no evaluations": "missing evaluations.npz",
    "cut": "corrupted evaluations.npz",
    "copy": "same run as",
}


def write_damaged(writer, results, seed, damage):
    if damage == "pending":
        return writer(results, seed=seed, status="pending")
    if damage == "failed":
        return writer(results, seed=seed, status="failed", failure="boom")
    if damage == "short":
        return writer(results, seed=seed, timesteps=[2000, 4000])
    if damage == "infinite":
        returns = [[1.0, np.nan], [1.0, 2.0]]
        return writer(results, seed=seed, timesteps=[2000, 20_480], returns=returns)
    folder = writer(results, seed=seed)
    if damage == "no record":
        (folder / "run.json").unlink()
    if damage == "no evaluations":
        (folder / "evaluations.npz").unlink()
    if damage == "cut":
        path = folder / "evaluations.npz"
        path.write_bytes(path.read_bytes()[:50])
    if damage == "copy":
        shutil.copytree(folder, folder.with_name(f"seed={seed + 100}"))
    return folder


@given(damages=st.lists(st.sampled_from(sorted(DAMAGES)), min_size=1, max_size=6))
@settings(max_examples=25, deadline=None)
def test_requested_is_used_plus_listed_and_each_reason_is_the_right_one(
    writer, tmp_path_factory, damages
):
    results = tmp_path_factory.mktemp("study") / "results"
    for seed, damage in enumerate(damages):
        write_damaged(writer, results, seed, damage)
    loaded = load_runs(results)
    copies = damages.count("copy")
    assert loaded.requested == len(damages) + copies
    assert loaded.used == damages.count("none") + copies
    assert loaded.completed == loaded.used + copies
    assert loaded.used + len(loaded.excluded) == loaded.requested
    reasons = {item.path.name: item.reason for item in loaded.excluded}
    for seed, damage in enumerate(damages):
        name = f"seed={seed + 100}" if damage == "copy" else f"seed={seed}"
        if DAMAGES[damage]:
            assert reasons[name].startswith(DAMAGES[damage])
        else:
            assert name not in reasons


@given(
    steps=st.lists(st.integers(1, 10**7), min_size=1, max_size=20, unique=True),
    end=st.integers(1, 10**7),
)
def test_a_run_is_complete_only_if_it_ends_at_the_scheduled_step(steps, end):
    timesteps = np.sort(np.array(steps))
    results = np.zeros((len(steps), 2))
    evaluations = RunEvaluations(timesteps, results, results.astype(int))
    if timesteps[-1] == end:
        check_complete(evaluations, end)
    else:
        with pytest.raises(UnusableError, match="too short" if timesteps[-1] < end else "too long"):
            check_complete(evaluations, end)


def test_seeds_missing_in_one_framework_are_named(results, make_run, capsys):
    for seed in (0, 1, 2):
        make_run(framework="sb3", seed=seed)
    make_run(framework="cleanrl", seed=1, status="failed")
    make_run(framework="torchrl", seed=0, env="Walker2d-v5")
    found = {(item.cell.env, item.framework): item for item in load_runs(results).missing_seeds}
    assert found["Hopper-v5", "cleanrl"].seeds == (0, 2)
    assert not found["Hopper-v5", "cleanrl"].whole
    assert found["Hopper-v5", "torchrl"].seeds == (0, 1, 2)
    assert found["Hopper-v5", "torchrl"].whole
    assert found["Walker2d-v5", "sb3"].seeds == (0,)
    assert str(found["Walker2d-v5", "sb3"]).endswith(": seed 0")
    assert len(found) == 4
    main(["compare", str(results)])
    output = capsys.readouterr().out
    assert "No folder, though another framework has the seed" in output
    assert "seeds 0, 2" in output
    assert "seeds 0, 2" in (results / "analysis" / "comparison.md").read_text()


def test_study_with_equal_seeds_has_no_missing_ones(results, make_run, capsys):
    for framework in ("sb3", "cleanrl"):
        for seed in (0, 1):
            make_run(framework=framework, seed=seed)
    assert load_runs(results).missing_seeds == ()
    main(["compare", str(results)])
    assert "No folder" not in capsys.readouterr().out


def test_seeds_evaluated_at_other_steps_keep_their_own_last_evaluation(results, make_run):
    make_run(seed=0, timesteps=[10, 20], returns=[[1, 1], [5, 7]], scheduled=20)
    make_run(seed=1, timesteps=[7, 14, 21], returns=[[1], [2], [8]], scheduled=21)
    scores = sorted(run.final_score for run in load_runs(results).runs)
    assert scores == [6, 8]


def test_additional_fields_of_run_json_are_ignored(results, make_run):
    path = make_run() / "run.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "later": {"field": [1, 2]}}))
    assert load_runs(results).used == 1
