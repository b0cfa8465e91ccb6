"""A lock whose owner cannot be checked is removed by hand, naming its owner."""

import os

import pytest
import recorded

from parallax.harness.cli.main import main
from parallax.harness.record.lock import LockLostError, read_lock_owner, unlock_folder
from parallax.slurm.states import assess_run


@pytest.fixture
def folder(tmp_path):
    folder = recorded.complete_run(tmp_path)
    recorded.edit(folder, status="running")
    return folder


def test_lock_of_another_machine_is_removed_and_its_owner_named(folder, tmp_path, capsys):
    run_lock = recorded.lock_run(folder, machine="elsewhere", host="node7", pid=4711, job="88_3")
    (folder / "progress.json").write_text('{"step": 5, "time": 1e300, "period": 1e300}')
    assert assess_run(folder, None).state == "running"  # cannot be determined on this machine
    assert main(["run", "unlock", str(tmp_path), "--yes"]) == 0
    said = capsys.readouterr().out
    assert "process 4711 on node7 in job 88_3" in said and "no heartbeat" in said
    assert read_lock_owner(folder) is None and assess_run(folder, None).state == "lost"
    with pytest.raises(LockLostError):
        run_lock.write("result", lambda file: None)


def test_lock_of_a_live_local_process_is_not_removed(folder, capsys):
    with recorded.lock_run(folder) as run_lock:
        assert main(["run", "unlock", str(folder), "--yes"]) == 1
        assert f"kill {os.getpid()}" in capsys.readouterr().out
        run_lock.write("result", lambda file: None)


def test_unlock_without_a_terminal_requires_yes(folder, capsys):
    recorded.lock_run(folder, machine="elsewhere")
    assert main(["run", "unlock", str(folder)]) == 2
    assert "--yes" in capsys.readouterr().err and read_lock_owner(folder) is not None
    assert main(["run", "unlock", str(folder / "nowhere")]) == 2


def test_control_characters_of_lock_owners_are_escaped(folder, tmp_path, capsys):
    recorded.lock_run(folder, machine="elsewhere", host="\x1b[2Jnode", pid=1)
    (tmp_path / "link").symlink_to(folder)
    assert main(["run", "unlock", str(tmp_path), "--yes"]) == 0
    said = capsys.readouterr()
    assert "\x1b" not in said.out and "\\x1b[2Jnode" in said.out
    assert "Links are not followed" in said.err


def test_unanswered_question_counts_as_no(folder, monkeypatch):
    def end(question):
        raise EOFError

    recorded.lock_run(folder, machine="elsewhere")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", end)
    assert main(["run", "unlock", str(folder)]) == 1 and read_lock_owner(folder) is not None


def test_lock_that_cannot_be_removed_does_not_stop_others(folder, tmp_path, capsys, monkeypatch):
    other = recorded.complete_run(tmp_path, seed=1)
    for one in (folder, other):
        recorded.lock_run(one, machine="elsewhere")

    def unlock_one(place, owner):
        if place == folder:
            raise PermissionError(13, "Permission denied")
        unlock_folder(place, owner)

    monkeypatch.setattr("parallax.harness.cli.run.unlock_folder", unlock_one)
    assert main(["run", "unlock", str(tmp_path), "--yes"]) == 1
    said = capsys.readouterr()
    assert "cannot be released (Permission denied)" in said.err and "1 locks" in said.out
    assert read_lock_owner(folder) is not None and read_lock_owner(other) is None
