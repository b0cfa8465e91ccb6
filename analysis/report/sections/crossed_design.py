"""Recipes crossed with implementations: mean scores, and shares of their variance."""

import dataclasses

from parallax.analysis.figures.alignment_levels import format_share
from parallax.analysis.labels import get_label
from parallax.analysis.report.document import Block, Grid, ReportSection, Words
from parallax.analysis.verdicts.alignment_levels import LevelResults
from parallax.analysis.verdicts.crossed_design import CrossedDesign, exchange_recipe


def describe_recipe_dependence(design: CrossedDesign, results: LevelResults) -> str:
    """Return how far the remaining share depends on the recipe; empty if that is not known."""
    if (found := design.shares) is None:
        return ""
    shares = {
        name: format_share(*values)
        for name, *values in zip(design.recipes, found.equal, found.low, found.high, strict=True)
    }
    least, most = (design.recipes[i] for i in (found.equal.argmin(), found.equal.argmax()))
    text = (
        f"{design.name}: with one framework's recipe for all, "
        f"other differences explain {shares[least]} ({get_label(least)}'s recipe) to "
        f"{shares[most]} ({get_label(most)}'s)"
    )
    totals = exchange_recipe(results, design)
    return (
        f"{text}; over all rows, {min(totals):.0%} to {max(totals):.0%}." if totals else f"{text}."
    )


def make_crossed_section(design: CrossedDesign) -> ReportSection:
    """Return the mean scores of all recipes in all frameworks, and their variance components."""
    means = design.scores.mean(axis=2)
    rows: list[tuple[Words, ...]] = [
        (f"{get_label(recipe)}'s defaults", *(f"{value:.2f}" for value in row))
        for recipe, row in zip(design.recipes, means, strict=True)
    ]
    variances = dataclasses.asdict(design.variance)
    total = sum(variances.values())
    parts: list[tuple[Words, ...]] = [
        (name, f"{value:.4f}", f"[{low:.4f}, {high:.4f}]", f"{value / total:.0%}")
        for (name, value), low, high in zip(variances.items(), design.low, design.high, strict=True)
    ]
    scale = "0 does nothing, 1 is solved"
    if design.has_shares_of_training:
        scale = "as shares of training that are left"
    text = f"Mean scores over {design.scores.shape[2]} seeds, {scale}."
    if design.failed:
        text += f" Failed runs count as 0: {design.failed}."
    if design.left_out:
        text += f" Not used, so that all cells have equally many runs: {design.left_out}."
    if design.versions:
        text += f" {design.versions}"
    return ReportSection(
        f"Recipes crossed with implementations: {design.name}",
        (
            text,
            Grid(("recipe", *map(get_label, design.frameworks)), tuple(rows)),
            "Variance components of these scores, with 95% bootstrap intervals over seeds.",
            Grid(("component", "variance", "interval", "share of the sum"), tuple(parts)),
            *_make_recipe_blocks(design),
        ),
    )


def _make_recipe_blocks(design: CrossedDesign) -> tuple[Block, ...]:
    """Return the remaining differences between frameworks with each recipe, and by step order."""
    if (shares := design.shares) is None:
        return ()
    rows: list[tuple[Words, ...]] = [
        (f"{get_label(recipe)}'s defaults", format_share(*share), f"{shares.own - share[0]:.0%}")
        for recipe, *share in zip(
            design.recipes, shares.equal, shares.low, shares.high, strict=True
        )
    ]
    left = shares.equal.mean()
    return (
        "Shares of the variance with own hyperparameters, by the recipe that all frameworks are "
        "given.",
        Grid(("equal recipe", "other differences", "hyperparameters"), tuple(rows)),
        f"Means over recipes: {left:.0%} remain, and hyperparameters explain "
        f"{shares.own - left:.0%}. In the other order, with the code made equal first, "
        f"code explains {shares.own - shares.recipes:.0%} and {shares.recipes:.0%} remain for "
        "hyperparameters.",
    )
