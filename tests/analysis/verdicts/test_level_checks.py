"""Checks of levels of alignment: longer runs, and a negative control."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from score_groups import install_torch, make_curve_run, make_score_group

from parallax.analysis.data.runs import ExcludedRun, RunId, StudyCell
from parallax.analysis.report.document import Document
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.report.sections.level_checks import make_control_section, make_longer_section
from parallax.analysis.verdicts import level_checks
from parallax.analysis.verdicts.alignment_levels import LEVELS, judge_alignment_levels
from parallax.analysis.verdicts.endpoints import find_solved_scale
from parallax.analysis.verdicts.groups import make_group
from parallax.analysis.verdicts.level_checks import judge_longer_runs, judge_negative_controls
from parallax.analysis.verdicts.options import VerdictOptions

OPTIONS = VerdictOptions()


def make_runs(framework, steps, late, seeds=2, more="", intervention="none", gamma=0.9, failed=0):
    cell = StudyCell(
        f"s{steps}", "CartPole-v1", "ppo", "zoo", f"steps={steps},alignment=exact{more}"
    )
    spec = {"alignment": "exact", "steps": steps, "intervention": intervention}
    spec |= {"hyperparameters": {"gamma": gamma}}
    scale = find_solved_scale(cell, OPTIONS)
    returns = scale.zero + scale.width * np.array([0, 0, late - 10, late, late + 10]) / 100
    at = np.linspace(0, steps, len(returns)).astype(int)
    runs = [make_curve_run(cell, framework, seed, at, returns, spec=spec) for seed in range(seeds)]
    place, broken = RunId(cell, framework, seeds), {"failed": True, "spec": spec}
    runs += [ExcludedRun(place, Path("broken"), "it broke", **broken) for _ in range(failed)]
    return make_group(cell, framework, runs)


def test_gain_is_that_of_the_last_evaluations_averaged_over_frameworks():
    own = [make_runs("a", 100, 50), make_runs("b", 100, 70), make_runs("c", 100, 0)]
    longer = [make_runs("a", 200, 60, seeds=1), make_runs("b", 200, 100, seeds=1)]
    (found,) = judge_longer_runs(own, longer, OPTIONS)
    assert found.steps == (100, 200) and found.level == "exact"
    assert sorted(found.scores) == ["a", "b"]
    assert found.scores["a"] == pytest.approx([0.5, 0.5])
    assert found.scores["b"] == pytest.approx([0.7, 0.7])
    assert found.gain.mean == pytest.approx(0.2) and found.gain.n == 2
    page = render_markdown(Document("", (make_longer_section([found]),)))
    gains = ["0.20 \\[-1.07, 1.47]", "0.10 (a) to 0.30 (b)"]
    words = ["100", "0.60 (4 runs)", "200", "0.80 (2 runs)", *gains]
    assert [part.strip() for part in page.split("PPO on CartPole-v1")[1].split("|")][2:8] == words


@pytest.mark.parametrize(
    "longer",
    [
        make_runs("a", 100, 60),
        make_runs("a", 50, 60),
        make_runs("other", 200, 60),
        make_runs("a", 200, 60, more=",gamma=0.9"),
        make_runs("a", 200, 60, intervention="no-clipping"),
        make_runs("a", 200, 60, seeds=0),
        make_runs("a", 200, 60, gamma=0.5),
    ],
    ids=["as-long", "shorter", "framework", "variant", "intervention", "empty", "hyperparameter"],
)
def test_only_longer_runs_of_the_same_setting_are_compared(longer):
    assert judge_longer_runs([make_runs("a", 100, 50)], [longer], OPTIONS) == ()


@pytest.mark.parametrize(("seeds", "gain"), [((2, 0), -0.2), ((0, 2), 0.4), ((0, 0), None)])
def test_runs_count_as_0_where_all_runs_of_a_framework_failed(seeds, gain):
    own, longer = (
        [make_runs("a", steps, 50), make_runs("b", steps, late, seeds=n, failed=2 * (not n))]
        for steps, late, n in zip((100, 200), (40, 80), seeds, strict=True)
    )
    (found,) = judge_longer_runs(own, longer, OPTIONS)
    assert found.gain.mean == pytest.approx(gain or 0.0) and found.level == "exact"
    assert sorted(found.gains) == (["a"] if gain is None else ["a", "b"])


def test_longer_runs_of_two_studies_are_two_rows():
    own, longer = [make_runs("a", 100, 50)], make_runs("a", 200, 60)
    again = dataclasses.replace(
        make_runs("a", 200, 90), cell=dataclasses.replace(longer.cell, study="again")
    )
    (alone,) = judge_longer_runs(own, [longer], OPTIONS)
    assert alone.name == "PPO on CartPole-v1"
    found = judge_longer_runs(own, [longer, again], OPTIONS)
    assert {one.name: one.gain.mean for one in found} == pytest.approx(
        {"PPO on CartPole-v1 (s100 and again)": 0.4, "PPO on CartPole-v1 (s100 and s200)": 0.1}
    )


def test_versions_that_differ_between_runs_and_longer_ones_are_named():
    own, longer = make_runs("a", 100, 50), make_runs("a", 200, 60)
    (same,) = judge_longer_runs([install_torch(own, "2")], [install_torch(longer, "2")], OPTIONS)
    (other,) = judge_longer_runs([install_torch(own, "2")], [install_torch(longer, "3")], OPTIONS)
    assert (same.versions, same.name) == ("", other.name)
    text = "PPO on CartPole-v1: Compared runs have different versions of torch 2 and 3."
    pages = [render_markdown(Document("", (make_longer_section([one]),))) for one in (same, other)]
    assert [text in page for page in pages] == [False, True]


def test_a_task_without_a_solved_score_is_left_out():
    cell = StudyCell("s", "Unknown-v0", "ppo", "zoo", "alignment=exact")
    groups = [
        make_group(
            cell,
            "a",
            [make_curve_run(cell, "a", 0, [0, 1], [0, 1], spec={"alignment": "exact", "steps": n})],
        )
        for n in (100, 200)
    ]
    assert judge_longer_runs(groups[:1], groups[1:], VerdictOptions()) == ()


def make_level_group(generator, env, level, number, share):
    cell = StudyCell("ladder", env, "ppo", "original", f"alignment={level}")
    low, width = {"CartPole-v1": (23, 452), "Pendulum-v1": (-1216, 1066)}[env]
    scores = low + width * (share + 0.02 * generator.normal(size=8))
    return make_score_group(cell, f"f{number}", scores, {"alignment": level, "steps": 1000})


@pytest.mark.parametrize(("distance", "low", "high"), [(0.0, 0.05, 1.0), (0.3, 0.0, 0.04)])
def test_control_frameworks_of_the_same_updates_are_compared(monkeypatch, distance, low, high):
    generator = np.random.default_rng(3)
    groups = [
        make_level_group(generator, env, level, number, 0.2 + number * distance)
        for env in ("CartPole-v1", "Pendulum-v1")
        for level in LEVELS
        for number in range(3)
    ]
    (results,) = judge_alignment_levels(groups, OPTIONS)
    monkeypatch.setattr(
        level_checks,
        "is_same_algorithm",
        lambda one, two: (
            (one.cell.env, one.framework, two.framework) == ("CartPole-v1", "f0", "f2")
        ),
    )
    (found,) = judge_negative_controls(results, ("f0", "f2"), generator)
    assert found.task.env == "CartPole-v1" and found.seeds == 8
    assert low <= found.p <= high and (found.interval[0] > 0) == (distance > 0)
    assert found.spread == pytest.approx(2 * distance / np.sqrt(2), abs=0.02)
    for names in (("f0", "f1"), ("f0", "f2", "f1"), ("f0",), (), ("f0", "f9")):
        assert judge_negative_controls(results, names, generator) == ()
    page = render_markdown(Document("", (make_control_section([found]),)))
    assert "| PPO on CartPole-v1 | f0, f2       | 8 " in page
