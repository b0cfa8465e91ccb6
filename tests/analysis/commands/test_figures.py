import pytest

from parallax.analysis.commands.common import FIGURES_FOLDER
from parallax.analysis.figures import families
from parallax.harness.cli.main import main


@pytest.mark.usefixtures("blank_figures")
def test_command_draws_the_requested_families(study, tmp_path, capsys):
    words = ["study", "figures", str(study), "--families", "verdicts,vectorised", "--jobs", "1"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    names = {path.stem for path in (tmp_path / "out").iterdir()}
    assert {"vectorised_8", "verdicts_ppo", "verdicts_td3", "verdicts_sac"} <= names
    kinds = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert kinds == {".png", ".pdf", ".txt"}
    assert "Figure: " in capsys.readouterr().out


def test_families_that_are_not_drawn_are_named(results, make_run, capsys):
    make_run()
    assert main(["study", "figures", str(results), "--families", "wrappers"]) == 0
    assert "Not drawn: wrappers: no setting was run both" in capsys.readouterr().out
    assert list((results / "analysis" / FIGURES_FOLDER).iterdir()) == []


def test_unknown_name_error_lists_the_known_ones(study, capsys):
    assert main(["study", "figures", str(study), "--families", "verdicts,nonsense"]) == 2
    error = capsys.readouterr().err
    assert "--families=nonsense: no such figure. Known: reproduction, highlights" in error


def test_list_prints_the_names_without_results(capsys):
    assert main(["study", "figures", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == families.list_family_names()


@pytest.mark.usefixtures("blank_figures")
def test_no_figure_is_written_where_one_cannot_be(study, tmp_path, capsys):
    output = tmp_path / "out"
    (output / "verdicts_td3.png").mkdir(parents=True)
    words = ["study", "figures", str(study), "--families", "verdicts", "--jobs", "1"]
    assert main([*words, "--output", str(output)]) == 2
    assert [path.name for path in output.iterdir()] == ["verdicts_td3.png"]
    assert "verdicts_td3.png: cannot be written: it is a folder" in capsys.readouterr().err
