"""Verdicts over many settings: reproduction of published scores, and ranks of algorithms."""

import dataclasses
import functools
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from parallax.analysis.figures import style
from parallax.analysis.figures.figure_spec import FigureSpec, MissingFigure
from parallax.analysis.figures.panels import (
    PanelMargins,
    draw_legend,
    draw_patch_legend,
    label_row,
    make_panel_grid,
)
from parallax.analysis.labels import (
    format_range,
    get_label,
    get_recipe_label,
    group_items,
    make_file_name,
    sort_recipes,
    wrap_task_name,
)
from parallax.analysis.verdicts.ranking import WORST_FIRST, RankingVerdict
from parallax.analysis.verdicts.reproduction import TARGETS_TABLE, VERDICTS, ReproductionVerdict
from parallax.analysis.verdicts.study import StudyResults

_TEST_FORMS = ("thesis' form", "two-sided")
_MIN_COMPARISONS = 2  # a single one is a sentence


@dataclasses.dataclass(frozen=True)
class ReproductionBar:
    """Counts for one framework and algorithm.

    Attributes:
        counts: Per form, the number of verdicts worse, similar and better.
    """

    name: str
    counts: tuple[tuple[int, ...], ...]


def make_reproduction_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one figure per study and variant."""
    compared = [
        item
        for item in results.verdicts.reproduction
        if item.published.table == TARGETS_TABLE
        and item.verdict_thesis_interval
        and item.verdict_two_sided_test
    ]
    found = group_items(compared, lambda item: (item.group.cell.study, item.group.cell.variant))
    found = {key: items for key, items in found.items() if len(items) >= _MIN_COMPARISONS}
    if not found:
        reason = (
            f"fewer than {_MIN_COMPARISONS} frameworks or tasks with two runs under "
            "hyperparameters `original` on a task whose published score the thesis read off"
        )
        return [MissingFigure("reproduction", reason)]
    return [_make_reproduction_figure_spec(results, key, found[key]) for key in sorted(found)]


def _make_reproduction_figure_spec(
    results: StudyResults, key: tuple[str, str], items: Sequence[ReproductionVerdict]
) -> FigureSpec:
    found = group_items(items, lambda item: (item.group.cell.algorithm, item.group.framework))
    bars = [_make_reproduction_bar("all", items)]
    bars += [
        _make_reproduction_bar(f"{get_label(algorithm)}, {get_label(framework)}", own)
        for (algorithm, framework), own in sorted(found.items(), key=lambda entry: entry[0])
    ]
    part = results.variants[key]
    title = "Scores compared with the original papers"
    steps = " to ".join(sorted({f"{item.published.steps:,}" for item in items}))
    sizes = {item.group.n for item in items}
    caption = (
        f"{title} ({part.context}): how many of the {len(items)} comparisons with scores read "
        f"off the papers by the thesis come out worse, similar or better. Left: published "
        "mean against mean ± 1.96·population deviation/√n. Right: two-sided test at "
        f"{results.verdicts.options.alpha:.0%}, without correction. Evaluations nearest to the "
        f"published {steps} steps; n = {format_range(sizes)} runs used."
    )
    name = make_file_name("reproduction", *part.suffix)
    cells = tuple(sorted({item.group.cell for item in items}))
    return FigureSpec(
        name, title, caption, cells, functools.partial(draw_reproduction_figure, tuple(bars))
    )


def _make_reproduction_bar(name: str, items: Sequence[ReproductionVerdict]) -> ReproductionBar:
    forms = (
        [item.verdict_thesis_interval for item in items],
        [item.verdict_two_sided_test for item in items],
    )
    return ReproductionBar(
        name, tuple(tuple(form.count(word) for word in VERDICTS) for form in forms)
    )


def draw_reproduction_figure(bars: tuple[ReproductionBar, ...]) -> Figure:
    """Draw the bars, one panel per form."""
    margins = PanelMargins(left=0.92, right=0.16, top=0.4, bottom=0.3, across=0.22)
    figure, axes = make_panel_grid(
        1, 2, style.COLUMN_WIDTH, 0.17 * len(bars) + 0.1, margins, True, True
    )
    for i, axis in enumerate(axes[0]):
        _draw_test_form(axis, bars, i)
    draw_patch_legend(figure, {word: style.VERDICT_COLORS[word] for word in VERDICTS})
    figure.text(0.6, 0.04 / figure.get_figheight(), "share of comparisons", ha="center")
    return figure


def _draw_test_form(axis: Axes, bars: tuple[ReproductionBar, ...], form: int) -> None:
    axis.set_title(_TEST_FORMS[form])
    for i, bar in enumerate(bars):
        total, left = sum(bar.counts[form]), 0.0
        for word, count in zip(VERDICTS, bar.counts[form], strict=True):
            share = count / total if total else 0.0
            color = style.VERDICT_COLORS[word]
            axis.barh(i, share, left=left, height=0.78, color=color, edgecolor="0.4", linewidth=0.4)
            if share > 0.05:
                axis.text(
                    left + share / 2,
                    i,
                    str(count),
                    ha="center",
                    va="center",
                    fontsize=style.SMALL_FONT,
                )
            left += share
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
    axis.set_ylim(len(bars) - 0.5, -0.5)
    axis.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axis.grid(visible=False)
    axis.axhline(0.5, color="0.3", linewidth=0.6)


@dataclasses.dataclass(frozen=True)
class RankPanel:
    """One task under one configuration.

    Attributes:
        same_order: Bootstrap probability of the same order in all of them.
        chance: The same if all algorithms tied.
        ranks: Per algorithm its rank in each framework.
    """

    verdict: str
    same_order: float
    chance: float
    frameworks: tuple[str, ...]
    ranks: tuple[tuple[str, tuple[float, ...]], ...]


def make_rank_figure_specs(results: StudyResults) -> list[FigureSpec | MissingFigure]:
    """Return one page per study and variant."""
    found = group_items(results.verdicts.rankings, lambda item: (item.study, item.variant))
    reason = "no two frameworks ran the same two algorithms in the same setting"
    return [_make_rank_figure_spec(results, key, found[key]) for key in sorted(found)] or [
        MissingFigure("ranks", reason)
    ]


def _make_rank_figure_spec(
    results: StudyResults, key: tuple[str, str], items: list[RankingVerdict]
) -> FigureSpec:
    rows = tuple(sorted({item.env for item in items}))
    columns = sort_recipes(item.hps for item in items)
    known = {(item.env, item.hps): _make_rank_panel(item) for item in items}
    panels = tuple(tuple(known.get((env, hps)) for hps in columns) for env in rows)
    sizes = {group.n for i in items for ranked in i.rankings for group in ranked.groups}
    part = results.variants[key]
    title = "Ranks of the algorithms"
    caption = (
        f"{title} ({part.context}): 1 is best; algorithms that Welch's test does not separate "
        f"at {results.verdicts.options.alpha:.0%} (Holm-corrected within a framework) "
        "share their ranks. Marks: algorithms, a row per framework. Background: verdict on all "
        "frameworks. Number: bootstrap probability "
        "that no two algorithms' means are in opposite orders, and in brackets what it would be on "
        f"average if all algorithms tied. n = {format_range(sizes)} runs used per point."
    )
    name = make_file_name("ranks", *part.suffix)
    labels = tuple(get_recipe_label(hps) for hps in columns)
    cells = {g.cell for item in items for ranked in item.rankings for g in ranked.groups}
    return FigureSpec(
        name,
        title,
        caption,
        tuple(sorted(cells)),
        functools.partial(draw_rank_figure, panels, rows, labels),
    )


def _make_rank_panel(item: RankingVerdict) -> RankPanel:
    return RankPanel(
        item.verdict,
        item.same_order,
        item.chance.mean,
        tuple(ranked.framework for ranked in item.rankings),
        tuple(
            (algorithm, tuple(float(ranked.ranks[i]) for ranked in item.rankings))
            for i, algorithm in enumerate(item.algorithms)
        ),
    )


def draw_rank_figure(
    panels: tuple[tuple[RankPanel | None, ...], ...], rows: tuple[str, ...], labels: tuple[str, ...]
) -> Figure:
    """Draw a small panel per task and configuration."""
    shown = [panel for row in panels for panel in row if panel]
    styles = style.get_algorithm_styles([name for panel in shown for name, _ in panel.ranks])
    names = sorted({name for panel in shown for name in panel.frameworks})
    margins = PanelMargins(left=1.32, top=0.58, bottom=0.36, across=0.08, down=0.1)
    width = margins.left + (style.PAGE_WIDTH - margins.left) * max(2, len(labels)) / 4
    height = 0.08 + 0.15 * len(names)
    figure, axes = make_panel_grid(
        len(rows), len(labels), min(style.PAGE_WIDTH, width), height, margins, True, True
    )
    draw_legend(
        figure, {name: dataclasses.replace(look, line="none") for name, look in styles.items()}
    )
    verdicts = [word for word in WORST_FIRST if any(word == panel.verdict for panel in shown)]
    draw_patch_legend(figure, {word: style.VERDICT_COLORS[word] for word in verdicts}, 0.2)
    for axis, text in zip(axes[0], labels, strict=True):
        axis.set_title(text)
    axes[0, 0].set_xlim(0.5, len(styles) + 1.1)  # numbers stand at the right
    axes[0, 0].set_xticks(range(1, len(styles) + 1))
    axes[0, 0].set_ylim(len(names) - 0.4, -0.6)
    axes[0, 0].set_yticks(range(len(names)), [get_label(name) for name in names])
    for i, row in enumerate(panels):
        label_row(axes[i, 0], wrap_task_name(rows[i], 12))
        for axis, panel in zip(axes[i], row, strict=True):
            _draw_rank_panel(axis, panel, styles, names)
    figure.text(0.55, 0.05 / figure.get_figheight(), "rank, 1 is best", ha="center")
    return figure


def _draw_rank_panel(
    axis: Axes, panel: RankPanel | None, styles: dict[str, style.SeriesStyle], names: Sequence[str]
) -> None:
    """Draw a mark per algorithm at its rank, a row per framework; frameworks have no order."""
    axis.grid(axis="y", visible=False)
    if panel is None:
        axis.text(
            0.5, 0.5, "no verdict", ha="center", transform=axis.transAxes, fontsize=style.SMALL_FONT
        )
        return
    axis.set_facecolor(matplotlib.colors.to_rgba(style.VERDICT_COLORS[panel.verdict], 0.55))
    apart = 0.44 / max(1, len(styles) - 1)  # so that algorithms of equal rank can be seen
    for i, (name, ranks) in enumerate(panel.ranks):
        look, shift = styles[name], apart * (i - (len(panel.ranks) - 1) / 2)
        axis.plot(
            ranks,
            [names.index(framework) + shift for framework in panel.frameworks],
            color=look.color,
            linestyle="none",
            marker=look.marker,
            markersize=3.5,
        )
    axis.text(
        0.98,
        0.5,
        f"{panel.same_order:.2f}\n({panel.chance:.2f})",
        transform=axis.transAxes,
        ha="right",
        va="center",
        fontsize=style.SMALL_FONT - 1,
        color="0.2",
    )
