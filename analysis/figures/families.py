"""All families of figures by name."""

import dataclasses
from collections.abc import Callable, Sequence

from parallax.analysis.figures import (
    action_distributions,
    aggregates,
    alignment_levels,
    curves,
    final_scores,
    highlights,
    pair_differences,
    time_to_solved,
    verdicts,
)
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure, limit_settings
from parallax.analysis.verdicts.study import StudyResults


@dataclasses.dataclass(frozen=True)
class FigureFamily:
    """Figures that show the same quantity for different parts of a study."""

    name: str
    summary: str
    make_specs: Callable[[StudyResults], list[FigureSpec | MissingFigure]]


FAMILIES = (
    FigureFamily(
        "reproduction",
        "how often worse, similar, better than published",
        verdicts.make_reproduction_figure_specs,
    ),
    FigureFamily(
        "highlights",
        "the settings that differ most, curves over scores",
        highlights.make_highlight_figure_specs,
    ),
    FigureFamily("wrappers", "curves without and with wrappers", curves.make_wrapper_figure_specs),
    FigureFamily(
        "vectorised",
        "curves with one and several environments",
        curves.make_parallel_env_figure_specs,
    ),
    FigureFamily(
        "actions",
        "distributions of actions under clipping and tanh",
        action_distributions.make_action_figure_specs,
    ),
    FigureFamily(
        "intervals", "scores with intervals, per algorithm", final_scores.make_interval_figure_specs
    ),
    FigureFamily(
        "consistency",
        "curves of all frameworks, per algorithm",
        curves.make_consistency_figure_specs,
    ),
    FigureFamily(
        "ranking",
        "curves of all algorithms, per configuration",
        curves.make_ranking_curve_figure_specs,
    ),
    FigureFamily(
        "verdicts",
        "differences between frameworks in margins, with intervals",
        pair_differences.make_pair_difference_figure_specs,
    ),
    FigureFamily("ranks", "ranks of algorithms in each framework", verdicts.make_rank_figure_specs),
    FigureFamily(
        "profiles", "performance profiles over all tasks", aggregates.PROFILES.make_figure_specs
    ),
    FigureFamily(
        "aggregates",
        "median, mean, interquartile mean, optimality gap",
        aggregates.AGGREGATES.make_figure_specs,
    ),
    FigureFamily(
        "efficiency",
        "interquartile mean over tasks, over steps",
        aggregates.EFFICIENCY.make_figure_specs,
    ),
    FigureFamily(
        "improvement",
        "chance that one framework's run beats another's",
        aggregates.IMPROVEMENT.make_figure_specs,
    ),
    FigureFamily(
        "levels",
        "scores at each level of alignment, shares of hyperparameters and code",
        alignment_levels.make_level_figure_specs,
    ),
    FigureFamily(
        "reached",
        "share of runs that reached 90% of the way to solved, over steps",
        time_to_solved.make_reached_figure_specs,
    ),
)


MAIN_FAMILIES = (
    *("levels", "reached", "reproduction", "verdicts", "intervals", "consistency", "ranks"),
    *("aggregates", "efficiency"),
)
"""Families of figures that pages in Markdown show."""


def list_family_names() -> list[str]:
    """Return the names of all families."""
    return [family.name for family in FAMILIES]


def make_family_figure_specs(
    results: StudyResults, only: Sequence[str]
) -> dict[str, list[FigureSpec | MissingFigure]]:
    """Return the figures of some families, or of all where none is named; names are unique."""
    return {
        family.name: [
            dataclasses.replace(item, is_main=family.name in MAIN_FAMILIES)
            if isinstance(item, FigureSpec)
            else item
            for item in map(limit_settings, family.make_specs(results))
        ]
        for family in FAMILIES
        if not only or family.name in only
    }
