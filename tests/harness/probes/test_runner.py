import types

from parallax.harness.probes import catalogue, runner, worker
from parallax.harness.probes.experiments import ExperimentCache
from parallax.harness.probes.probe import Probe, ProbeMeasurement

PROBES = catalogue.select_probes([], ["sac.critic_loss_factor", "sac.target_entropy"])


def test_killed_process_gives_failed_answers():
    reported = []
    targets = runner.ProbeTargets((worker.ProbeTarget("dead", "no.such.module:Adapter"),))
    report = runner.run_probes(PROBES, targets, reported.append)
    answers = [result.answers["dead"] for result in report.results]
    assert len(answers) == 2
    assert all(answer.failed for answer in answers)
    assert "ModuleNotFoundError" in answers[0].unmeasured
    assert reported == []


def test_implementations_of_one_interpreter_are_forked_and_isolated():
    targets = runner.ProbeTargets(
        (worker.ProbeTarget("one", "no.such:Adapter"), worker.ProbeTarget("two", "json:NoAdapter"))
    )
    report = runner.run_probes(PROBES, targets, print)
    assert len(report.results) == len(PROBES) > 0
    for result in report.results:
        assert "ModuleNotFoundError" in result.answers["one"].unmeasured
        assert "AttributeError" in result.answers["two"].unmeasured


def test_cached_trainings_of_other_algorithms_are_dropped():
    cache = ExperimentCache(types.SimpleNamespace(name="x"))
    for name, algorithm in (("a", "ppo"), ("b", "sac")):
        experiment = types.SimpleNamespace(algorithm=algorithm)
        cache._runs[name] = types.SimpleNamespace(experiment=experiment)
    cache.drop_other_algorithms("sac")
    assert list(cache._runs) == ["b"]


def test_an_error_in_a_probe_is_a_failed_answer():
    def broken(cache: ExperimentCache) -> ProbeMeasurement:
        raise ZeroDivisionError("at the third step")

    adapter = types.SimpleNamespace(name="x", supports=lambda algorithm: True)
    result = worker.answer_probe(
        Probe("sac.x", "?", "c", "q", broken, str), ExperimentCache(adapter)
    )
    assert result.answers["x"].failed
    said = result.answers["x"].unmeasured
    assert said.startswith("ZeroDivisionError: at the third step (test_runner.py, line ")
    assert result.groups == ()
