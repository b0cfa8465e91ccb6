import sys
import types

import pytest

from harness.probes import fleet, registry, worker
from harness.probes.lab import Lab
from harness.probes.probe import Measurement, Probe

PROBES = registry.select([], ["sac.critic_loss_factor", "sac.target_entropy"])


def test_a_process_that_dies_leaves_failed_answers():
    told = []
    report = fleet.ask([fleet.Party("dead", "no.such.module:Adapter")], PROBES, told.append)
    answers = [result.answers["dead"] for result in report.results]
    assert len(answers) == 2
    assert all(answer.failed for answer in answers)
    assert "ModuleNotFoundError" in answers[0].unmeasured
    assert told == []


def test_implementations_of_one_interpreter_are_forked_and_die_alone():
    parties = [fleet.Party("one", "no.such:Adapter"), fleet.Party("two", "json:NoAdapter")]
    report = fleet.ask(parties, PROBES, print)
    for result in report.results:
        assert "ModuleNotFoundError" in result.answers["one"].unmeasured
        assert "AttributeError" in result.answers["two"].unmeasured


def test_trainings_of_other_algorithms_are_given_up():
    lab = Lab(types.SimpleNamespace(name="x"))
    for name, algorithm in (("a", "ppo"), ("b", "sac")):
        experiment = types.SimpleNamespace(algorithm=algorithm)
        lab._runs[name] = types.SimpleNamespace(experiment=experiment)
    lab.forget_others("sac")
    assert list(lab._runs) == ["b"]


def test_an_error_in_a_probe_is_a_failed_answer():
    def broken(lab: Lab) -> Measurement:
        raise ZeroDivisionError("at the third step")

    adapter = types.SimpleNamespace(name="x", supports=lambda algorithm: True)
    result = worker.ask(Probe("sac.x", "?", "c", "q", broken, str), Lab(adapter))
    assert result.answers["x"].failed
    said = result.answers["x"].unmeasured
    assert said.startswith("ZeroDivisionError: at the third step (test_fleet.py, line ")
    assert result.groups == ()


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_progress_counts_answers(kind):
    import io

    from harness.probes.command import Progress

    out = io.StringIO()
    out.isatty = lambda: kind == "terminal"
    with Progress(2, out) as progress:
        progress.tell("a")
        progress.tell("b")
    assert "2/2 b" in out.getvalue()
    assert sys.stderr is not out
