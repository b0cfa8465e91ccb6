"""Stored answers, outcomes and verdicts from other users: read field by field, or refused."""

import json
import os
import random
from pathlib import Path

import fuzz_inputs
import pytest

from parallax.harness.cli.main import main
from parallax.harness.contract.data_files import load_json, load_json_lines
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.baseline import load_report, parse_report
from parallax.harness.probes.results import report_from_dict, report_to_dict
from parallax.harness.versions.history import load_history

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def stored():
    content = json.loads((DOCS / "differences.json").read_text())
    with_axis = [result for result in content["results"][2:] if result["axis"]][:2]
    return content | {"results": [*content["results"][:2], *with_axis]}


def change_at(content, value, *keys):
    *path, last = keys
    copy = json.loads(json.dumps(content))
    place = copy
    for key in path:
        place = place[key]
    place[last] = value
    return copy


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ("x", ("results",)),
        ({}, ("results", 0, "answers", "sb3")),
        ("nobody", ("results", 0, "answers", "sb3")),
        ("sb3", ("results", 0, "answers", "sb3")),
        (5, ("results", 0, "question")),
        ("other", ("results", 0, "algorithm")),
        ([["a"]], ("results", 0, "groups")),
        ([1.0, 2.0], ("results", 0, "answers", "sb3", "value")),
        ([[1.0], 2.0], ("results", 0, "answers", "sb3", "value")),
        ("other", ("results", 0, "answers", "sb3", "comparison", "kind")),
        (10**400, ("results", 0, "answers", "sb3", "expected")),
        ([1.0], ("results", 2, "axis", "values")),
        ({"theirs": []}, ("versions",)),
        ([1], ("versions", "sb3")),
        (None, ("seconds",)),
        (1e300, ("seconds",)),
        (-1, ("seconds",)),
    ],
)
def test_fields_of_other_types_are_refused(stored, tmp_path, capsys, value, keys):
    file = tmp_path / "answers.json"
    file.write_text(json.dumps(change_at(stored, value, *keys)))
    assert main(["probe", "--answers", str(file)]) == 2
    err = capsys.readouterr().err
    assert "holds no stored answers" in err and "Traceback" not in err


@pytest.mark.parametrize(
    ("numbers", "message"),
    [([], "sb3's answer has no numbers"), ([1.0] * 3, "of another version. Measure it again")],
)
def test_claims_about_numbers_that_are_not_there_are_refused(tmp_path, capsys, numbers, message):
    content = json.loads((DOCS / "differences.json").read_text())
    result = next(r for r in content["results"] if r["probe"] == "ppo.initial_weights")
    result["answers"]["sb3"] |= {"value": numbers, "expected": numbers, "along": None}
    result["axis"] = None
    file, page = tmp_path / "answers.json", tmp_path / "claims.md"
    file.write_text(json.dumps(content))
    assert main(["probe", "--answers", str(file), "--claims", str(page)]) == 2
    err = capsys.readouterr().err
    assert message in err and "ppo.initial_weights" in err and not page.exists()


@pytest.mark.parametrize(
    ("framework", "change", "message"),
    [
        ("skrl", {"comparison": {"kind": "agrees", "size": 0.0}}, "numbers, which differ"),
        ("sb3", {"comparison": {"kind": "factor", "size": 2.0}}, "numbers, which agree"),
        ("skrl", {"comparison": {"kind": "factor", "size": 7.0}}, "factor of 7 contradicts its"),
        ("skrl", {"comparison": {"kind": "count", "size": 1e300}}, "of 1e\\+300 contradicts its"),
        ("sb3", {}, "a group has answers that differ: "),
    ],
)
def test_answers_that_contradict_their_numbers_are_refused(framework, change, message):
    content = json.loads((DOCS / "differences.json").read_text())
    result = next(r for r in content["results"] if r["probe"] == "ppo.initial_weights")
    result["answers"][framework] |= change
    if not change:
        result["groups"] = [sorted(result["answers"])]
    with pytest.raises(ValueError, match=f"ppo.initial_weights: .*{message}"):
        parse_report(content)


def test_altered_answers_are_used_unchanged_or_refused(stored, tmp_path):
    rng = random.Random(0)
    for _ in range(30):
        content = json.loads(json.dumps(stored))
        fuzz_inputs.alter_value(content, rng)
        file = tmp_path / "answers.json"
        file.write_text(json.dumps(content, default=str))
        try:
            report = load_report(file)
        except SpecError as error:
            assert len(str(error)) < 600
        else:
            assert report_from_dict(report_to_dict(report)).versions == report.versions


@pytest.mark.parametrize(
    "change", [{"outcome": "other"}, {"changed": "x"}, {"seconds": "x"}, {"bug": ["x"]}]
)
def test_altered_outcomes_of_bugs_are_refused(tmp_path, capsys, change):
    content = json.loads((DOCS / "released-bugs.json").read_text())
    file = tmp_path / "bugs.json"
    file.write_text(json.dumps([content[0] | change]))
    assert main(["bugs", "--answers", str(file)]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "[" * 100_000,
        '{"mutant": 1, "outcome": "found", "by": "x", "seconds": 1}',
        '{"mutant": "a/b/1", "outcome": "found", "by": null, "seconds": 1}',
        '{"mutant": "a/b/1", "outcome": "found", "by": "x", "seconds": "x"}',
        '{"mutant": "a/b/1", "outcome": "found", "by": "x", "seconds": -1}',
        '{"mutant": "a/b/1", "outcome": "found", "by": "", "seconds": 1}',
        "\udcff",
    ],
)
def test_altered_verdicts_on_mutants_are_refused(tmp_path, capsys, line):
    file = tmp_path / "m.jsonl"
    file.write_bytes(line.encode("utf-8", "surrogateescape"))
    assert main(["mutation", "detectors", "--mutants", str(file)]) == 2
    assert "holds no mutants" in capsys.readouterr().err


def test_files_that_never_end_are_not_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for load in (load_json, load_json_lines):
        with pytest.raises(SpecError, match=r"not a regular file.*holds no things"):
            load(tmp_path / "pipe", dict, "things")
    with pytest.raises(SpecError, match="No such file"):
        load_json(tmp_path / "absent", dict, "things")
    assert load_json_lines(tmp_path / "absent", dict, "things") == []


def test_texts_of_stored_answers_are_escaped(stored, tmp_path, capsys):
    hostile = "<img src=x>[c](http://evil.example)\x1b[31m"
    changed = json.loads(json.dumps(stored))
    changed["versions"] = {name: [hostile] for name in stored["versions"]}
    for result in changed["results"]:
        result |= {"question": hostile, "citation": hostile, "quantity": hostile}
    file, page = tmp_path / "answers.json", tmp_path / "page.md"
    file.write_text(json.dumps(changed))
    words = ["probe", "--answers", str(file), "--baseline", str(DOCS / "differences.json")]
    assert main([*words, "--all", "--markdown", str(page)]) in (0, 1)
    printed, written = capsys.readouterr().out, page.read_text()
    assert "\x1b" not in printed + written and r"\x1b[31m" in printed
    assert "&lt;img src=x" in written and "<img" not in written and "](http://evil" not in written


def test_answers_that_would_count_twice_are_refused(stored, tmp_path, capsys):
    file = tmp_path / "answers.json"
    for changed in (
        stored | {"results": [*stored["results"], stored["results"][0]]},
        change_at(stored, [["sb3"], ["sb3"]], "results", 0, "groups"),
    ):
        file.write_text(json.dumps(changed))
        assert main(["probe", "--answers", str(file)]) == 2
        assert "occurs twice" in capsys.readouterr().err


def test_outcomes_of_bugs_count_once_and_absent_ones_are_counted(tmp_path, capsys):
    content = json.loads((DOCS / "released-bugs.json").read_text())
    own = [item for item in content if item["framework"] == "sb3"]
    file = tmp_path / "bugs.json"
    words = ["bugs", "--frameworks", "sb3", "--answers", str(file)]
    file.write_text(json.dumps([*own, own[0] | {"outcome": "missed", "changed": []}]))
    assert main(words) == 2
    assert "occurs twice: keep one of them" in capsys.readouterr().err
    file.write_text(json.dumps(own[1:]))
    assert main(words) == 1
    assert f"\n1 of {len(own)} cases have no outcome." in capsys.readouterr().out


@pytest.mark.parametrize("count", ["0", "1001", "99999999999999999999"])
def test_probes_have_a_largest_number_of_seeds(count, capsys):
    assert main(["probe", "--seeds", count]) == 2
    assert "must be from 1 to 1000" in capsys.readouterr().err


def test_implementations_are_alike_if_their_numbers_are():
    content = json.loads((DOCS / "differences.json").read_text())
    result = next(r for r in content["results"] if r["probe"] == "ppo.greedy_action")
    before = [set(group) for group in result["groups"]]
    result["groups"] = [["tianshou", "torchrl"], ["sb3"]]
    found = next(r for r in parse_report(content).results if r.probe == "ppo.greedy_action")
    assert [set(group) for group in found.groups] == before and {"tianshou"} in before


def test_texts_of_stored_answers_print_no_lines_of_their_own(stored, tmp_path, capsys):
    name, file = "sb3\n0 answers changed", tmp_path / "answers.json"
    changed = json.loads(json.dumps(stored).replace('"sb3"', json.dumps(name)))
    file.write_text(json.dumps(changed))
    words = ["probe", "--answers", str(file), "--baseline", str(DOCS / "differences.json")]
    assert main([*words, "--all"]) in (0, 1)
    assert "\n0 answers changed" not in capsys.readouterr().out


@pytest.mark.parametrize("seconds", [-1, 1e300])
def test_a_history_has_possible_costs(tmp_path, seconds):
    content = json.loads((DOCS / "history" / "cleanrl.json").read_text())
    next(iter(content["releases"].values()))["cpu_seconds"] = seconds
    (tmp_path / "h.json").write_text(json.dumps(content))
    with pytest.raises(SpecError, match=r"holds no history .*cpu_seconds"):
        load_history("cleanrl", tmp_path / "h.json")
