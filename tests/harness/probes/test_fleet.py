import sys
import types

import pytest

from parallax.harness.probes import catalogue as registry
from parallax.harness.probes import runner as fleet
from parallax.harness.probes import worker
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import Probe, ProbeMeasurement

PROBES = registry.select_probes([], ["sac.critic_loss_factor", "sac.target_entropy"])


def test_a_process_that_dies_leaves_failed_answers():
    told = []
    report = fleet.run_probes(
        [fleet.ProbeTarget("dead", "no.such.module:Adapter")], PROBES, told.append
    )
    answers = [result.answers["dead"] for result in report.results]
    assert len(answers) == 2
    assert all(answer.failed for answer in answers)
    assert "ModuleNotFoundError" in answers[0].unmeasured
    assert told == []


def test_implementations_of_one_interpreter_are_forked_and_die_alone():
    parties = [
        fleet.ProbeTarget("one", "no.such:Adapter"),
        fleet.ProbeTarget("two", "json:NoAdapter"),
    ]
    report = fleet.run_probes(parties, PROBES, print)
    for result in report.results:
        assert "ModuleNotFoundError" in result.answers["one"].unmeasured
        assert "AttributeError" in result.answers["two"].unmeasured


def test_trainings_of_other_algorithms_are_given_up():
    lab = ExperimentCache(types.SimpleNamespace(name="x"))
    for name, algorithm in (("a", "ppo"), ("b", "sac")):
        experiment = types.SimpleNamespace(algorithm=algorithm)
        lab._runs[name] = types.SimpleNamespace(experiment=experiment)
    lab.drop_other_algorithms("sac")
    assert list(lab._runs) == ["b"]


def test_an_error_in_a_probe_is_a_failed_answer():
    def broken(lab: ExperimentCache) -> ProbeMeasurement:
        raise ZeroDivisionError("at the third step")

    adapter = types.SimpleNamespace(name="x", supports=lambda algorithm: True)
    result = worker.answer_probe(
        Probe("sac.x", "?", "c", "q", broken, str), ExperimentCache(adapter)
    )
    assert result.answers["x"].failed
    said = result.answers["x"].unmeasured
    assert said.startswith("ZeroDivisionError: at the third step (test_fleet.py, line ")
    assert result.groups == ()


@pytest.mark.parametrize("kind", ["terminal", "pipe"])
def test_progress_counts_answers(kind):
    import io

    from parallax.harness.cli.probe import ProbeProgress

    out = io.StringIO()
    out.isatty = lambda: kind == "terminal"
    with ProbeProgress(2, out) as progress:
        progress.tell("a")
        progress.tell("b")
    assert "2/2 b" in out.getvalue()
    assert sys.stderr is not out
