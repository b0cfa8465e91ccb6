import json

import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import RunId, StudyCell


def only_reason(results):
    loaded = load_runs(results)
    assert loaded.runs == ()
    assert len(loaded.excluded) == 1
    return loaded.excluded[0].reason


def change(folder, **entries):
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))


def save(folder, **arrays):
    np.savez(folder / "evaluations.npz", **arrays)


@pytest.mark.parametrize("status", ["running", "interrupted", "pending"])
def test_status_other_than_completed_is_the_reason(results, make_run, status):
    make_run(status=status)
    assert only_reason(results) == status


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        ("ValueError: too hot\nmore", "failed: ValueError: too hot"),
        (
            'Traceback (most recent call last):\n  File "x"\nOSError: full\n',
            "failed: OSError: full",
        ),
        (None, "failed: no reason recorded"),
        ("\n \n", "failed: no reason recorded"),
        ("\x1b[31mred", "failed: [31mred"),
    ],
)
def test_failure_is_summarized_by_its_informative_line(results, make_run, failure, reason):
    make_run(status="failed", failure=failure)
    assert only_reason(results) == reason


def test_missing_evaluations_are_the_reason(results, make_run):
    (make_run() / "evaluations.npz").unlink()
    assert only_reason(results) == "missing evaluations.npz"


def test_evaluations_must_end_at_the_last_scheduled_step(results, make_run):
    folder = make_run(timesteps=[2000, 18_000], scheduled=20_480)
    assert only_reason(results) == "too short: last evaluation at step 18,000 of 20,480"
    spec = json.loads((folder / "run.json").read_text())["spec"]
    change(folder, steps={"scheduled": 17_000}, spec={**spec, "steps": 17_000})
    assert only_reason(results) == "too long: last evaluation at step 18,000 of 17,000"
    change(folder, steps={"scheduled": 18_000}, spec={**spec, "steps": 18_001})
    reason = "steps.scheduled=18,000 is less than spec.steps=18,001"
    assert only_reason(results) == reason


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_single_non_finite_return_excludes_a_run(results, make_run, bad):
    make_run(timesteps=[10, 20], scheduled=20, returns=[[1, bad], [2, 3]])
    assert only_reason(results) == "non-finite returns: 1 of 4, first at step 10"


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": 2}', b'{"schema": 1}', b"[" * 100_000],
)
def test_damaged_run_json_is_a_reason_with_the_identity_of_the_path(results, make_run, content):
    folder = make_run(seed=3)
    (folder / "run.json").write_bytes(content)
    assert "run.json" in only_reason(results)
    assert load_runs(results).excluded[0].id == RunId(
        StudyCell("demo", "Hopper-v5", "ppo", "original", "steps=20000"), "sb3", 3
    )


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"status": "done"}, "status: invalid enum value 'done'"),
        ({"status": None}, "status: expected `str`, got `null`"),
        ({"steps": {"scheduled": None}}, "steps.scheduled: expected `int`, got `null`"),
        ({"steps": []}, "steps: expected `object`, got `array`"),
        ({"spec": {}}, "spec: object missing required field `study`"),
        ({"spec": "text"}, "spec: expected `object`, got `str`"),
    ],
)
def test_a_run_json_without_what_is_needed_names_the_field(results, make_run, entries, words):
    change(make_run(), **entries)
    assert words in only_reason(results)


def test_a_seed_folder_without_run_json_is_listed(results):
    folder = results / "demo/Hopper-v5/ppo/original/sb3/steps=20000/seed=1"
    folder.mkdir(parents=True)
    assert only_reason(results) == "missing run.json"


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04broken"])
def test_a_damaged_archive_is_a_reason(results, make_run, content):
    (make_run() / "evaluations.npz").write_bytes(content)
    assert only_reason(results).startswith("corrupted evaluations.npz")


def test_a_truncated_archive_is_a_reason(results, make_run):
    path = make_run() / "evaluations.npz"
    whole = path.read_bytes()
    for size in range(0, len(whole), 97):
        path.write_bytes(whole[:size])
        assert only_reason(results).startswith("corrupted evaluations.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"timesteps": [20], "results": [[1.0]]},
        {"timesteps": [10, 20], "results": [[1.0]], "ep_lengths": [[1]]},
        {"timesteps": [20], "results": [1.0], "ep_lengths": [1]},
        {"timesteps": [20], "results": [[]], "ep_lengths": np.zeros((1, 0), int)},
        {"timesteps": np.zeros(0, int), "results": np.zeros((0, 3)), "ep_lengths": [[1]]},
        {"timesteps": [20, 20], "results": [[1.0]] * 2, "ep_lengths": [[1]] * 2},
        {"timesteps": [20], "results": [["a"]], "ep_lengths": [[1]]},
        {"timesteps": [20], "results": np.array([[None]]), "ep_lengths": [[1]]},
    ],
)
def test_an_archive_with_other_contents_is_a_reason(results, make_run, arrays):
    save(make_run(scheduled=20), **arrays)
    assert only_reason(results).startswith("corrupted evaluations.npz")


def test_a_bare_array_in_place_of_the_archive_is_a_reason(results, make_run):
    with (make_run() / "evaluations.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    assert only_reason(results).startswith("corrupted evaluations.npz")
