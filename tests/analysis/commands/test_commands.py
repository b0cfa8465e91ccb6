import io
import itertools
import os
import subprocess
import sys
from pathlib import Path

import forked
import PIL.Image
import pytest
import recorded
from matplotlib.figure import Figure

from parallax.analysis.commands import common, compare
from parallax.analysis.figures import figure_spec
from parallax.analysis.figures.final_scores import make_overview_figure_specs
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study
from parallax.harness.cli.main import main

ROOT = Path(__file__).parents[2]
FILES = ["comparison.csv", "comparison.md", "learning_curves.pdf", "learning_curves.png"]


def command(*arguments):
    return forked.run("parallax", "compare", *arguments, cwd=ROOT)


def test_the_command_prints_the_table_and_says_where_files_are(results, make_run):
    for framework in ("sb3", "cleanrl"):
        for seed in range(2):
            make_run(framework=framework, seed=seed, score=100 + seed + len(framework))
    make_run(framework="cleanrl", seed=2, status="interrupted")
    done = command(results / "demo")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert max(map(len, lines[:-5])) <= 100
    output = results / "demo" / "analysis"
    assert sorted(path.name for path in output.iterdir()) == FILES
    assert lines[-1].startswith(
        "Next:    parallax why cleanrl sb3 --algorithms ppo --env Hopper-v5"
    )
    assert lines[-1].endswith(f"--study {results / 'demo'}")
    assert lines[-5:-1] == [
        f"Table:   {output}/comparison.csv",
        f"         {output}/comparison.md",
        f"Picture: {output}/learning_curves.png",
        f"         {output}/learning_curves.pdf",
    ]
    assert "cleanrl/steps=20000/seed=2: interrupted" in done.stdout


def test_compare_and_report_name_the_same_most_different_pair(results, make_run, capsys):
    scores = {"sb3": (100, 101), "cleanrl": (110, 111), "torchrl": (200, 900)}
    for framework, (first, second) in scores.items():
        make_run(framework=framework, seed=0, score=first)
        make_run(framework=framework, seed=1, score=second)
    found = []
    for command_name in ("compare", "report"):
        assert main([command_name, str(results / "demo")]) == 0
        found.append(capsys.readouterr().out.splitlines()[-1].split(maxsplit=1)[1])
    # TorchRL is furthest away, but its runs scatter.
    assert found[0].startswith("parallax why cleanrl sb3 ")
    assert found[0] == found[1]


def test_most_different_single_runs_have_the_largest_difference(results, make_run, capsys):
    for framework, score in {"sb3": 100, "cleanrl": 101, "torchrl": 900}.items():
        make_run(framework=framework, seed=0, score=score)
    assert main(["compare", str(results / "demo")]) == 0
    assert "parallax why sb3 torchrl " in capsys.readouterr().out.splitlines()[-1]


def test_no_command_is_suggested_for_frameworks_without_an_adapter(results, make_run):
    for seed in range(2):
        make_run(framework="sb3", seed=seed, score=100 + seed)
        make_run(framework="RLlib", seed=seed, score=900 + seed)  # imported
    assert "parallax why" not in command(results / "demo").stdout


def test_command_works_in_a_terminal_without_unicode(results, make_run, monkeypatch):
    make_run()
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert command(results).returncode == 0


def test_a_missing_folder_is_one_message(tmp_path):
    done = command(tmp_path / "gone")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"Error: {tmp_path}/gone: no such folder. Give a results folder or a study in it.\n"
    )


def test_a_folder_without_runs_is_one_message(tmp_path, capsys):
    folder = tmp_path / "empty"
    folder.mkdir()
    assert main(["compare", str(folder)]) == 2
    error = capsys.readouterr().err
    assert "no runs found" in error
    assert error.count("\n") == 1
    assert list(folder.iterdir()) == []


def test_an_endpoint_without_the_score_of_a_solved_task_is_one_message(results, make_run, capsys):
    make_run(env="Unknown-v1")
    assert main(["study", "verdicts", str(results), "--endpoint", "steps-90"]) == 2
    error = capsys.readouterr().err
    assert "give --range Unknown-v1=LOW:HIGH" in error
    assert error.count("\n") == 1


def test_verdicts_mark_pairs_that_are_not_shown_to_have_learned(results, make_run, capsys):
    for seed, (framework, score) in itertools.product(range(6), (("sb3", 3000), ("sbx", 0))):
        make_run(framework=framework, seed=seed, env="Hopper-v4", score=score + seed)
    assert main(["study", "verdicts", str(results)]) == 0
    printed = capsys.readouterr().out
    assert "n = 6; sbx is not shown to have learned" in printed
    files = list((results / "analysis").glob("*.csv"))
    assert f"Tables: {len(files)} files in {results / 'analysis'}\n" in printed


def test_an_output_that_cannot_be_written_is_one_message(results, make_run, tmp_path, capsys):
    make_run()
    (tmp_path / "file").write_text("")
    assert main(["compare", str(results), "--output", str(tmp_path / "file" / "deeper")]) == 2
    assert "cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["study", "verdicts"], "omnibus.csv"),
        (["compare"], "learning_curves.png"),
        (["report", "--markdown"], "report.md"),
    ],
)
@pytest.mark.usefixtures("blank_figures")
def test_all_files_are_written_or_none(words, name, results, make_run, tmp_path, capsys):
    make_run()
    output = tmp_path / "output"
    (output / name).mkdir(parents=True)
    assert main([*words, str(results), "--output", str(output)]) == 2
    assert f"{output / name}: cannot be written: it is a folder. Choose" in capsys.readouterr().err
    assert [path.name for path in output.iterdir()] == [name]


@pytest.mark.parametrize(
    ("words", "name"),
    [(["study", "verdicts", "--tables"], "tables"), (["report", "--markdown"], "figures")],
)
def test_nothing_is_written_through_a_link_in_the_output(
    words, name, results, make_run, tmp_path, capsys
):
    make_run()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    assert main([*words, str(results), "--output", str(tmp_path)]) == 2
    assert f"{tmp_path / name} is a link: delete it, or" in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("method", ["t", "thesis", "bootstrap"])
def test_every_method_is_named_in_table_and_files(results, make_run, tmp_path, method, capsys):
    for seed in range(2):
        make_run(seed=seed)
    output = tmp_path / "out"
    assert main(["compare", str(results), "--interval", method, "--output", str(output)]) == 0
    assert f"Interval: {method}," in capsys.readouterr().out
    assert f",{method}," in (output / "comparison.csv").read_text()
    assert f"Interval: {method}," in (output / "comparison.md").read_text()
    assert not (results / "analysis").exists()


def test_runs_that_cannot_be_used_are_listed_and_no_picture_is_drawn(results, make_run, capsys):
    make_run(status="running")
    assert main(["compare", str(results)]) == 0
    output = capsys.readouterr().out
    assert "seed=0: running" in output
    assert output.endswith("Picture: none, no run can be used\n")


def test_a_second_analysis_gives_the_same_files(results, make_run):
    for seed in range(3):
        make_run(seed=seed)
    contents = []
    for _ in range(2):
        main(["compare", str(results), "--interval", "bootstrap"])
        contents.append([(results / "analysis" / name).read_bytes() for name in FILES])
    assert contents[0] == contents[1]


def test_files_are_written_although_stdout_is_closed(results, make_run):
    make_run()
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "parallax", "compare", str(results)],
            cwd=ROOT,
            stdout=closed,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.stderr == ""
    assert sorted(path.name for path in (results / "analysis").iterdir()) == FILES


def test_a_study_has_a_largest_number_of_implementations(results, make_run, monkeypatch, capsys):
    for framework in ("sb3", "cleanrl", "sbx"):
        make_run(framework=framework)
    monkeypatch.setattr(common, "MAX_IMPLEMENTATIONS", 3)
    assert main(["study", "verdicts", str(results)]) == 0
    monkeypatch.setattr(common, "MAX_IMPLEMENTATIONS", 2)
    for command in (["compare"], ["report"], ["study", "verdicts"]):
        assert main([*command, str(results)]) == 2
        assert "has 3 implementations, and 2 are allowed" in capsys.readouterr().err


def test_a_picture_has_a_largest_number_of_settings(results, make_run, monkeypatch, capsys):
    for seed, hps in enumerate(("sb3", "zoo", "original")):
        make_run(seed=seed, hps=hps)
    monkeypatch.setattr(compare, "MAX_PANELS", 2)
    assert main(["compare", str(results)]) == 0
    assert "Picture: none, of 3 settings, 2 are drawn" in capsys.readouterr().out


def test_a_figure_has_a_largest_number_of_settings(results, make_run, monkeypatch, capsys):
    """Hundreds of tasks in one figure take minutes, and exceed the size that an image can have."""
    for seed, env in enumerate(("Hopper-v4", "Ant-v4", "Walker2d-v4")):
        make_run(seed=seed, env=env)
        make_run(seed=seed, env=env, framework="cleanrl")
    monkeypatch.setattr(figure_spec, "MAX_SETTINGS", 2)
    assert main(["study", "figures", str(results), "--families", "consistency"]) == 0
    said = capsys.readouterr().out
    assert "Not drawn: consistency_ppo: of 3 settings, 2 are drawn: name fewer" in said
    assert main(["report", str(results)]) == 0
    study_results = judge_study(common.load_results(results), VerdictOptions())
    (overview, _) = make_overview_figure_specs(study_results)
    assert isinstance(overview, figure_spec.MissingFigure)


@pytest.mark.parametrize(
    "words", ["compare", "report", "study verdicts", "study plan", "study figures"]
)
def test_every_command_names_runs_with_equal_weights(results, make_run, capsys, words):
    for framework, seed in itertools.product(("sb3", "cleanrl"), range(2)):
        folder = make_run(framework=framework, seed=seed, score=100 + seed + len(framework))
        recorded.edit(folder, weights_sha256=framework)
    options = ["--families", "consistency"] if words == "study figures" else []
    assert main([*words.split(), str(results), *options]) == 0
    said = "".join(capsys.readouterr())
    for framework in ("sb3", "cleanrl"):
        assert f"seed=0, seed=1 of {framework} have equal weights" in " ".join(said.split())
    if words == "report":
        page = (results / "analysis" / "report.html").read_text("utf-8")
        assert "Runs that may not be comparable or independent" in page
        assert "have equal weights" in page


def test_terminals_show_scores_of_many_implementations(results, make_run, capsys):
    for number in range(30):
        make_run(framework=f"script{number}", score=1000 + number)
    assert main(["compare", str(results)]) == 0
    lines = capsys.readouterr().out.splitlines()
    for number in range(30):
        assert any(line.split() == [f"script{number}", str(1000 + number)] for line in lines)


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_figures_larger_than_an_image_can_be_have_a_lower_resolution(kind):
    figure = Figure(figsize=(0.1, 700))
    image = PIL.Image.open(io.BytesIO(figure_spec.figure_to_bytes(figure, kind, 130)))
    assert 16_000 < image.height <= 16_383


def test_a_task_has_one_range(results, make_run, capsys):
    make_run()
    ranges = ["--range", "Hopper-v5=0:100", "--range", "Hopper-v5=0:200"]
    assert main(["study", "verdicts", str(results), *ranges[:2]]) == 0
    assert main(["study", "verdicts", str(results), *ranges]) == 2
    assert "--range: a task occurs twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--range", "Hopper-v4=-1e308:1e308"], "give a task, its lowest and its highest score"),
        (["--range", "Hoper-v4=0:100"], "has no runs of that task. Give one of Hopper-v5."),
        (["--alpha", "1e-300"], "--alpha=1e-300: give a number above 1e-06"),
    ],
)
def test_ranges_and_levels_without_a_meaning_are_refused(results, make_run, capsys, words, reason):
    make_run()
    for command in ("verdicts", "plan"):
        assert main(["study", command, str(results), *words]) == 2
        assert reason in capsys.readouterr().err


COMMANDS = [["compare"], ["report"], ["report", "--markdown"], ["study", "verdicts"]]
COMMANDS += [["study", "figures", "--families", "verdicts"], ["study", "plan"]]


@pytest.mark.parametrize("name", [".", "figures"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_nothing_is_written_through_a_link_in_a_study(
    words, name, results, make_run, tmp_path, capsys
):
    make_run()
    (tmp_path / "elsewhere").mkdir()
    place = results / "demo" / "analysis" / name
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(tmp_path / "elsewhere")
    assert main([*words, str(results / "demo")]) == 2
    assert f"{place} is a link: name a folder with --output." in capsys.readouterr().err
    assert not list((tmp_path / "elsewhere").iterdir())
    assert main(["compare", str(results / "demo"), "--output", str(place)]) == 0
