"""Which share of the faults each detector finds, with intervals, as SVG."""

import io
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from scipy import stats

from harness.detection.gather import DETECTORS, common
from harness.detection.verdicts import Verdict
from harness.probes.pages.figures import COLORS, SIZE, STYLE

LEVEL = 0.95


def figure(verdicts: Sequence[Verdict]) -> str:
    """A row per detector, over the faults that were put to more than the probes, if any were."""
    chosen = set(common(verdicts)) or {verdict.mutant for verdict in verdicts}
    settings: Any = STYLE
    with mpl.rc_context(settings):
        drawn = Figure(figsize=SIZE, layout="constrained")
        ax = drawn.subplots()
        labels: list[str] = []
        for name in DETECTORS:
            own = [v for v in verdicts if v.detector == name and v.mutant in chosen]
            if not own:
                continue
            found, place = sum(v.found for v in own), len(labels)
            range_ = stats.binomtest(found, len(own)).proportion_ci(LEVEL, "wilson")
            ax.plot([range_.low, range_.high], [place, place], color=COLORS[0])
            ax.plot(found / len(own), place, "o", color=COLORS[0])
            labels.append(f"{name} ({found} of {len(own)})")
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()
        ax.set_xlim(-0.03, 1.03)
        ax.set_xlabel("share of faults found, 95% interval by Wilson")
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
