"""Verdicts of detectors on faults, from findings, returns and probe answers."""

import json
import re
import shutil

import numpy as np
import pytest
import recorded

from parallax.harness.cli.main import main
from parallax.harness.contract.fields import SpecError
from parallax.harness.detection import detectors as gather
from parallax.harness.detection.detectors import (
    PROBES,
    DetectorVerdict,
    SettingRuns,
    compute_paired_p,
    count_false_positives,
    judge_findings,
    judge_returns,
)

SEEDS = range(10)


def finding(name, step):
    return {"id": f"{name}-id", "name": name, "first_step": step}


def test_findings_absent_in_healthy_trainings_count():
    healthy = [[finding("a", 10)], [finding("b", 5)]]
    assert not judge_findings("x/y/001", [[finding("a", 1), finding("b", 1)]], healthy).found
    said = judge_findings("x/y/001", [[finding("c", 70), finding("d", 30)]], healthy)
    assert (said.found, said.by, said.step) == (True, "d", 30)
    assert judge_findings("x/y/001", [], healthy) is None


def test_returns_are_tested_in_pairs_of_the_first_seeds():
    plain = {seed: float(seed) for seed in SEEDS}
    worse = {seed: seed - 5.0 + 0.1 * (seed % 3) for seed in SEEDS}
    found = judge_returns("x/y/001", worse, plain, 10)
    assert found.found and found.trainings == 10
    assert not judge_returns("x/y/001", plain, plain, 10).found
    assert judge_returns("x/y/001", {0: 1.0}, plain, 5) is None
    # By hand: differences 1, 2, 3 have mean 2 and error 1/sqrt(3), so t = 3.4641 on 2 degrees.
    p = compute_paired_p(np.array([1.0, 2.0, 3.0]), np.zeros(3))
    assert p == pytest.approx(0.0742, abs=1e-4)
    assert (
        compute_paired_p(np.ones(3), np.zeros(3)) == 0
        and compute_paired_p(np.ones(3), np.ones(3)) == 1
    )


def test_faulty_trainings_are_compared_with_healthy_ones():
    plain = {seed: 100.0 + seed for seed in SEEDS}
    said = {seed: (finding("a", 3),) for seed in SEEDS}
    quiet = dict.fromkeys(SEEDS, ())
    found = {
        ("sb3", "dqn", "none"): SettingRuns(plain, quiet),
        ("sb3", "dqn", "mutant-007"): SettingRuns({s: r - s for s, r in plain.items()}, said),
        ("sb3", "ppo", "mutant-007"): SettingRuns(plain, quiet),  # without a healthy counterpart
    }
    verdicts = gather.judge_trainings(found)
    assert {verdict.mutant for verdict in verdicts} == {"sb3/dqn/007"}
    assert [v.detector for v in verdicts] == ["diagnosis", "returns, n=5", "returns, n=10"]
    costs = [verdict.seconds for verdict in gather.judge_trainings(found, 3.0)]
    assert costs == [3.0, 15.0, 30.0]
    assert gather.describe_false_positives({}) == ""
    assert gather.describe_false_positives(found).endswith(": 0 of 10 of sb3's dqn.")


def test_healthy_training_with_a_unique_finding_is_a_false_positive():
    a, b = finding("a", 10), finding("b", 5)
    assert count_false_positives([[a], [a], [a, b], []]) == 1
    assert count_false_positives([[a], []]) == 1 and count_false_positives([[], []]) == 0


def test_tables_list_bugs_found_by_each_detector(tmp_path, capsys):
    lines = [
        {"mutant": "sb3/dqn/001", "outcome": "found", "by": "dqn.counts", "seconds": 2.0},
        {"mutant": "sb3/dqn/002", "outcome": "missed", "by": "", "seconds": 9.0},
        {"mutant": "sb3/dqn/003", "outcome": "equivalent", "by": "", "seconds": 1.0},
    ]
    mutants, verdicts_file, tables = (tmp_path / name for name in ("m.jsonl", "c.jsonl", "t.md"))
    mutants.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["mutation", "detectors", "--mutants", str(mutants), "--output", str(tables)]) == 0
    assert "2 mutants that train" in tables.read_text()
    assert "| probes | 2 | 1 (50%) | 0 | 5.5 |" in capsys.readouterr().out
    gather.append_verdict(
        verdicts_file, DetectorVerdict("sb3/dqn/001", "conformance", False, "", 0, 4.0)
    )
    verdicts = gather.read_probe_verdicts(mutants) + gather.read_verdicts(verdicts_file)
    assert gather.find_common_mutants(verdicts) == ["sb3/dqn/001"]
    (cells,) = gather.make_mutant_rows(verdicts, ["sb3/dqn/001"])
    assert cells[:4] == ["`sb3/dqn/001`", "dqn.counts", "-", "not tested"]
    assert {verdict.detector for verdict in verdicts} == {PROBES, "conformance"}


def test_texts_of_verdicts_are_escaped(tmp_path, capsys):
    text = "\x1b[31m<b>x</b>|[y](http://e)\n| z"
    mutants, checks, page = (tmp_path / name for name in ("m.jsonl", "c.jsonl", "t.md"))
    line = {"mutant": text, "outcome": "found", "by": text, "seconds": 2.0}
    mutants.write_text(json.dumps(line) + "\n")
    gather.append_verdict(checks, DetectorVerdict(text, "conformance", True, text, 0, 4.0))
    words = ["--mutants", str(mutants), "--conformance", str(checks), "--max-mutants", "0"]
    assert main(["mutation", "detectors", *words, "--output", str(page)]) == 0
    for shown in (capsys.readouterr().out, page.read_text()):
        assert "\x1b" not in shown and "\n| z" not in shown
        assert len(re.findall(r"(?<!\\)\|", shown.splitlines()[-1])) == 7
    assert "<b>" not in page.read_text().replace("`", "").partition("conformance |")[0]
    assert r"&lt;b>x&lt;/b>\|[y\](http:/\/e)" in page.read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"mutant": "x"}'])
def test_file_of_another_format_is_refused(text, tmp_path, capsys):
    file = tmp_path / "m.jsonl"
    file.write_text(text)
    assert main(["mutation", "detectors", "--mutants", str(file)]) == 2
    assert "benchmarks/mutants.py" in capsys.readouterr().err


def make_mutants(results, **changes):
    for number in range(2):
        for name in ("none", "mutant-001"):
            recorded.complete_run(results, seed=number, intervention=name, **changes)


def test_runs_of_several_settings_are_refused(tmp_path, capsys):
    (tmp_path / "m.jsonl").touch()
    words = ["mutation", "detectors", "--mutants", str(tmp_path / "m.jsonl")]
    words += [str(tmp_path / "results")]
    assert main(words) == 2
    assert "no complete run with a mutant" in capsys.readouterr().err
    make_mutants(tmp_path / "results")
    assert main(words) == 0
    make_mutants(tmp_path / "results", env="Pendulum-v1")
    assert main(words) == 2
    assert "differ in more than mutant and seed" in capsys.readouterr().err
    shutil.rmtree(next((tmp_path / "results").rglob("Pendulum-v1")))
    shutil.copytree(tmp_path / "results" / "test", tmp_path / "results" / "again")
    assert main(words) == 2
    assert "or repeat a run" in capsys.readouterr().err


def test_runs_that_are_not_used_are_counted_by_reason(tmp_path, capsys):
    make_mutants(tmp_path / "results")
    next((tmp_path / "results").rglob("run.json")).write_text("{")
    mutants = tmp_path / "m.jsonl"
    mutants.touch()
    words = ["mutation", "detectors", "--mutants", str(mutants), str(tmp_path / "results")]
    assert main(words) == 0
    assert "Not used: 1 runs: corrupted run.json" in capsys.readouterr().out


def test_different_versions_of_mutants_and_others_are_named(tmp_path, capsys):
    mutants = tmp_path / "m.jsonl"
    mutants.touch()
    words = ["mutation", "detectors", "--mutants", str(mutants), str(tmp_path / "results")]
    for name in ("none", "mutant-001"):
        folder = recorded.complete_run(tmp_path / "results", intervention=name)
        recorded.edit(folder, provenance={"packages": {"torch": name}})
    assert main(words) == 0
    text = "Compared runs have different versions of torch mutant-001 and none."
    assert text in capsys.readouterr().out
    recorded.edit(folder, provenance={"packages": {"torch": "none"}})
    assert main(words) == 0 and "different versions" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "the verdict of probes on sb3/dqn/001 occurs twice"),
        ({"outcome": "missed"}, "the verdict of probes on sb3/dqn/001 occurs twice"),
        ({"outcome": "Found"}, "Invalid enum value 'Found'"),
    ],
)
def test_verdicts_that_would_count_twice_are_refused(tmp_path, capsys, change, words):
    line = {"mutant": "sb3/dqn/001", "outcome": "found", "by": "x", "seconds": 2.0}
    file = tmp_path / "m.jsonl"
    file.write_text("\n".join(map(json.dumps, [line, line | change])))
    assert main(["mutation", "detectors", "--mutants", str(file)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        *({"detector": "other"}, {"step": -1}, {"trainings": -1}),
        *({"seconds": -9.9}, {"seconds": 1e300}, {"by": ""}),
    ],
)
def test_a_verdict_has_a_known_detector_and_no_count_below_zero(tmp_path, change):
    line = {"mutant": "a/b/1", "detector": "conformance", "found": True, "by": "x", "step": 0}
    (tmp_path / "v.jsonl").write_text(json.dumps(line | {"seconds": 1.0} | change))
    with pytest.raises(SpecError, match="holds no verdicts"):
        gather.read_verdicts(tmp_path / "v.jsonl")


def test_a_file_of_conformance_verdicts_has_no_other_detector(tmp_path):
    file = tmp_path / "v.jsonl"
    gather.append_verdict(file, DetectorVerdict("a/b/1", "returns, n=5", True, "p=0.01", 0, 1.0, 5))
    with pytest.raises(SpecError, match=r"a/b/1: detector=returns, n=5 must be conformance"):
        gather.read_verdicts(file)


@pytest.mark.parametrize("option", ["--max-mutants", "--training-seconds"])
def test_options_without_their_study_or_file_are_refused(option, tmp_path, capsys):
    (tmp_path / "m.jsonl").touch()
    words = ["mutation", "detectors", "--mutants", str(tmp_path / "m.jsonl")]
    assert main([*words, option, "5"]) == 2
    assert f"{option} is about" in capsys.readouterr().err
