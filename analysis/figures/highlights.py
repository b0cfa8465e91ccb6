"""The settings that differ most: curves over final scores (thesis Figures 6-11)."""

import functools
import math

from analysis.consistency import DIFFERENT, PairVerdict
from analysis.figures import consistency, ranking
from analysis.figures.curve_grid import ALGORITHMS, FRAMEWORKS
from analysis.figures.highlight_page import Highlights, draw
from analysis.figures.material import Material
from analysis.figures.names import recipe_label
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.style import label
from analysis.figures.words import interval_words, size_words
from analysis.naming import file_name
from analysis.ranking_verdict import WORST_FIRST, RankingVerdict
from analysis.runs import Cell

MOST = 6  # settings in a figure


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One figure per algorithm, and one per configuration that ranks algorithms."""
    pages = [_of_algorithm(material, *setting) for setting in material.settings]
    pages += [_of_ranking(material, key) for key in ranking.configurations(material)]
    reason = "no two frameworks have two runs used in the same setting"
    found: list[Sheet | NotDrawn] = [page for page in pages if page is not None]
    return found or [NotDrawn("highlights", reason)]


def most_different(items: list[PairVerdict]) -> list[PairVerdict]:
    """The pair that differs most in each setting, the smallest corrected p-values first."""
    known = [item for item in items if not math.isnan(item.p_holm)]
    known.sort(key=lambda item: (item.verdict != DIFFERENT, item.p_holm, item.p_welch, item.cell))
    first = {item.cell: item for item in reversed(known)}
    return [item for item in known if first[item.cell] is item][:MOST]


def _of_algorithm(material: Material, study: str, algorithm: str, variant: str) -> Sheet | None:
    chosen = most_different(
        [
            item
            for item in material.answers.consistency
            if (item.cell.study, item.cell.algorithm, item.cell.variant)
            == (study, algorithm, variant)
        ]
    )
    if not chosen:
        return None
    panels = tuple(
        (
            f"{item.cell.env}\n{recipe_label(item.cell.hps)}",
            consistency.lines_of(material, item.cell),
        )
        for item in chosen
    )
    different = sum(item.verdict == DIFFERENT for item in chosen)
    title = f"Where frameworks differ most, {label(algorithm)}"
    how = (
        f"the {len(chosen)} settings with the smallest corrected p-values of Welch's test; in "
        f"{different} of them two frameworks are different by the verdict"
    )
    name = file_name("highlights", algorithm, *material.suffix(study, variant, algorithm))
    context = material.context(study, variant)
    return _sheet(
        material,
        name,
        title,
        how,
        Highlights(panels, FRAMEWORKS, False),
        context,
        [item.cell for item in chosen],
    )


def least_preserved(items: list[RankingVerdict]) -> RankingVerdict:
    """The task whose ranking is preserved least."""
    return min(items, key=lambda i: (WORST_FIRST.index(i.verdict), i.same_order, i.env))


def _of_ranking(material: Material, key: ranking.Configuration) -> Sheet | None:
    study, hps, variant = key
    items = [
        item
        for item in material.answers.rankings
        if (item.study, item.hps, item.variant) == (study, hps, variant)
    ]
    if not items:
        return None
    worst = least_preserved(items)
    panels = tuple(
        (label(ranked.framework), ranking.lines_of(material, key, worst.env, ranked.framework))
        for ranked in worst.rankings
    )
    title = f"Ranking preserved least, hyperparameters: {recipe_label(hps)}"
    how = (
        f"{worst.env}, of {len(items)} tasks the one with the worst verdict ({worst.verdict}) "
        "and, among those, the smallest bootstrap probability of the same order "
        f"({worst.same_order:.2f})"
    )
    name = file_name("highlights", "ranking", hps, *material.suffix(study, variant))
    context = material.context(study, variant)
    cells = sorted({group.cell for ranked in worst.rankings for group in ranked.groups})
    return _sheet(material, name, title, how, Highlights(panels, ALGORITHMS, True), context, cells)


def _sheet(
    material: Material,
    name: str,
    title: str,
    how: str,
    content: Highlights,
    context: str,
    cells: list[Cell],
) -> Sheet:
    caption = (
        f"{title} ({context}): {how}. Above: mean return per evaluation over environment steps. "
        f"Below: final scores. Bands and lines: {interval_words(material.method)}; wide ones are "
        f"cut off. {size_words(content.lines)}."
    )
    return Sheet(name, title, caption, tuple(cells), functools.partial(draw, content))
