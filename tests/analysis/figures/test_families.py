import dataclasses
import io
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from loops import iterate_some
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.image import imread
from matplotlib.text import Text

from parallax.analysis.data.load import load_runs
from parallax.analysis.figures import families
from parallax.analysis.figures.figure_spec import (
    FigureSpec,
    MissingFigure,
    render_figure,
    render_figures,
)
from parallax.analysis.figures.style import get_paper_rc_settings
from parallax.analysis.labels import make_file_name
from parallax.analysis.stats.decomposition import estimate_framework_variance
from parallax.analysis.verdicts.alignment_levels import (
    LevelResults,
    LevelSpread,
    LevelTask,
    decompose_levels,
)
from parallax.analysis.verdicts.endpoints import ScoreScale
from parallax.analysis.verdicts.options import VerdictOptions
from parallax.analysis.verdicts.study import judge_study
from parallax.harness.cli.main import main

ROOT = Path(__file__).parents[3]
BASELINES = Path(__file__).parent / "baselines"
BASELINE_DPI = 40
# Root mean square difference of pixel values in [0, 1]: another colour for one framework makes
# 0.008 or more, a shift by one pixel 0.07.
TOLERANCE = 0.004


@pytest.fixture(scope="module")
def study_results(study_results):
    """The study as if it had been run at three levels of alignment."""
    groups = max(study_results.verdicts.groups_by_cell.values(), key=len)
    cell, spreads = groups[0].cell, []
    task = LevelTask(cell.study, cell.algorithm, cell.env, 1000)
    top = max(group.scores.max() for group in groups)
    for level, share in (("defaults", 1.0), ("exact", 0.5), ("lockstep", 0.1)):
        means = {group.framework: group.scores.mean() / top for group in groups}
        scores = {
            group.framework: 0.5 * (1 - share)
            + share * means[group.framework]
            + (group.scores - group.scores.mean()) / top
            for group in groups
        }
        found = {group.framework: group for group in groups}
        learned = {group.framework: group.n for group in groups}
        variance = estimate_framework_variance([list(scores.values())])
        scale = ScoreScale(0.0, top, "made up")
        spreads.append(
            LevelSpread(task, level, cell, scale, scores, found, learned, variance, (0.0, 0.4))
        )
    shares = decompose_levels(spreads, np.random.default_rng(0), resamples=200)
    levels = LevelResults(tuple(spreads), shares, None, "final return")
    return dataclasses.replace(study_results, levels=(levels,))


def specs_of(study_results, name):
    return families.make_family_figure_specs(study_results, [name])[name]


def all_specs(study_results):
    return [
        spec
        for found in families.make_family_figure_specs(study_results, []).values()
        for spec in found
    ]


def pixels(png):
    return imread(io.BytesIO(png))[:, :, :3]


def test_minus_one_is_a_process_per_core(monkeypatch):
    class Pool:
        def __init__(self, processes, **_):
            raise InterruptedError(processes)

    monkeypatch.setattr("parallax.analysis.figures.figure_spec.count_cores", lambda: 3)
    monkeypatch.setattr("parallax.analysis.figures.figure_spec.ProcessPoolExecutor", Pool)
    with pytest.raises(InterruptedError, match="3"):
        render_figures([None] * 5, ["png"], 50, -1)


@pytest.mark.parametrize("name", families.list_family_names())
def test_every_family_draws_something(study_results, name):
    found = iterate_some(specs_of(study_results, name))
    assert {type(spec) for spec in found} == {FigureSpec}
    for spec in found[1:][-1:]:  # the first is compared with a stored image
        assert pixels(render_figure(spec, ["png"], 40)["png"]).std() > 0.05


def test_names_of_figures_are_unique_and_safe(study_results):
    names = [spec.name for spec in all_specs(study_results)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+", name) for name in names)
    assert make_file_name("ppo", "", "n_envs=8,a=1e-05") == "ppo_n-envs-8-a-1e-05"


def test_files_of_other_settings_have_other_names():
    texts = [
        "my_study",
        "my-study",
        "my study",
        "-my-study",
        "a=b-c",
        "a=b_c",
        "a=b,c=d",
        "a=b,c-d",
    ]
    texts += ["\u5b66", "\u7fd2", "\u5b66=1", "\u7fd2=1", "a" * 300, "a" * 301, "a/b", "a-b"]
    names = [make_file_name("x", text) for text in texts]
    assert len(set(names)) == len(texts) and max(map(len, names)) < 220
    assert make_file_name("x", "my-study") == "x_my-study"
    studies = [make_file_name("x", text, "") for text in ("a=1", "a-1", "a=1,b=2", "a-1-b-2")]
    assert len(set(studies)) == 4


def test_text_is_complete_and_large_enough(study_results, monkeypatch):
    drawn = []
    draw = Text.draw
    monkeypatch.setattr(Text, "draw", lambda text, r: (drawn.append(text), draw(text, r))[1])
    firsts = [
        spec for name in families.list_family_names() for spec in specs_of(study_results, name)[:1]
    ]
    for spec in iterate_some(firsts):
        drawn.clear()
        with matplotlib.rc_context(get_paper_rc_settings()):
            figure = spec.draw()
            FigureCanvasAgg(figure).draw()
        width, height = figure.bbox.size
        shown = [text for text in drawn if text.get_visible() and text.get_text().strip()]
        assert shown
        for text in shown:
            box, where = text.get_window_extent(), f"{spec.name}: {text.get_text()!r}"
            assert text.get_fontsize() >= 5, where
            assert box.x0 > -1 and box.x1 < width + 1, where
            assert box.y0 > -1 and box.y1 < height + 1, where


def test_several_processes_give_the_same_bytes_as_one(study_results):
    specs = specs_of(study_results, "verdicts")[:2]
    one, two = (list(render_figures(specs, ["png", "pdf"], 50, jobs)) for jobs in (1, 2))
    assert [files for _, files in one] == [files for _, files in two]
    assert b"CreationDate" not in one[0][1]["pdf"]


@pytest.mark.parametrize("name", families.list_family_names())
def test_figures_match_their_baselines(study_results, name):
    spec = specs_of(study_results, name)[0]
    drawn = render_figure(spec, ["png"], BASELINE_DPI)["png"]
    path = BASELINES / f"{spec.name}.png"
    if os.environ.get("PARALLAX_WRITE_BASELINES"):
        path.write_bytes(drawn)
    new, old = pixels(drawn), pixels(path.read_bytes())
    assert new.shape == old.shape
    assert float(np.sqrt(np.mean((new - old) ** 2))) < TOLERANCE


def test_captions_name_the_interval_and_the_runs_behind_it(study):
    items = all_specs(judge_study(load_runs(study), VerdictOptions(resamples=200), "thesis"))
    assert len([spec for spec in items if spec.name != "actions"]) > 3
    for spec in items:
        if spec.name == "actions" or isinstance(spec, MissingFigure):
            continue
        assert "n = " in spec.caption
        if spec.name.startswith(("consistency", "ranking", "intervals", "highlights")):
            assert "method thesis (mean ± 1.96·population deviation/√n)" in spec.caption


def test_figures_without_data_are_named_with_the_reason(results, make_run):
    for seed in range(2):
        make_run(seed=seed)
    found = families.make_family_figure_specs(
        judge_study(load_runs(results), VerdictOptions(resamples=50)), []
    )
    reasons = {
        name: item.reason
        for name, items in found.items()
        for item in items
        if isinstance(item, MissingFigure)
    }
    assert "both with wrappers=none and" in reasons["wrappers"]
    assert "both with n_envs=1 and" in reasons["vectorised"]
    assert set(reasons) == {
        *("highlights", "wrappers", "vectorised", "ranking", "verdicts", "ranks", "improvement"),
        *("intervals", "profiles", "aggregates", "efficiency", "levels", "reached"),
        "reproduction",
    }


def test_without_a_run_that_can_be_used_only_actions_are_drawn(results, make_run):
    make_run(status="running")
    found = families.make_family_figure_specs(judge_study(load_runs(results), VerdictOptions()), [])
    assert [n for n, items in found.items() if isinstance(items[0], FigureSpec)] == ["actions"]


def test_highlights_show_planted_differences(study_results):
    (spec,) = (s for s in specs_of(study_results, "highlights") if s.name == "highlights_sac")
    titles = [panel.title for panel in spec.draw_content.args[0].panels]
    assert titles[0].startswith("Walker2d-v4")


def test_figures_do_not_depend_on_process_or_hash_seed(results, make_run, tmp_path):
    tasks = ("Hopper-v4", "Walker2d-v4")
    for env, framework, seed in itertools.product(tasks, ("cleanrl", "sb3", "torchrl"), range(2)):
        make_run(env=env, framework=framework, seed=seed, score=100 + seed)
    words = [
        "study",
        "figures",
        str(results),
        "--families",
        "verdicts,ranks,profiles",
        "--jobs",
        "1",
    ]
    other = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": other, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "parallax", *words, "--output", str(tmp_path / "there")]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert main([*words, "--output", str(tmp_path / "here")]) == 0
    there, here = (
        {path.name: path.read_bytes() for path in (tmp_path / place).iterdir()}
        for place in ("there", "here")
    )
    assert len(there) == 6
    assert there == here


def test_sample_efficiency_uses_evaluations_common_to_the_runs_of_a_framework(results, make_run):
    for env, seed in itertools.product(("Hopper-v4", "Walker2d-v4"), range(2)):
        for framework in ("sb3", "cleanrl", "torchrl"):
            make_run(env=env, framework=framework, seed=seed, score=1000)
    loaded = load_runs(results)
    # As runs imported from another tool: CleanRL has three evaluations, TorchRL none in common.
    runs = [
        dataclasses.replace(
            run,
            timesteps=run.timesteps[at] + (3 + run.id.seed) * (run.id.framework == "torchrl"),
            results=run.results[at],
        )
        for run in loaded.runs
        for at in [[0, 5, -1] if run.id.framework == "cleanrl" else slice(None)]
    ]
    loaded = dataclasses.replace(loaded, runs=tuple(runs))
    (spec,) = specs_of(judge_study(loaded, VerdictOptions(resamples=50)), "efficiency")
    ((_, found, _),) = spec.draw_content.args[0]
    assert {name: list(curve.steps)[-1] for name, curve in found.curves.items()} == {
        "cleanrl": 20_480.0,
        "sb3": 20_480.0,
    }
    assert len(found.curves["cleanrl"].steps) == 3
    assert "share no evaluation: TorchRL under" in spec.caption
    assert pixels(render_figure(spec, ["png"], 40)["png"]).std() > 0.05
