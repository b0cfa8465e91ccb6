"""Runs with and without normalised observations and rewards (thesis Figure 12)."""

from analysis.figures.material import Material
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.variants import variant_sheets


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per kind of wrappers."""
    title = "Training without and with wrappers around the environment"
    pages = variant_sheets(
        material, "wrappers", "wrappers", title, lambda value: ("no wrappers", value)
    )
    reason = "no setting was run both with wrappers=none and with another value of wrappers"
    return [*pages] or [NotDrawn("wrappers", reason)]
