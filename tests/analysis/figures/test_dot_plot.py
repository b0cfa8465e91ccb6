import dataclasses
import math

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from parallax.analysis.figures import families
from parallax.analysis.figures.aggregates import find_threshold_range
from parallax.analysis.figures.curves import make_cell_line
from parallax.analysis.figures.dot_plot import (
    compute_score_axis_limits,
    describe_failed_runs,
    draw_score_dots,
)
from parallax.analysis.figures.panels import (
    CurveLine,
    clip_to_bounds,
    make_failed_line,
    set_step_axis,
)
from parallax.analysis.figures.style import get_framework_styles, get_paper_rc_settings
from parallax.analysis.stats.intervals import ConfidenceInterval, compute_interval


def line(scores, name="sb3", size=None):
    scores = np.array(scores, dtype=float)
    none, n = np.empty(0), len(scores)
    return CurveLine(
        name, none, none, none, none, compute_interval(scores, "t"), size or (n, n), scores
    )


def drawn(*lines, usual=3):
    figure = Figure(figsize=(3, 1))
    axis = figure.subplots()
    spots = [(float(i), one) for i, one in enumerate(lines)]
    frame = compute_score_axis_limits(lines, usual)
    with matplotlib.rc_context(get_paper_rc_settings()):
        draw_score_dots(axis, spots, get_framework_styles(one.name for one in lines), frame, usual)
        FigureCanvasAgg(figure).draw()
    return axis, frame


def arrows(axis):
    carets = {4: "left", 5: "right"}
    return [carets[one.get_marker()] for one in axis.lines if one.get_marker() in carets]


def test_every_seed_has_a_dot_at_its_score():
    axis, frame = drawn(line([1.0, 2.0, 6.0]))
    dots = [one for one in axis.lines if len(one.get_xdata()) == 3]
    assert [list(one.get_xdata()) for one in dots] == [[1.0, 2.0, 6.0]]
    assert frame.low < 1 < 6 < frame.high


def test_arrows_mark_only_intervals_that_leave_the_frame():
    wide = line([1.0, 2.0])  # t with one degree of freedom: 1.5 +- 6.4
    assert arrows(drawn(wide, usual=2)[0]) == ["left", "right"]
    half = dataclasses.replace(wide, final=dataclasses.replace(wide.final, high=2.1))
    assert arrows(drawn(half, usual=2)[0]) == ["left"]
    assert arrows(drawn(line([1.0, 2.0, 3.0]))[0]) == []


def test_failed_trainings_have_a_cross_and_a_framework_without_runs_a_number():
    some = dataclasses.replace(line([1.0, 2.0, 3.0], size=(3, 4)), with_failed_runs=1.5)
    none = dataclasses.replace(make_failed_line("skrl", 4), with_failed_runs=-50.0)
    axis, frame = drawn(some, none, usual=4)
    crosses = [one.get_xdata()[0] for one in axis.lines if one.get_marker() == "x"]
    assert crosses == [1.5, frame.low] and frame.low > -10
    assert sorted(text.get_text() for text in axis.texts) == ["0/4", "3/4"]
    assert "Crosses" in describe_failed_runs([some]) and not describe_failed_runs([line([1.0])])


def test_numbers_of_runs_are_next_to_all_intervals():
    axis, frame = drawn(line([1.0, 2.0, 3.0]), line([1.0, 3.0], "cleanrl", (2, 3)))
    (text,) = axis.texts
    assert text.get_text() == "2/3"
    box = text.get_window_extent().transformed(axis.transData.inverted())
    assert box.x0 > frame.high
    assert max(max(one.get_xdata()) for one in axis.lines) <= frame.high


def test_intervals_are_cut_at_the_range_of_possible_returns(study_results):
    key = next(k for k in study_results.groups if study_results.groups[k].n > 2)
    cell, name = key
    low, high = -math.inf, float(study_results.groups[key].scores.max())
    bounds = {**study_results.bounds, cell.env: (-1e9, high)}
    bounded = make_cell_line(dataclasses.replace(study_results, bounds=bounds), cell, name, name)
    assert study_results.finals[key].high > high
    assert bounded.final.high == high
    assert bounded.final.low == study_results.finals[key].low
    ends = clip_to_bounds(
        np.array([-3.0, math.nan]), np.array([9.0, 7.0]), np.array([8.0]), (low, 5.0)
    )
    np.testing.assert_array_equal(ends, [[-3.0, math.nan], [8.0, 7.0]])


@pytest.mark.parametrize("end", [20_480, 400_000, 2_949_120, 3_000_000, 7])
def test_the_last_tick_is_the_last_evaluation(end):
    steps = np.array([0.0, end])
    none = np.zeros(2)
    one = CurveLine(
        "sb3", steps, none, none, none, ConfidenceInterval(0, 0, 0, 2, "t"), (2, 2), none
    )
    axis = Figure().subplots()
    set_step_axis(axis, [one])
    assert axis.get_xticks()[-1] == end
    assert end < axis.get_xlim()[1] < 1.05 * end  # the last marker is whole
    assert 2 <= len(axis.get_xticks()) <= 6
    assert len({text.get_text() for text in axis.get_xticklabels()}) == len(axis.get_xticks())


def test_curve_pages_name_the_return_axis(study_results):
    for name in ("consistency", "ranking"):
        figure = families.make_family_figure_specs(study_results, [name])[name][0].draw()
        assert "mean return" in [text.get_text() for text in figure.texts]


def test_profiles_are_cut_to_the_falling_range(study_results):
    items = [one.profiles for one in study_results.verdicts.overall]
    low, high = find_threshold_range(items)
    thresholds = items[0].thresholds
    assert (low, high) != (thresholds[0], thresholds[-1])
    for item in items:
        assert (item.low[:, thresholds < low] == 1).all()
        assert (item.high[:, thresholds > high] == 0).all()
    assert any((one.low[:, thresholds <= low + 0.03] < 1).any() for one in items)
    flat = dataclasses.replace(items[0], low=items[0].low * 0, high=items[0].high * 0)
    assert find_threshold_range([flat]) == (thresholds[0], thresholds[-1])


def test_optimality_gap_is_labeled_lower_is_better(study_results):
    figure = families.make_family_figure_specs(study_results, ["aggregates"])["aggregates"][
        0
    ].draw()
    titles = [axis.get_title() for axis in figure.axes]
    assert [title for title in titles if "lower is better" in title] == [
        "optimality gap\n(lower is better)"
    ]
