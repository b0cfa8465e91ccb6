"""`parallax probe --path`: a changed line of a checkout is found, and so is its commit."""

import shutil
import subprocess
from pathlib import Path

import pytest
import stable_baselines3

from parallax.harness.cli import probe_checkouts
from parallax.harness.cli.main import main
from parallax.harness.cli.probe_checkouts import (
    AnswerChange,
    SourceVersion,
    _print_changes,
    list_commits,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.probes.results import ProbeReport, ProbeResult, make_missing_answer

SOURCE = Path(stable_baselines3.__file__).parent


def git(folder, *words):
    name = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    answer = subprocess.run(
        ["git", "-C", str(folder), *name, *words], check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


def change(folder, old, new):
    path = folder / "stable_baselines3" / "common" / "utils.py"
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository of Stable-Baselines3 with three commits, the last of which changes an update."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "copy"
    without = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, folder / "stable_baselines3", ignore=without)
    git(tmp_path, "init", "-q", str(folder))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / "README.md").write_text("no code")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "words")
    change(folder, "target_param.data.mul_(1 - tau)", "target_param.data.mul_(1 - 2 * tau)")
    git(folder, "commit", "-qam", "faster targets")
    return folder


def test_commits_are_unpacked_once_and_without_a_trace(checkout):
    before = git(checkout, "status", "--porcelain"), git(checkout, "worktree", "list")
    first, second = list_commits(checkout, "stable_baselines3", "HEAD~2..HEAD")
    assert second.description.endswith("faster targets") and first.label != second.label
    assert (git(checkout, "status", "--porcelain"), git(checkout, "worktree", "list")) == before
    text = (second.folder / "stable_baselines3" / "common" / "utils.py").read_text()
    assert "1 - 2 * tau" in text
    assert list_commits(checkout, "stable_baselines3", "HEAD~2..HEAD")[1] == second


def test_moved_package_is_found_below_the_top_folder(checkout):
    (checkout / "sub" / "src").mkdir(parents=True)
    git(checkout, "mv", "stable_baselines3", "sub/stable_baselines3")
    git(checkout, "commit", "-qm", "into sub")
    git(checkout, "mv", "sub/stable_baselines3", "sub/src/stable_baselines3")
    git(checkout, "commit", "-qm", "into src")
    found = list_commits(checkout / "sub", "stable_baselines3", "HEAD~1..HEAD")
    assert [version.folder.name for version in found] == ["sub", "src"]


def test_a_commit_that_cannot_be_unpacked_is_named(checkout):
    (checkout / "stable_baselines3" / "outside").symlink_to("/etc")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "link")
    with pytest.raises(SpecError, match=r"commit \w+ cannot be unpacked"):
        list_commits(checkout, "stable_baselines3", "HEAD~1..HEAD")


CAUSE = [
    "  td3/td3.py, line 1, module",
    "    - tau = 1",
    "    + tau = 2",
    "      installed -> checkout  td3.tau: changed",
]
LISTED = [
    "  installed -> checkout  td3.tau: changed",
    "Code that differs, installed -> checkout:",
    *CAUSE[:3],
    "  td3/td3.py, line 3, module",
    "    - gamma = 1",
    "    + gamma = 2",
]


@pytest.mark.parametrize(("later", "lines"), [("tau = 2\n\ngamma = 1\n", CAUSE), ("", LISTED)])
def test_a_single_change_needs_no_measurement_to_be_the_cause(
    later, lines, tmp_path, monkeypatch, capsys
):
    states = {"installed": "tau = 1\n\ngamma = 1\n", "checkout": later or "tau = 2\n\ngamma = 2\n"}
    for label, text in states.items():
        (tmp_path / label / "td3").mkdir(parents=True)
        (tmp_path / label / "td3" / "td3.py").write_text(text)
    versions = [SourceVersion(label, None, label, tmp_path / label) for label in states]
    changes = [AnswerChange(*states, "td3.tau", "changed")]
    monkeypatch.setattr(probe_checkouts, "list_changes_in_order", lambda found: changes)
    _print_changes(ProbeReport((), dict.fromkeys(states, ()), {}, 0.0), versions)
    assert capsys.readouterr().out.splitlines()[3:] == lines


def test_a_change_across_a_state_that_failed_is_printed(tmp_path, monkeypatch, capsys):
    versions = [SourceVersion(label, None, label, tmp_path / label) for label in "ABC"]
    changes = [AnswerChange("A", "C", "td3.tau", "changed")]
    monkeypatch.setattr(probe_checkouts, "list_changes_in_order", lambda found: changes)
    report = ProbeReport((), dict.fromkeys("ABC", ()), {}, 0.0)
    _print_changes(report, versions, lambda probes, advance, folder: report)
    assert capsys.readouterr().out.splitlines()[4:] == ["  A -> C  td3.tau: changed"]


def test_states_that_fail_to_run_are_not_called_unchanged(capsys):
    answers = {"installed": make_missing_answer("no"), "checkout": make_missing_answer("x", True)}
    result = ProbeResult("td3.tau", "td3", "Question?", "paper", "number", None, answers, ())
    _print_changes(ProbeReport((result,), dict.fromkeys(answers, ()), {}, 0.0), ())
    message = "None of the answers changed; checkout failed to run in 1 of 1 probes.\n"
    assert capsys.readouterr().out == message


@pytest.mark.parametrize(
    ("commits", "message"),
    [
        ("HEAD", "write two commits"),
        ("HEAD...HEAD", "write two commits"),
        ("..HEAD", "write two commits"),
        ("HEAD..HEAD~1", "HEAD~1 does not come after HEAD: swap them"),
        ("no-such-tag..HEAD", "git rev-parse says"),
        ("--help..HEAD", "git rev-parse says"),
    ],
)
def test_invalid_ranges_are_refused(checkout, commits, message):
    with pytest.raises(SpecError, match=message):
        list_commits(checkout, "stable_baselines3", commits)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--causes"], "add --path CHECKOUT"),
        (["--commits", "A..B"], "--commits needs a repository: add --path"),
        (["--path", "."], "name it with --frameworks"),
        (["--path", ".", "--frameworks", "sb3,cleanrl"], "name it with --frameworks"),
        (["--path", ".", "--frameworks", "sb3"], "contains the package stable_baselines3"),
        (["--path", ".", "--frameworks", "cleanrl"], "script=PATH"),
        (["--path", "none", "--frameworks", "sb3"], "is not a folder"),
        (["--path", ".", "--frameworks", "sb3", "--seeds", "2"], "drop --seeds"),
    ],
)
def test_incompatible_options_are_refused(words, message, capsys):
    assert main(["probe", "--probe", "td3.target_update", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_a_changed_line_and_its_commit_are_found(checkout, capsys, monkeypatch):
    monkeypatch.chdir(checkout)  # as users stand; the installed version is not the checkout then
    words = ["probe", "--frameworks", "sb3", "--probe", "td3.target_update", "--path"]
    assert main([*words, str(checkout)]) == 1
    first, _, table = capsys.readouterr().out.partition("\n\n")
    assert "1 of the answers changed:\n  common/utils.py, line " in first
    assert "      installed -> checkout  td3.target_update: before" in first
    commit = git(checkout, "rev-parse", "--short", "HEAD")
    assert f"{checkout / 'stable_baselines3'} (commit {commit})" in first and table
    assert f"installed: sb3 in {Path(stable_baselines3.__file__)}" in first
    assert "    + target_param.data.mul_(1 - 2 * tau)" in first
    assert main([*words, str(checkout), "--commits", "HEAD~2..HEAD~1"]) == 0
    assert "None of the answers changed." in capsys.readouterr().out


@pytest.mark.long
def test_changed_lines_behind_an_answer_are_found(checkout, capsys):
    path = checkout / "stable_baselines3" / "td3" / "td3.py"
    path.write_text(path.read_text().replace('"train/n_updates"', '"train/updates"'))
    words = ["probe", "--frameworks", "sb3", "--probe", "td3.target_update", "--causes", "--path"]
    assert main([*words, str(checkout)]) == 1
    first, _, _ = capsys.readouterr().out.partition("\n\n")
    lines = [line.strip() for line in first.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith("common/utils.py, line "))
    assert lines[start].endswith("polyak_update")
    assert lines[start + 2] == "+ target_param.data.mul_(1 - 2 * tau)"
    assert lines[start + 3].startswith("installed -> checkout  td3.target_update: ")
    assert lines[-1] == "1 of 2 changes are behind none of these answers."
