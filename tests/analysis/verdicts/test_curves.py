"""Learning curves: common steps of seeds, counted runs, and reference policies."""

from pathlib import Path

import numpy as np
import pytest
from score_groups import make_curve_run

from parallax.analysis.data.runs import ExcludedRun, LoadedRuns, RunId, StudyCell
from parallax.analysis.stats.intervals import compute_interval
from parallax.analysis.verdicts.curves import make_curve, make_panels
from parallax.analysis.verdicts.failures import count_failed_as_bottom
from parallax.analysis.verdicts.groups import group_runs
from parallax.analysis.verdicts.options import VerdictOptions

CELL = StudyCell("s", "Pendulum-v1", "ppo", "original", "")
OTHER = StudyCell("s", "Mine-v1", "ppo", "original", "")


def rng():
    return np.random.default_rng(0)


def test_a_curve_has_the_evaluations_that_all_seeds_share():
    runs = [
        make_curve_run(CELL, "sb3", 0, [0, 200, 300], [[1, 3], [4, 4], [6, 8]]),
        make_curve_run(CELL, "sb3", 1, [200, 300, 400], [[2, 2], [9, 9], [0, 1]]),
    ]
    found = make_curve("sb3", runs, "t", rng())
    assert (found.framework, found.steps.tolist(), found.left_out) == ("sb3", [200, 300], 2)
    for k, values in enumerate(([4.0, 2.0], [7.0, 9.0])):
        expected = compute_interval(values)
        ends = found.mean[k], found.low[k], found.high[k]
        assert ends == pytest.approx((expected.mean, expected.low, expected.high))
    assert [seed[1].tolist() for seed in found.seeds] == [[2, 4, 7], [2, 9, 0.5]]
    assert [seed[0].tolist() for seed in found.seeds] == [[0, 200, 300], [200, 300, 400]]


def test_panels_count_every_folder_and_draw_used_runs():
    runs = [
        make_curve_run(CELL, name, seed, [0, 100], [-1500.0, -200.0 - seed])
        for name, seed in (("sb3", 0), ("sb3", 1), ("cleanrl", 0))
    ]
    gone = [
        ExcludedRun(RunId(cell, name, 5), Path(f"{name}-5"), "failed", failed=True)
        for cell, name in ((CELL, "sb3"), (CELL, "skrl"), (OTHER, "sb3"))
    ]
    loaded = LoadedRuns(Path(), tuple(runs), tuple(gone))
    treated = count_failed_as_bottom(group_runs(loaded), VerdictOptions())
    other, own = make_panels(loaded, "t", rng(), treated)
    assert (own.cell, other.cell) == (CELL, OTHER)
    assert [curve.framework for curve in own.curves] == ["cleanrl", "sb3"]
    assert own.sizes == {"cleanrl": "1/1", "sb3": "2/3", "skrl": "0/1"}
    assert (other.curves, other.sizes) == ((), {"sb3": "0/1"})
    # The untrained policies are the beginnings of the curves.
    assert {one.name for one in own.references} == {"do nothing", "random actions"}
    assert other.references == () and other.with_failed_runs == ()
    assert [curve.framework for curve in own.with_failed_runs] == ["sb3", "skrl"]
    assert [len(curve.seeds) for curve in own.with_failed_runs] == [3, 1]
    assert make_panels(loaded, "t", rng())[1].with_failed_runs == ()
