import io
import os
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread
from matplotlib.text import Text

from analysis.__main__ import main
from analysis.commands.figures import FOLDER
from analysis.figures import families
from analysis.figures.actions import actions
from analysis.figures.material import gather
from analysis.figures.render import render, render_all
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import algorithm_looks, looks, paper_settings
from analysis.load import load
from analysis.naming import file_name
from analysis.options import Options

BASELINES = Path(__file__).parent / "baselines"
BASELINE_DPI = 40
# Root mean square difference of pixel values in [0, 1]; fonts and line ends may shift a little.
TOLERANCE = 0.02


def sheets_of(material, name):
    return families.sheets(material, [name])[name]


def all_sheets(material):
    return [sheet for found in families.sheets(material, []).values() for sheet in found]


def pixels(png):
    return imread(io.BytesIO(png))[:, :, :3]


@pytest.mark.parametrize("name", families.names())
def test_every_family_draws_something(material, name):
    for sheet in sheets_of(material, name):
        assert isinstance(sheet, Sheet)
        assert pixels(render(sheet, ["png"], 40)["png"]).std() > 0.05


def test_names_of_figures_are_unique_and_safe(material):
    names = [sheet.name for sheet in all_sheets(material)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)
    assert file_name("ppo", "a=b,c/d", "") == "ppo_a-b-c-d"


def test_no_text_is_cut_off_or_too_small_to_read(material, monkeypatch):
    drawn = []
    draw = Text.draw
    monkeypatch.setattr(Text, "draw", lambda text, r: (drawn.append(text), draw(text, r))[1])
    first_two = [sheet for name in families.names() for sheet in sheets_of(material, name)[:2]]
    for sheet in first_two:
        drawn.clear()
        with matplotlib.rc_context(paper_settings()):
            figure = sheet.draw()
            FigureCanvasAgg(figure).draw()
        width, height = figure.bbox.size
        shown = [text for text in drawn if text.get_visible() and text.get_text().strip()]
        assert shown
        for text in shown:
            box, where = text.get_window_extent(), f"{sheet.name}: {text.get_text()!r}"
            assert text.get_fontsize() >= 5, where
            assert box.x0 > -1 and box.x1 < width + 1, where
            assert box.y0 > -1 and box.y1 < height + 1, where


def test_the_same_inputs_give_the_same_bytes(study, material):
    again = gather(load(study), Options(resamples=500))
    for name in ("verdicts", "ranks", "profiles"):
        first, second = sheets_of(material, name)[0], sheets_of(again, name)[0]
        assert first.caption == second.caption
        assert render(first, dpi=60) == render(second, dpi=60)


def test_several_processes_give_the_same_bytes_as_one(material):
    sheets = sheets_of(material, "verdicts")[:2]
    one, two = (list(render_all(sheets, ["png", "pdf"], 50, jobs)) for jobs in (1, 2))
    assert [files for _, files in one] == [files for _, files in two]
    assert b"CreationDate" not in one[0][1]["pdf"]


def baseline_sheets(material):
    return [sheets_of(material, name)[0] for name in families.names()]


@pytest.mark.parametrize("at", range(len(families.FAMILIES)), ids=families.names())
def test_figures_look_as_they_did(material, at):
    sheet = baseline_sheets(material)[at]
    drawn = render(sheet, ["png"], BASELINE_DPI)["png"]
    path = BASELINES / f"{sheet.name}.png"
    if os.environ.get("PARALLAX_WRITE_BASELINES"):
        path.write_bytes(drawn)
    new, old = pixels(drawn), pixels(path.read_bytes())
    assert new.shape == old.shape
    assert float(np.sqrt(np.mean((new - old) ** 2))) < TOLERANCE


def test_captions_name_the_interval_and_the_runs_behind_it(study):
    items = all_sheets(gather(load(study), Options(resamples=200), "thesis"))
    for sheet in items:
        if sheet.name == "actions":
            continue
        assert "n = " in sheet.caption
        if sheet.name.startswith(("consistency", "ranking", "intervals", "highlights")):
            assert "method thesis (mean ± 1.96·population deviation/√n)" in sheet.caption


def test_figures_without_data_are_named_with_the_reason(results, make_run):
    for seed in range(2):
        make_run(seed=seed)
    found = families.sheets(gather(load(results), Options(resamples=50)), [])
    reasons = {
        name: item.reason
        for name, items in found.items()
        for item in items
        if isinstance(item, NotDrawn)
    }
    assert "both with wrappers=none and" in reasons["wrappers"]
    assert "both with n_envs=1 and" in reasons["vectorised"]
    assert set(reasons) == {"highlights", "wrappers", "vectorised", "ranking", "verdicts", "ranks"}


def test_without_a_run_that_can_be_used_only_actions_are_drawn(results, make_run):
    make_run(status="running")
    found = families.sheets(gather(load(results), Options()), [])
    assert [n for n, items in found.items() if isinstance(items[0], Sheet)] == ["actions"]


def test_highlights_show_planted_differences(material):
    (sheet,) = (s for s in sheets_of(material, "highlights") if s.name == "highlights_sac")
    titles = [title for title, _ in sheet.draw.args[0].panels]
    assert titles[0].startswith("Walker2d-v4")


@pytest.mark.parametrize("mean", [0.0, -0.6])
@pytest.mark.parametrize("variance", [1.0, 0.1])
def test_action_densities_are_those_of_sampled_actions(mean, variance):
    item = actions(mean, variance)
    raw = np.random.default_rng(0).normal(mean, np.sqrt(variance), 400_000)
    width = item.actions[1] - item.actions[0]
    assert item.clipped.sum() * width + sum(item.at_bounds) == pytest.approx(1, abs=5e-3)
    assert item.squashed.sum() * width == pytest.approx(1, abs=2e-2)
    assert item.mean_clipped == pytest.approx(np.clip(raw, -1, 1).mean(), abs=3e-3)
    assert item.mean_squashed == pytest.approx(np.tanh(raw).mean(), abs=3e-3)
    assert item.at_bounds[0] == pytest.approx((raw < -1).mean(), abs=3e-3)


def test_no_algorithm_looks_like_a_framework():
    frameworks = looks(["cleanrl", "sb3", "torchrl", "tianshou"])
    algorithms = algorithm_looks(["ppo", "td3", "sac"])
    colors = [matplotlib.colors.to_hex(look.color) for look in frameworks.values()]
    assert not {matplotlib.colors.to_hex(look.color) for look in algorithms.values()} & set(colors)


def test_the_command_draws_what_it_is_asked_for(study, tmp_path, capsys):
    words = ["figures", str(study), "--only", "verdicts,actions", "--jobs", "1"]
    assert main([*words, "--output", str(tmp_path / "out")]) == 0
    names = {path.stem for path in (tmp_path / "out").iterdir()}
    assert {"actions", "verdicts_ppo", "verdicts_td3", "verdicts_sac"} <= names
    kinds = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert kinds == {".png", ".pdf", ".txt"}
    assert "Figure: " in capsys.readouterr().out


def test_what_is_not_drawn_is_named(results, make_run, capsys):
    make_run()
    assert main(["figures", str(results), "--only", "wrappers"]) == 0
    assert "Not drawn: wrappers: no setting was run both" in capsys.readouterr().out
    assert list((results / "analysis" / FOLDER).iterdir()) == []


def test_an_unknown_name_is_answered_with_the_known_ones(study, capsys):
    assert main(["figures", str(study), "--only", "verdicts,nonsense"]) == 2
    error = capsys.readouterr().err
    assert "--only=nonsense: no such figure. Known: reproduction, highlights" in error


def test_list_prints_the_names_without_results(capsys):
    assert main(["figures", "--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == families.names()
