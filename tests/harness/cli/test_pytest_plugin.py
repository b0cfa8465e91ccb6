"""`pytest --parallax-baseline`: a test for each stored answer."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree

import pytest

from parallax.harness.cli.main import main


def run_pytest(folder, *words):
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-p", "parallax.harness.cli.pytest_plugin"),
            *("-p", "no:cacheprovider", "--rootdir", str(folder), str(folder), *words),
        ],
        cwd=folder,
        # Where parallax is installed, its entry point would load the plugin a second time.
        env={
            **os.environ,
            "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_file_without_answers_is_a_usage_error(tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    done = run_pytest(tmp_path, "--parallax-baseline", "bad.json")
    assert done.returncode == 4
    assert "--parallax-baseline: bad.json" in done.stderr
    assert "holds no stored answers" in done.stderr


def test_missing_framework_error_has_a_message_and_a_class_name(tmp_path):
    answer = {"value": [1.0], "expected": [1.0], "comparison": {"kind": "agrees", "size": 0.0}}
    answer |= {"meaning": "", "unmeasured": "", "failed": False, "along": None}
    result = {"probe": "ppo.counts", "algorithm": "ppo", "question": "How many?", "citation": "x"}
    result |= {"quantity": "", "axis": None, "answers": {"absent": answer}, "groups": [["absent"]]}
    report = {"schema": 1, "versions": {"absent": ["x 1"]}, "not_probed": {}, "seconds": 1.0}
    (tmp_path / "a.json").write_text(json.dumps({**report, "results": [result]}))
    done = run_pytest(tmp_path, "--parallax-baseline", "a.json", "--junitxml", "junit.xml")
    assert done.returncode == 1
    assert "absent, ppo.counts: --frameworks absent is not known." in done.stdout
    assert "Traceback" not in done.stdout and "INTERNALERROR" not in done.stdout
    case = next(xml.etree.ElementTree.parse(tmp_path / "junit.xml").iter("testcase"))
    assert (case.get("classname"), case.get("name")) == ("parallax.ppo", "ppo.counts[absent]")


@pytest.mark.long
def test_changed_answers_fail_by_name(tmp_path):
    file = tmp_path / "sb3.json"
    probe = ["probe", "--frameworks", "sb3", "--algorithms", "ppo", "--probe", "value_loss_factor"]
    assert main([*probe, "--json", str(file)]) == 0
    words = ("--parallax-baseline", "sb3.json", "--junitxml", "junit.xml")
    assert run_pytest(tmp_path, *words).returncode == 0
    content = json.loads(file.read_text())
    text = file.read_text()
    (result,) = content["results"]
    answer = result["answers"]["sb3"]
    answer["value"] = json.loads(json.dumps(answer["value"]).replace("1", "3"))
    file.write_text(json.dumps(content))
    assert file.read_text() != text
    done = run_pytest(tmp_path, *words)
    assert done.returncode == 1, done.stdout
    assert "sb3, ppo.value_loss_factor: " in done.stdout
    suite = next(xml.etree.ElementTree.parse(tmp_path / "junit.xml").iter("testsuite"))
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    summary = (tmp_path / "summary.md").read_text()
    assert "0 of 1 answers changed" in summary and "1 of 1 answers changed" in summary
    assert "| sb3, ppo.value_loss_factor | " in summary
