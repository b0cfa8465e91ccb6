"""A lease that nobody can judge is ended by hand, with a word on whose it is."""

import os

import pytest
import recorded

from harness.free import main
from harness.record.lease import LeaseLost, read_holder
from slurm.states import assess


@pytest.fixture
def folder(tmp_path):
    folder = recorded.complete_run(tmp_path)
    recorded.edit(folder, status="running")
    return folder


def test_lease_of_another_machine_is_ended_and_its_owner_named(folder, tmp_path, capsys):
    lease = recorded.hold(folder, machine="elsewhere", host="node7", pid=4711, job="88_3")
    (folder / "progress.json").write_text('{"step": 5, "time": 1e300, "period": 1e300}')
    assert assess(folder, None).state == "running"  # nobody can tell from here
    assert main([str(tmp_path), "--yes"]) == 0
    said = capsys.readouterr().out
    assert "process 4711 on node7 in job 88_3" in said and "never heard of" in said
    assert read_holder(folder) is None and assess(folder, None).state == "lost"
    with pytest.raises(LeaseLost):
        lease.write("result", lambda file: None)


def test_living_process_of_this_machine_keeps_its_lease(folder, capsys):
    with recorded.hold(folder) as lease:
        assert main([str(folder), "--yes"]) == 1
        assert f"kill {os.getpid()}" in capsys.readouterr().out
        lease.write("result", lambda file: None)


def test_nothing_is_done_where_nobody_can_be_asked(folder, capsys):
    recorded.hold(folder, machine="elsewhere")
    assert main([str(folder)]) == 2
    assert "--yes" in capsys.readouterr().err and read_holder(folder) is not None
    assert main([str(folder / "nowhere")]) == 2
