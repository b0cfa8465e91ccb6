import json

import pytest

from parallax.harness.cli.main import main
from parallax.harness.probes.results import report_from_dict

ONE = ["--frameworks", "cleanrl", "--probe", "sac.critic_loss_factor"]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "answers.json"
    assert main(["probe", *ONE, "--json", str(path)]) == 0
    return path


def test_json_has_answers_and_versions(stored):
    report = report_from_dict(json.loads(stored.read_text()))
    assert report.versions["cleanrl"][0] == "cleanrl 1.2.0"
    (answer,) = (result.answers["cleanrl"] for result in report.results)
    assert (answer.comparison.kind, round(answer.comparison.size, 3)) == ("factor", 2.0)


def test_json_has_the_fields_that_the_manual_names(stored):
    content = json.loads(stored.read_text())
    assert set(content) == {"schema", "versions", "not_probed", "seconds", "results"}
    (result,) = content["results"]
    named = {"probe", "algorithm", "question", "citation", "quantity", "axis", "groups", "answers"}
    assert set(result) == named
    (answer,) = result["answers"].values()
    named = {"value", "expected", "comparison", "meaning", "unmeasured", "failed", "along"}
    assert set(answer) == named | {"origin", "arises"}
    assert set(answer["comparison"]) == {"kind", "size"}


@pytest.fixture
def stored_report(stored, monkeypatch):
    """Answers are those that were stored: what remains is what the command makes of them."""
    report = report_from_dict(json.loads(stored.read_text()))
    monkeypatch.setattr("parallax.harness.probes.runner.run_probes", lambda *args: report)


def other(stored, tmp_path):
    content = json.loads(stored.read_text())
    answer = content["results"][0]["answers"]["cleanrl"]
    answer["value"] = [number / 2 for number in answer["value"]]
    answer["comparison"] = {"kind": "agrees", "size": 0.0}
    content["versions"]["cleanrl"] = ["cleanrl 0.1"]
    path = tmp_path / "other.json"
    path.write_text(json.dumps(content))
    return path


def test_same_answers_pass(stored, stored_report):
    assert main(["probe", *ONE, "--baseline", str(stored)]) == 0


def test_changed_answer_is_described_and_exits_with_1(stored, stored_report, tmp_path, capsys):
    assert main(["probe", *ONE, "--baseline", str(other(stored, tmp_path))]) == 1
    out = capsys.readouterr().out
    assert "before: as in the paper; now: pull on the critic" in out
    assert "stored with cleanrl 0.1" in out


def test_a_baseline_can_be_updated_and_made(stored, stored_report, tmp_path):
    for path in (other(stored, tmp_path), tmp_path / "new.json"):
        assert main(["probe", *ONE, "--baseline", str(path), "--update-baseline"]) == 0
        assert main(["probe", *ONE, "--baseline", str(path)]) == 0


def test_baseline_update_preserves_unrequested_answers(stored, stored_report, tmp_path):
    content = json.loads(stored.read_text())
    elsewhere = json.loads(json.dumps(content["results"][0])) | {"probe": "sac.target_entropy"}
    content["results"].append(elsewhere)
    path = tmp_path / "more.json"
    path.write_text(json.dumps(content))
    assert main(["probe", *ONE, "--baseline", str(path), "--update-baseline"]) == 0
    names = [result["probe"] for result in json.loads(path.read_text())["results"]]
    assert names == ["sac.critic_loss_factor", "sac.target_entropy"]


def test_failed_probe_exits_with_3(stored, monkeypatch, capsys):
    content = json.loads(stored.read_text())
    content["results"][0]["answers"]["cleanrl"] |= {"failed": True, "unmeasured": "no luck"}
    monkeypatch.setattr(
        "parallax.harness.probes.runner.run_probes", lambda *args: report_from_dict(content)
    )
    assert main(["probe", *ONE, "--baseline", str(stored)]) == 3
    assert "failed to run: no luck" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--algorithms", "sacc"], "Did you mean sac?"),
        (["--frameworks", "sb33"], "Did you mean sb3?"),
        (["--probe", "sac.std_mop"], "Did you mean sac.std_map?"),
        (["--baseline", "nowhere.json"], "holds no stored answers"),
        (["--json", "nowhere/x.json"], "the folder nowhere does not exist"),
        (["--alignment", "exact", "--hps", "mine"], "hps=mine is not known"),
        (["--bogus"], "unrecognized arguments: --bogus. parallax probe --help lists the options."),
        (["--update-baseline"], "needs --baseline FILE"),
        (["--drift", "sb3"], "add --python PATH"),
        (["--answers", "x.json", "--python", "/bin/true"], "drop --python"),
        (["--answers", "x.json", "--drift", "sb3"], "drop --drift"),
        (["--answers", "x.json", "--hps", "mine"], "drop --hps"),
        (["--answers", "x.json", "--alignment", "exact"], "drop --alignment"),
        (["--answers", "x.json", "--fresh"], "drop --fresh"),
        (["--answers", "x.json", "--json", "./x.json"], "--answers is that file too"),
        (["--list", "--json", "x.json"], "drop --json"),
        (["--json", "/dev/null"], "is no regular file"),
        (["--frameworks", "sb3", "--hps", "mine"], "no effect at --alignment defaults"),
        (["--alignment", "upstream", "--hps", "mine"], "no effect at --alignment upstream"),
        (["--answers", "nowhere.json"], "holds no stored answers"),
        (["--python", "/bin/true"], "--python runs one framework"),
        (["--frameworks", "sb3", "--python", "/no/python"], "cannot be started"),
    ],
)
def test_invalid_input_is_one_message_and_exits_with_2(arguments, words, capsys):
    assert main(["probe", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) == 1


def test_stored_answers_can_be_shown_in_part(stored, capsys):
    assert (
        main(
            ["probe", "--answers", str(stored), "--probe", "critic_loss", "--frameworks", "cleanrl"]
        )
        == 0
    )
    assert "Probes: 1, answers: 1, in" in capsys.readouterr().out
    assert main(["probe", "--answers", str(stored), "--probe", "std_map"]) == 2
    assert "the file has no such answers" in capsys.readouterr().err
    assert main(["probe", "--answers", str(stored), "--frameworks", "cleanrl,cleanlr"]) == 2
    assert "--frameworks cleanlr is not known. Did you mean cleanrl?" in capsys.readouterr().err


def test_list_names_every_probe(capsys):
    from parallax.harness.probes.catalogue import PROBES

    assert main(["probe", "--list"]) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert listed == [probe.name for probe in PROBES]
