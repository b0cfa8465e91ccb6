"""Runs beside longer ones: how far scores still rise."""

import numpy as np
import pytest
from score_groups import make_curve_run

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.report.document import Document
from parallax.analysis.report.render_markdown import render_markdown
from parallax.analysis.report.sections.alignment_levels import make_longer_section
from parallax.analysis.verdicts.endpoints import find_solved_scale
from parallax.analysis.verdicts.groups import make_group
from parallax.analysis.verdicts.longer_runs import judge_longer_runs
from parallax.analysis.verdicts.options import VerdictOptions

OPTIONS = VerdictOptions()


def make_runs(framework, steps, late, seeds=2, more="", intervention="none"):
    cell = StudyCell(
        f"s{steps}", "CartPole-v1", "ppo", "zoo", f"steps={steps},alignment=exact{more}"
    )
    spec = {"alignment": "exact", "steps": steps, "intervention": intervention}
    scale = find_solved_scale(cell, OPTIONS)
    returns = scale.zero + scale.width * np.array([0, 0, late - 10, late, late + 10]) / 100
    at = np.linspace(0, steps, len(returns)).astype(int)
    runs = [make_curve_run(cell, framework, seed, at, returns, spec=spec) for seed in range(seeds)]
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
    ],
    ids=["as-long", "shorter", "framework", "hyperparameter", "intervention", "empty"],
)
def test_only_longer_runs_of_the_same_setting_are_compared(longer):
    assert judge_longer_runs([make_runs("a", 100, 50)], [longer], OPTIONS) == ()


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
