"""The verdict on every pair of frameworks in every setting, as a matrix."""

import dataclasses
import functools
import itertools
import math

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.figures.panels import Margins, panel_grid, patch_legend
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import PAGE, SMALL, VERDICT_COLORS, paper_settings
from analysis.verdicts.consistency import DIFFERENT, EQUIVALENT, UNDECIDED, PairVerdict
from analysis.verdicts.study import Material
from analysis.words import file_name, label, recipe_label, recipes, span

_MOST = 1000  # seeds; more are not counted


@dataclasses.dataclass(frozen=True)
class Block:
    """One set of hyperparameters.

    Attributes:
        title: What it is called.
        pairs: Names over the columns.
        cells: Verdict and text by task and pair; None where a framework has no run.
    """

    title: str
    pairs: tuple[str, ...]
    cells: tuple[tuple[tuple[str, str] | None, ...], ...]


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One matrix per algorithm."""
    pages: list[Sheet | NotDrawn] = []
    for setting in material.settings:
        found = {
            (item.cell.env, item.cell.hps, item.first.framework, item.second.framework): item
            for item in material.verdicts.consistency
            if (item.cell.study, item.cell.algorithm, item.cell.variant) == setting
        }
        if found:
            pages.append(_sheet(material, *setting, found))
    reason = "no two frameworks have a run used in the same setting"
    return pages or [NotDrawn("verdicts", reason)]


def _sheet(
    material: Material,
    study: str,
    algorithm: str,
    variant: str,
    found: dict[tuple[str, str, str, str], PairVerdict],
) -> Sheet:
    tasks = tuple(sorted({key[0] for key in found}))
    names = sorted({name for key in found for name in key[2:]})
    pairs = list(itertools.combinations(names, 2))
    blocks = tuple(
        Block(
            recipe_label(hps),
            tuple(f"{label(a)}\n{label(b)}" for a, b in pairs),
            tuple(tuple(_cell(found.get((env, hps, *pair))) for pair in pairs) for env in tasks),
        )
        for hps in recipes(key[1] for key in found)
    )
    options, items = material.verdicts.options, list(found.values())
    sizes = {group.n for item in items for group in (item.first, item.second)}
    title = f"Verdicts on pairs of frameworks, {label(algorithm)}"
    caption = (
        f"{title} ({material.context(study, variant)}). Different at {options.alpha:.0%} (Welch's "
        f"test after Holm's correction over {items[0].family}: {items[0].family_size} tests, and "
        f"a permutation test): the sign tells whether the upper framework's mean is above (>) or "
        f"below (<) the lower one's. Equivalent: within {options.margin_words}. "
        f"Undecided: seeds per framework that would decide it at "
        f"{options.power:.0%} power, 1k+ for more than {_MOST:,}. n = "
        f"{span(sizes)} runs used per framework."
    )
    name = file_name("verdicts", algorithm, *material.suffix(study, variant, algorithm))
    cells = tuple(dict.fromkeys(item.cell for item in items))
    return Sheet(name, title, caption, cells, functools.partial(draw, blocks, tasks))


def _cell(item: PairVerdict | None) -> tuple[str, str] | None:
    if item is None:
        return None
    if item.verdict == DIFFERENT:
        return item.verdict, ">" if item.difference > 0 else "<"
    if item.verdict == EQUIVALENT:
        return item.verdict, "="
    if math.isnan(item.seeds_needed):
        return item.verdict, "?"
    return item.verdict, "1k+" if item.seeds_needed > _MOST else f"{item.seeds_needed:.0f}"


def draw(blocks: tuple[Block, ...], tasks: tuple[str, ...]) -> Figure:
    """Draws the matrix."""
    margins = Margins(left=1.42, top=0.68, bottom=0.06, across=0.12)
    width = margins.left + sum(0.46 * len(block.pairs) + 0.12 for block in blocks)
    # Titles stand above the names of pairs.
    with matplotlib.rc_context({**paper_settings(), "axes.titley": None}):
        figure, axes = panel_grid(
            1, len(blocks), min(PAGE, max(4.6, width)), 0.2 * len(tasks), margins, False, True
        )
        for axis, block in zip(axes[0], blocks, strict=True):
            _draw_block(axis, block)
        axes[0, 0].set_yticks([i + 0.5 for i in range(len(tasks))], tasks)
        axes[0, 0].set_ylim(len(tasks), 0)
        texts = {
            "different (> <)": VERDICT_COLORS[DIFFERENT],
            "equivalent (=)": VERDICT_COLORS[EQUIVALENT],
            "undecided (seeds needed)": VERDICT_COLORS[UNDECIDED],
        }
        patch_legend(figure, texts)
    return figure


def _draw_block(axis: Axes, block: Block) -> None:
    axis.grid(visible=False)
    for row, cells in enumerate(block.cells):
        for column, cell in enumerate(cells):
            word, text = cell or ("", "-")
            color = VERDICT_COLORS.get(word, "white")
            axis.add_patch(
                Rectangle((column, row), 1, 1, facecolor=color, edgecolor="white", linewidth=1)
            )
            strong = "bold" if word in (DIFFERENT, EQUIVALENT) else "normal"
            axis.text(
                column + 0.5,
                row + 0.52,
                text,
                ha="center",
                va="center",
                fontsize=SMALL,
                fontweight=strong,
            )
    axis.set_xlim(0, len(block.pairs))
    axis.xaxis.tick_top()
    axis.set_xticks([i + 0.5 for i in range(len(block.pairs))], block.pairs, fontsize=SMALL - 0.5)
    axis.tick_params(length=0)
    axis.set_title(block.title, pad=4)
