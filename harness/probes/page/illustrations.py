"""Which figures go with which probe."""

from collections.abc import Iterator

from harness.probes.page import special
from harness.probes.page.figures import Draw, curves
from harness.probes.ppo.runs import CLIP
from harness.probes.results import Result

DENSITY = (
    f"Density of actions from Gaussians with standard deviation {special.STD} around "
    f"{special.MEANS[0]:g} and {special.MEANS[1]:g}, by the rule that the answers follow."
)
SURFACE = (
    "Derivative of the value loss by a prediction, over its change since the rollout and over the "
    f"return, with a range of {CLIP}, by the formula that the answers follow."
)


def illustrations(result: Result) -> Iterator[tuple[str, Draw, str]]:
    """Figures of a probe: a unique name, what draws it, and a caption."""
    measured = curves(result)
    if measured:
        yield result.probe, measured, "Measured."
    if result.probe == special.ACTION and (drawn := special.densities(result)):
        yield f"{result.probe}.densities", drawn, DENSITY
    if result.probe == special.VALUE_CLIPPING and (drawn := special.surfaces(result)):
        yield f"{result.probe}.surfaces", drawn, SURFACE
