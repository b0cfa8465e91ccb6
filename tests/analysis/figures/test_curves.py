import dataclasses

import matplotlib
import numpy as np
import pytest

from parallax.analysis.data.load import load_runs
from parallax.analysis.figures.curves import (
    arrange_panels,
    draw_learning_curves,
    format_caption,
    format_panel_title,
)
from parallax.analysis.figures.figure_spec import encode_figure
from parallax.analysis.figures.panels import compute_return_limits
from parallax.analysis.figures.style import get_algorithm_styles, get_framework_styles
from parallax.analysis.verdicts.curves import make_panels


def panels_of(results, method="t", steps_of_last=None):
    """Makes the panels; the last run has the evaluations of another schedule, as imported ones."""
    loaded = load_runs(results)
    if steps_of_last:
        last = dataclasses.replace(loaded.runs[-1], timesteps=np.array(steps_of_last))
        loaded = dataclasses.replace(loaded, runs=(*loaded.runs[:-1], last))
    return make_panels(loaded, method, np.random.default_rng(0))


def test_the_line_is_the_mean_over_seeds_of_the_mean_over_episodes(results, make_run):
    make_run(seed=0, timesteps=[10, 20], scheduled=20, returns=[[1, 3], [5, 5]])
    make_run(seed=1, timesteps=[10, 20], scheduled=20, returns=[[4, 4], [9, 9]])
    (panel,) = panels_of(results)
    (curve,) = panel.curves
    assert curve.steps.tolist() == [10, 20]
    assert curve.mean.tolist() == [3, 7]
    assert (curve.low < curve.mean).all()
    assert curve.left_out == 0


def test_seeds_are_aggregated_at_common_steps_stated_in_the_caption(results, make_run):
    make_run(seed=0, timesteps=[10, 20, 30], scheduled=30, returns=[[1], [2], [3]])
    make_run(seed=1, timesteps=[10, 20, 30], scheduled=30, returns=[[3], [4], [5]])
    panels = panels_of(results, steps_of_last=[10, 25, 30])
    curve = panels[0].curves[0]
    assert curve.steps.tolist() == [10, 30]
    assert curve.mean.tolist() == [2, 4]
    assert curve.left_out == 2
    assert "Seeds of SB3 were evaluated at different steps" in format_caption(panels, "t")


@pytest.mark.parametrize("method", ["t", "thesis", "bootstrap"])
def test_seeds_without_any_common_step_are_drawn_without_a_mean(results, make_run, method):
    make_run(seed=0, timesteps=[10, 20], scheduled=20, steps=20)
    make_run(seed=1, timesteps=[10, 20], scheduled=20, steps=20)
    panels = panels_of(results, method, steps_of_last=[15, 30])
    assert panels[0].curves[0].steps.size == 0
    draw_learning_curves(panels, method)


def test_the_return_axis_holds_all_seeds_and_cuts_only_wide_intervals(results, make_run):
    for seed in range(3):
        make_run(seed=seed, score=100 + 50 * seed)
        make_run(seed=seed, score=100 + seed, env="Ant-v5")
    ant, hopper = panels_of(results)
    low, high, cut = compute_return_limits(hopper.curves)
    assert cut
    assert low < -0.5
    assert 200 < high < 300
    low, high, cut = compute_return_limits(ant.curves)
    assert not cut
    assert high > np.nanmax(ant.curves[0].high)
    assert "cut wide intervals off" in format_caption((ant, hopper), "t")
    assert "cut wide intervals off" not in format_caption((ant,), "t")


@pytest.mark.parametrize("score", [0.0, -5.0, 1000.0, 1e30])
def test_constant_returns_have_a_return_axis(results, make_run, score):
    for seed in range(2):
        make_run(seed=seed, timesteps=[1, 2], scheduled=2, returns=[[score], [score]])
    (panel,) = panels_of(results)
    low, high, _ = compute_return_limits(panel.curves)
    assert low < panel.curves[0].mean[0] < high
    draw_learning_curves([panel], "t")


def test_framework_style_does_not_depend_on_other_frameworks():
    every = get_framework_styles(["zed", "torchrl", "sb3", "cleanrl", "another"])
    assert get_framework_styles(["torchrl"])["torchrl"] == every["torchrl"]
    assert len({look.color for look in every.values()}) == 5
    assert len({look.marker for look in every.values()}) == 5


def test_rows_are_environments_and_columns_algorithms(results, make_run):
    for env, algorithm in (("Ant-v5", "ppo"), ("Ant-v5", "sac"), ("Hopper-v5", "sac")):
        make_run(env=env, algorithm=algorithm)
    make_run(env="Ant-v5", algorithm="ppo", hps="sb3")
    grid = arrange_panels(panels_of(results))
    cells = [[panel and (panel.cell.env, panel.cell.hps) for panel in row] for row in grid]
    assert cells == [
        [("Ant-v5", "original"), ("Ant-v5", "original")],
        [("Ant-v5", "sb3"), None],
        [None, ("Hopper-v5", "original")],
    ]


def test_the_caption_names_method_and_runs_per_framework(results, make_run):
    make_run(seed=0)
    make_run(seed=1, status="failed")
    panels = panels_of(results)
    text = format_caption(panels, "t")
    assert "95% interval, t (" in text
    assert "used/requested: SB3 1/2" in text
    assert "Fewer than three seeds have no shade" in text
    assert text.startswith("Study demo, hyperparameters original, steps=20000, alignment=common.")


def test_titles_carry_the_numbers_of_runs_where_they_differ(results, make_run):
    make_run(env="Ant-v5")
    make_run(env="Hopper-v5")
    make_run(env="Hopper-v5", framework="cleanrl", status="running")
    panels = panels_of(results)
    assert format_panel_title(panels[1], panels) == "Hopper-v5, PPO\nCleanRL 0/1, SB3 1/1"
    assert "see titles" in format_caption(panels, "t")


def test_dollar_signs_and_settings_without_runs_do_not_break_the_picture(results, make_run):
    make_run(study="$\\frac")
    make_run(study="$\\frac", env="Ant-v5", status="pending")
    figure = draw_learning_curves(panels_of(results), "t")
    figure.canvas.draw()
    titles = [axis.get_title() for axis in figure.axes]
    assert [title.partition(",")[0] for title in titles] == ["Ant-v5", "Hopper-v5"]
    assert [bool(axis.lines) for axis in figure.axes] == [False, True]


def test_files_are_the_same_bytes_each_time(results, make_run):
    for seed in range(3):
        make_run(seed=seed)
    first, second = (encode_figure(draw_learning_curves(panels_of(results), "t")) for _ in range(2))
    assert first == second and first.keys() == {"png", "pdf"}
    assert b"CreationDate" not in first["pdf"]


def test_every_row_names_its_axis_even_where_the_first_panel_is_missing(results, make_run):
    make_run(env="Ant-v5", algorithm="ppo")
    make_run(env="Hopper-v5", algorithm="sac")
    figure = draw_learning_curves(panels_of(results), "t")
    assert [axis.get_ylabel() for axis in figure.axes] == ["mean return", "", "", "mean return"]


def test_no_algorithm_has_the_style_of_a_framework():
    frameworks = get_framework_styles(["cleanrl", "sb3", "torchrl", "tianshou", "skrl"])
    algorithms = get_algorithm_styles(["ppo", "td3", "sac"])
    colors = [matplotlib.colors.to_hex(look.color) for look in frameworks.values()]
    assert not {matplotlib.colors.to_hex(look.color) for look in algorithms.values()} & set(colors)
