"""Truncated quantile critics: SAC with critics of quantiles, of which targets drop the largest."""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from parallax.harness.contract.algorithms.sac import SAC
from parallax.harness.contract.fields import bounded_field


@dataclasses.dataclass(frozen=True)
class TQC(SAC):
    """Truncated quantile critics (Kuznetsov et al. 2020, arXiv:2005.04269).

    Attributes:
        n_critics: Critics.
        n_quantiles: Quantiles of the return that each of them predicts.
        dropped_quantiles: Largest quantiles that targets leave out, for each critic; all critics'
            are sorted together.
    """

    label: ClassVar[str] = "TQC"
    has_probes: ClassVar[bool] = False
    thesis_table: ClassVar[int | None] = None
    alternatives: ClassVar[Mapping[str, tuple[Any, ...]]] = {
        **SAC.alternatives,
        "n_critics": (3,),
        "n_quantiles": (10,),
        "dropped_quantiles": (5,),
    }

    n_critics: int = bounded_field(minimum=1)
    n_quantiles: int = bounded_field(minimum=1)
    dropped_quantiles: int = bounded_field(minimum=0)
