"""How often scores are worse, similar or better than published (thesis Figure 5)."""

import dataclasses
import functools
from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.panels import Margins, panel_grid, patch_legend
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import COLUMN, SMALL, VERDICT_COLORS, paper_settings
from analysis.verdicts.reproduction import BETTER, SIMILAR, WORSE, ReproductionVerdict
from analysis.verdicts.study import Material
from analysis.words import file_name, label, span

TABLE = "thesis_targets"
_WORDS = (WORSE, SIMILAR, BETTER)
_FORMS = ("thesis' form", "two-sided")


@dataclasses.dataclass(frozen=True)
class Bar:
    """Counts for one framework and algorithm.

    Attributes:
        name: Text at its left.
        counts: Per form, the number of verdicts worse, similar and better.
    """

    name: str
    counts: tuple[tuple[int, ...], ...]


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per study and variant."""
    found: dict[tuple[str, str], list[ReproductionVerdict]] = {}
    for item in material.verdicts.reproduction:
        if item.published.table == TABLE and item.thesis_form and item.two_sided:
            cell = item.group.cell
            found.setdefault((cell.study, cell.variant), []).append(item)
    if not found:
        reason = (
            "no two runs under hyperparameters `original` on a task whose published score the "
            "thesis read off"
        )
        return [NotDrawn("reproduction", reason)]
    return [_sheet(material, key, found[key]) for key in sorted(found)]


def _sheet(material: Material, key: tuple[str, str], items: Sequence[ReproductionVerdict]) -> Sheet:
    algorithms = sorted({item.group.cell.algorithm for item in items})
    frameworks = sorted({item.group.framework for item in items})
    bars = [_bar("all", items)]
    for algorithm in algorithms:
        for framework in frameworks:
            own = [
                item
                for item in items
                if (item.group.cell.algorithm, item.group.framework) == (algorithm, framework)
            ]
            bars.append(_bar(f"{label(algorithm)}, {label(framework)}", own))
    bars = [bar for bar in bars if sum(bar.counts[0])]
    title = "Scores held against the original papers"
    steps = " to ".join(sorted({f"{item.published.steps:,}" for item in items}))
    sizes = {item.group.n for item in items}
    caption = (
        f"{title} ({material.context(*key)}): how many of the {len(items)} comparisons with scores "
        f"read off the papers by the thesis come out worse, similar or better. Left: published "
        "mean against mean ± 1.96·population deviation/√n. Right: two-sided test at "
        f"{material.verdicts.options.alpha:.0%}, without correction. Evaluations nearest to the "
        f"published {steps} steps; n = {span(sizes)} runs used."
    )
    name = file_name("reproduction", *material.suffix(*key))
    cells = tuple(sorted({item.group.cell for item in items}))
    return Sheet(name, title, caption, cells, functools.partial(draw, tuple(bars)))


def _bar(name: str, kept: Sequence[ReproductionVerdict]) -> Bar:
    forms = ([item.thesis_form for item in kept], [item.two_sided for item in kept])
    return Bar(name, tuple(tuple(form.count(word) for word in _WORDS) for form in forms))


def draw(bars: tuple[Bar, ...]) -> Figure:
    """Draws the bars, one panel per form."""
    margins = Margins(left=0.92, right=0.16, top=0.4, bottom=0.3, across=0.22)
    with matplotlib.rc_context(paper_settings()):
        figure, axes = panel_grid(1, 2, COLUMN, 0.17 * len(bars) + 0.1, margins, True, True)
        for i, axis in enumerate(axes[0]):
            _draw_form(axis, bars, i)
        patch_legend(figure, {word: VERDICT_COLORS[word] for word in _WORDS})
        figure.text(0.6, 0.04 / figure.get_figheight(), "share of comparisons", ha="center")
    return figure


def _draw_form(axis: Axes, bars: tuple[Bar, ...], form: int) -> None:
    axis.set_title(_FORMS[form])
    for i, bar in enumerate(bars):
        total, left = sum(bar.counts[form]), 0.0
        for word, count in zip(_WORDS, bar.counts[form], strict=True):
            share = count / total if total else 0.0
            color = VERDICT_COLORS[word]
            axis.barh(i, share, left=left, height=0.78, color=color, edgecolor="0.4", linewidth=0.4)
            if share > 0.05:
                axis.text(left + share / 2, i, str(count), ha="center", va="center", fontsize=SMALL)
            left += share
    axis.set_xlim(0, 1)
    axis.set_xticks([0, 0.5, 1], ["0", "50%", "100%"])
    axis.set_ylim(len(bars) - 0.5, -0.5)
    axis.set_yticks(range(len(bars)), [bar.name for bar in bars])
    axis.grid(visible=False)
    axis.axhline(0.5, color="0.3", linewidth=0.6)
