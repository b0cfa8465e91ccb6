import dataclasses

import pytest

from parallax.analysis.figures.figure_spec import render_figure
from parallax.analysis.figures.highlights import (
    UnknownPanelError,
    _make_algorithm_figure_spec,
    make_panel_choice_figure_spec,
    parse_panel_choice,
    select_most_different,
)
from parallax.harness.cli.main import main


def titles(study_results, text):
    spec = make_panel_choice_figure_spec(study_results, parse_panel_choice(text))
    return [panel.title for panel in spec.draw_content.args[0].panels]


def test_panels_are_in_the_requested_order(study_results):
    requested = "fig 7=Walker2d-v4:td3:cleanrl, Hopper-v4:td3:original"
    spec = make_panel_choice_figure_spec(study_results, parse_panel_choice(requested))
    assert spec.name == "fig-7"
    assert titles(study_results, requested) == [
        "Walker2d-v4, TD3\nCleanRL defaults",
        "Hopper-v4, TD3\noriginal papers",
    ]
    assert {cell.algorithm for cell in spec.cells} == {"td3"}
    names = {line.name for line in spec.draw_content.args[0].lines}
    assert names == {"cleanrl", "sb3", "torchrl"}
    assert len(render_figure(spec, ["png"], 30)["png"]) > 1000


def test_all_algorithms_make_a_panel_per_framework(study_results):
    spec = make_panel_choice_figure_spec(study_results, parse_panel_choice("Hopper-v4:all:sb3"))
    content = spec.draw_content.args[0]
    assert [panel.title.split("\n")[1] for panel in content.panels] == ["CleanRL", "SB3", "TorchRL"]
    assert {line.name for line in content.lines} == {"ppo", "td3", "sac"}
    assert {cell.hps for cell in spec.cells} == {"sb3"}
    assert "wrappers" not in spec.caption  # side experiments stand apart


def test_single_setting_has_no_most_different_figure(study_results):
    """The figures of curves and of scores show the same numbers."""
    part = next(
        part for part in study_results.parts if len(select_most_different(list(part.pairs))) > 1
    )
    assert _make_algorithm_figure_spec(study_results, part) is not None
    one = [pair for pair in part.pairs if pair.cell == select_most_different(part.pairs)[0].cell]
    assert _make_algorithm_figure_spec(study_results, dataclasses.replace(part, pairs=one)) is None


def test_library_defaults_are_those_of_each_framework(study_results):
    spec = make_panel_choice_figure_spec(study_results, parse_panel_choice("Hopper-v4:all:own"))
    assert {cell.hps for cell in spec.cells} == {"cleanrl", "sb3", "torchrl"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hopper-v4:ppo", "'Hopper-v4:ppo' is not ENV:ALGORITHM:HPS"),
        ("Hopper-v4:ppo:sb3,,", "'' is not ENV:ALGORITHM:HPS"),
        ("=Hopper-v4:ppo:sb3", "the name before = is empty"),
        ("Hopper-v4:ppo:sb3,Hopper-v4:all:sb3", "do not go into one figure"),
    ],
)
def test_malformed_panel_choices_are_refused(text, words):
    with pytest.raises(UnknownPanelError, match=words):
        parse_panel_choice(text)


@pytest.mark.parametrize("requested", ["Hoper-v4:ppo:sb3", "Hoper-v4:all:sb3"])
def test_unknown_panel_error_names_the_closest_one(study_results, requested):
    with pytest.raises(UnknownPanelError, match=requested.replace("Hoper", "Hopper")):
        make_panel_choice_figure_spec(study_results, parse_panel_choice(requested))


@pytest.mark.usefixtures("blank_figures")
def test_command_draws_the_requested_panels_only(results, make_run, capsys, tmp_path):
    for framework in ("sb3", "cleanrl"):
        make_run(framework=framework)
    words = ["study", "figures", str(results), "--output", str(tmp_path / "out"), "--jobs", "1"]
    one = "Hopper-v5:ppo:original"
    assert main([*words, "--panels", one, "--panels", f"b={one},{one}"]) == 0
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {"panels", "b"}
    assert main([*words, "--panels", one, "--panels", one]) == 2
    assert "two figures are called panels" in capsys.readouterr().err
    assert main([*words, "--panels", "Ant-v4:ppo:original"]) == 2
    assert f"There are: {one}." in capsys.readouterr().err
