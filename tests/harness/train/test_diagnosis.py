"""Reports of a diagnosis over several attempts at a run, and what it knows of a training."""

import dataclasses
import json
import types

import numpy as np
import pytest
import support

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.record.reading import DiagnosisReading
from parallax.harness.train import diagnosis
from parallax.harness.train.prepare import prepare_run


def make_finding(name, first, last, count, **more):
    texts = dict.fromkeys(("name", "seen", "causes", "remedies", "may_be_wrong"), "")
    steps = {"first_step": first, "last_step": last, "count": count}
    return {"id": name, "level": "note", **texts, **steps, **more}


def test_findings_of_attempts_are_added_and_keep_their_first_step():
    earlier = [make_finding("a", 10, 20, 2, seen="x"), make_finding("b", 5, 90, 1)]
    now = [make_finding("c", 50, 50, 1), make_finding("a", 40, 45, 3, seen="y")]
    now.append(make_finding("b", 60, 70, 4))
    before = json.dumps([earlier, now])
    assert diagnosis.merge_findings(earlier, now) == [
        make_finding("a", 10, 45, 5, seen="x"),
        make_finding("b", 5, 90, 5),
        make_finding("c", 50, 50, 1),
    ]
    assert json.dumps([earlier, now]) == before


def test_findings_of_repeated_steps_count_once():
    found = [make_finding("a", 30, 40, 2), make_finding("b", 5, 6, 1), make_finding("d", 1, 1, 1)]
    undone = [make_finding("a", 10, 90, 7), make_finding("c", 3, 3, 1), make_finding("b", 9, 9, 9)]
    assert diagnosis.merge_undone_findings(found, undone) == [
        make_finding("a", 10, 40, 2),
        make_finding("b", 5, 6, 1),
        make_finding("d", 1, 1, 1),
        make_finding("c", 3, 3, 1),
    ]


@pytest.mark.parametrize(
    ("points", "thinned"),
    [
        (4, [1, 3, 5, 7]),
        (3, [1, 4, 7]),
        (7, [1, 2, 3, 4, 5, 6, 7]),
        (6, [1, 3, 5, 7]),
        (99, [1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_curve_of_a_resumed_signal_is_complete_and_thinned(monkeypatch, points, thinned):
    monkeypatch.setattr(diagnosis, "CURVE_POINTS", points)
    before = {"count": 50, "curve": [1, 2, 3, 4, 5], "last": 5}
    now = {"count": 20, "curve": [6, 7], "last": 7}
    merged = diagnosis.merge_signal(before, now)
    assert merged == {"count": 70, "curve": thinned, "last": 7}
    assert diagnosis.merge_signal(before, None) == before


class Engine:
    """An engine with a fixed report, which notes what is done with it."""

    def __init__(self, **report):
        self.calls, self.given = [], report

    def report(self):
        return json.loads(json.dumps(self.given, default=float))

    def close(self):
        self.calls.append("close")

    def end_after_failure(self, failure):
        self.calls.append(failure)

    def report_problem(self, text):
        self.calls.append(text)

    def subscribe(self, events):
        self.calls.append(events)


def make_diagnosis(*earlier):
    engine = Engine(
        findings=[make_finding("a", 40, 45, 3)],
        n_evaluations=2,
        signals={"loss": {"count": 1, "curve": [[9, 0.5]]}, "new": {"count": 1, "curve": [[9, 1]]}},
    )
    return diagnosis.RunDiagnosis(engine, "strict", DiagnosisReading(None, tuple(earlier)))


def test_a_report_has_the_findings_of_earlier_attempts():
    made = make_diagnosis(make_finding("a", 10, 20, 2), make_finding("b", 1, 1, 1))
    saved = []
    made.save_report(types.SimpleNamespace(save_diagnosis=saved.append))
    assert saved == [
        {
            "mode": "strict",
            "findings": [make_finding("a", 10, 45, 5), make_finding("b", 1, 1, 1)],
            "n_evaluations": 2,
            "signals": made.engine.given["signals"],
        }
    ]
    assert made.state() == saved[0]


def test_report_resumes_from_that_of_a_checkpoint():
    made = make_diagnosis(make_finding("a", 10, 20, 9), make_finding("b", 1, 1, 1))
    made.load_state(
        {
            "findings": [make_finding("a", 30, 31, 2)],
            "n_evaluations": 5,
            "signals": {
                "loss": {"count": 4, "curve": [[3, 0.1]]},
                "old": {"count": 2, "curve": []},
            },
        }
    )
    assert made.state() == {
        "mode": "strict",
        "findings": [make_finding("a", 10, 45, 5), make_finding("b", 1, 1, 1)],
        "n_evaluations": 7,
        "signals": {
            "loss": {"count": 5, "curve": [[3, 0.1], [9, 0.5]]},
            "new": {"count": 1, "curve": [[9, 1]]},
            "old": {"count": 2, "curve": []},
        },
    }


@pytest.mark.parametrize(
    "change",
    [
        *(
            {"findings": [{"id": "a"}]},
            {"findings": 5},
            {"n_evaluations": "a"},
            {"signals": {"x": 5}},
        ),
        *({"signals": {"loss": {"count": 1}}}, {"signals": {"loss": {"count": 1, "curve": [5]}}}),
    ],
)
def test_invalid_checkpoint_report_is_refused_before_training(change):
    made = make_diagnosis()
    report = {"findings": [], "n_evaluations": 1, "signals": {}}
    made.load_state(report)
    with pytest.raises(ValueError, match=r"Expected|lacks|missing"):
        made.load_state(report | change)
    assert made.state()["n_evaluations"] == 3
    made.load_state({"findings": [], "looks": 4, "signals": {}})  # of an earlier version
    assert made.state()["n_evaluations"] == 6


def test_a_state_is_plain_data():
    made = make_diagnosis()
    made.engine.given["n_evaluations"] = np.float32(0.5)
    assert type(made.state()["n_evaluations"]) is float


@pytest.mark.parametrize(
    ("failure", "calls"), [("", ["close"]), ("it broke", ["close", "it broke"])]
)
def test_the_last_report_is_written_after_the_last_check(failure, calls):
    made = make_diagnosis()
    folder = types.SimpleNamespace(save_diagnosis=lambda report: made.engine.calls.append("saved"))
    diagnosis.finish_diagnosis(made, folder, failure)
    assert made.engine.calls == [*calls, "saved"]
    diagnosis.finish_diagnosis(None, None, failure)


def start(monkeypatch, tmp_path, begins, **settings):
    prepared = prepare_run(support.spec(), load_adapter("sb3"))
    spec = dataclasses.replace(prepared.spec, diagnosis=settings)
    prepared = dataclasses.replace(prepared, spec=spec)
    engine, options, removed, parts = Engine(), {}, [], {}

    def make(facts, checks, thresholds, **given):
        options.update(given, facts=facts, thresholds=thresholds)
        return engine

    monkeypatch.setattr(diagnosis, "DiagnosisEngine", make)
    finding = make_finding("a", 10, 20, 9)
    reading = DiagnosisReading(tmp_path, (finding,))
    monkeypatch.setattr(diagnosis, "read_diagnosis", lambda folder: reading)
    folder = types.SimpleNamespace(
        path=tmp_path,
        remove_diagnosis=lambda: removed.append(1),
        checkpoint_extras=types.SimpleNamespace(add=parts.__setitem__),
    )
    monitor = types.SimpleNamespace(get_normalizer="normalizer", events="events")
    made = diagnosis.start_diagnosis(prepared, monitor, folder, begins)
    return made, engine, options, removed, parts


def test_resumed_diagnosis_states_its_step_and_keeps_findings(monkeypatch, tmp_path):
    limits = {"thresholds": {"dormant-units": 0.25}, "period": 7, "periods": {"dormant-units": 3}}
    made, engine, options, removed, parts = start(
        monkeypatch, tmp_path, 300, mode="strict", **limits
    )
    words = (
        "the diagnosis restarts at step 300, where the run resumed: checks that compare with the "
    )
    words += "start of a run are skipped; 1 earlier findings remain."
    assert engine.calls == [words, "events"] and removed == [] and parts == {"diagnosis": made}
    known = ("strict", "period", "periods", "start_step", "reported_ids", "thresholds")
    assert [options[name] for name in known] == [
        *(True, 7, {"dormant-units": 3}, 300, {"a"}, {"dormant-units": 0.25})
    ]
    assert options["normalizer"] == "normalizer" and options["names"]["gamma"] == "gamma"
    saved = []
    monkeypatch.setattr(made, "save_report", saved.append)
    engine.changed()
    assert len(saved) == 1


@pytest.mark.parametrize(("begins", "removals"), [(0, 1), (1, 0)])
def test_no_diagnosis_leaves_no_report_of_a_run_that_begins(
    monkeypatch, tmp_path, begins, removals
):
    made, _, options, removed, _ = start(monkeypatch, tmp_path, begins, mode="off")
    assert made is None and options == {} and len(removed) == removals


def test_training_facts_come_from_the_prepared_run():
    spec = support.spec(algorithm="dqn", n_envs=4, steps=20_000, eval_every=20_000)
    prepared = prepare_run(spec, load_adapter("sb3"))
    facts = diagnosis.collect_facts(prepared)
    assert facts.hyperparameters.items() >= vars(prepared.hyperparameters).items()
    assert dataclasses.replace(facts, hyperparameters={}) == diagnosis.TrainingFacts(
        algorithm="dqn",
        steps=20_000,
        gamma=0.99,
        has_targets=True,
        tau=1.0,
        target_interval=10_000,
        learning_starts=100,
        exploration=(1.0, 0.05),
        choices=2,
        reward_threshold=475.0,
        time_limit=500,
        n_envs=4,
    )
    still = {"exploration_initial": 0.05}
    prepared = prepare_run(
        support.spec(algorithm="dqn", hyperparameters=still, alignment="exact"), load_adapter("sb3")
    )
    assert diagnosis.collect_facts(prepared).constant_exploration


@pytest.mark.parametrize(
    ("algorithm", "has_targets", "interval", "starts"),
    [("ppo", False, None, 0), ("td3", True, 1, 100)],
)
def test_facts_of_an_algorithm_have_only_its_fields(algorithm, has_targets, interval, starts):
    spec = support.spec(algorithm=algorithm, wrappers="normalized")
    facts = diagnosis.collect_facts(prepare_run(spec, load_adapter("sb3")))
    assert (facts.has_targets, facts.target_interval) == (has_targets, interval)
    assert (facts.learning_starts, facts.exploration, facts.normalized) == (starts, None, True)
    assert (facts.choices, facts.action_low, facts.action_high) == (0, (-3.0,), (3.0,))
