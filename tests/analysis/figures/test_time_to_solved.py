"""Share of runs that reached a threshold: censored and failed runs, and the figure."""

import dataclasses

import numpy as np
import pytest
from score_groups import make_score_group

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.time_to_solved import draw_reached_figure, estimate_reaching
from parallax.analysis.verdicts.alignment_levels import LevelResults, list_level_spreads
from parallax.analysis.verdicts.options import VerdictOptions

OPTIONS = VerdictOptions(ranges=(("Task-v0", 0, 100),))


def make_group(level, returns, failed=0):
    cell = StudyCell("ladder", "Task-v0", "ppo", "original", f"alignment={level}")
    spec = {"alignment": level, "steps": 300, "intervention": "none"}
    group = make_score_group(cell, "sb3", np.array([row[-1] for row in returns], float), spec)
    runs = tuple(
        dataclasses.replace(
            run, timesteps=np.array([100, 200, 300]), results=np.array(row, float)[:, None]
        )
        for run, row in zip(group.runs, returns, strict=True)
    )
    return dataclasses.replace(group, runs=runs, failed=failed)


RETURNS = [[0, 95, 95], [0, 50, 60], [95, 0, 95]]


@pytest.mark.parametrize(
    ("failed", "steps", "shares"), [(0, [100, 200], [1 / 3, 2 / 3]), (1, [100, 200], [0.25, 0.5])]
)
def test_runs_that_never_get_there_count(failed, steps, shares):
    groups = [make_group(level, RETURNS, failed) for level in ("exact", "lockstep")]
    spread = list_level_spreads(groups, OPTIONS)[0]
    curve = estimate_reaching(spread.groups["sb3"], spread)
    assert list(curve.steps) == steps
    assert 1 - curve.share == pytest.approx(shares)


def test_a_level_without_runs_has_no_panel():
    groups = [make_group(level, RETURNS) for level in ("exact", "lockstep")]
    results = LevelResults(list_level_spreads(groups, OPTIONS), None, None, "return")
    own, exact, _ = draw_reached_figure(results).axes
    assert not own.texts and not own.lines and not own.axison
    assert [text.get_text() for text in exact.texts] == ["equal hyperparameters, n = 3 each"]
    (line,) = exact.lines
    assert list(line.get_xdata()) == [0, 100, 200, pytest.approx(309)]
    assert list(line.get_ydata()) == pytest.approx([0, 1 / 3, 2 / 3, 2 / 3])
