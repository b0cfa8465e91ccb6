"""Checks of the answer of a study with several levels: longer runs, a negative control."""

from collections.abc import Mapping, Sequence

import numpy as np

from parallax.analysis.figures.alignment_levels import LEVEL_LABELS, format_estimate
from parallax.analysis.labels import get_label
from parallax.analysis.report.document import Grid, ReportSection, Words
from parallax.analysis.report.tables import format_bare_p_value
from parallax.analysis.stats.moments import FloatArray
from parallax.analysis.verdicts.alignment_levels import LATE_EVALUATIONS
from parallax.analysis.verdicts.level_checks import LongerRuns, NegativeControl


def make_control_section(controls: Sequence[NegativeControl]) -> ReportSection:
    """Return the spread between frameworks that compute the same updates."""
    rows: list[tuple[Words, ...]] = [
        (
            one.task.name,
            ", ".join(map(get_label, one.frameworks)),
            str(one.seeds),
            f"{one.spread:.2f} [{one.interval[0]:.2f}, {one.interval[1]:.2f}]",
            format_bare_p_value(one.p),
        )
        for one in controls
    ]
    return ReportSection(
        "Negative control",
        (
            "At equal update code, lockstep training shows these frameworks to compute the same "
            "updates. Unless their initial weights or random numbers differ in distribution, their "
            "spread should be 0.",
            Grid(("task", "frameworks", "seeds", "spread", "p"), tuple(rows)),
            "Spread: 95% bootstrap interval over seeds. p: F test with runs permuted within each "
            "seed, uncorrected.",
        ),
    )


def make_longer_section(longer: Sequence[LongerRuns]) -> ReportSection:
    """Return the scores of runs beside those of longer ones."""
    rows: list[tuple[Words, ...]] = [
        (
            one.name,
            LEVEL_LABELS[one.level],
            f"{one.steps[0]:,}",
            f"{_average_scores(one.scores):.2f} ({_count_scores(one.scores)} runs)",
            f"{one.steps[1]:,}",
            f"{_average_scores(one.longer):.2f} ({_count_scores(one.longer)} runs)",
            format_estimate(one.gain),
            _describe_extreme_gains(one),
        )
        for one in longer
    ]
    heads = ("task", "level", "steps", "score")
    return ReportSection(
        "Longer runs",
        (
            "Are the runs long enough? Scores at their end, and at the end of longer runs of the "
            "same frameworks with the same hyperparameters.",
            Grid((*heads, "more steps", "score", "gain", "gains"), tuple(rows)),
            f"Score: mean of the last {LATE_EVALUATIONS} evaluations, averaged over frameworks; 0 "
            "does nothing, 1 is solved. Gain: mean over frameworks with a 95% t interval, "
            "uncorrected. Gains: the smallest and the largest of a framework. "
            "Schedules, such as that of a learning rate, stretch with the length.",
            *(f"{one.name}: {one.versions}" for one in longer if one.versions),
        ),
    )


def _describe_extreme_gains(one: LongerRuns) -> str:
    gains = one.gains
    least, most = (choose(gains, key=lambda name: gains[name]) for choose in (min, max))
    return f"{gains[least]:z.2f} ({get_label(least)}) to {gains[most]:z.2f} ({get_label(most)})"


def _average_scores(scores: Mapping[str, FloatArray]) -> float:
    return float(np.mean([values.mean() for values in scores.values()]))


def _count_scores(scores: Mapping[str, FloatArray]) -> int:
    return sum(map(len, scores.values()))
