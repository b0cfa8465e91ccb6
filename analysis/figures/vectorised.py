"""Runs with one and with several copies of the training environment (thesis Figure 13)."""

from analysis.figures.material import Material
from analysis.figures.sheet import NotDrawn, Sheet
from analysis.figures.variants import variant_sheets


def sheets(material: Material) -> list[Sheet | NotDrawn]:
    """One page per number of copies."""
    title = "Training with one and with several copies of the environment"
    pages = variant_sheets(
        material, "vectorised", "n_envs", title, lambda value: ("1 copy", f"{value} copies")
    )
    reason = "no setting was run both with n_envs=1 and with another value of n_envs"
    return [*pages] or [NotDrawn("vectorised", reason)]
