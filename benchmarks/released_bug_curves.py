"""Learning curves with and without released bugs, of the packed runs of `study=released_bugs`.

    python benchmarks/released_bug_curves.py docs/released_bugs.parquet released_bugs.png

A panel per framework: mean return at each evaluation, and Student's 95% interval over seeds.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns

from parallax.analysis.data.load import load_runs
from parallax.analysis.data.runs import CompletedRun
from parallax.analysis.figures.style import PALETTE, get_rc_settings
from parallax.analysis.stats.intervals import compute_interval_bounds

NO_BUG = "none"


def draw_curves(runs: Sequence[CompletedRun], output: Path) -> None:
    """Draw a panel per framework, of the runs that are complete."""
    frameworks = sorted({run.spec["framework"] for run in runs})
    figure, panels = plt.subplots(2, 3, figsize=(9.5, 5.4), layout="constrained")
    for framework, panel in zip(frameworks, panels.flat, strict=True):
        own = [run for run in runs if run.spec["framework"] == framework]
        bugs = sorted({run.spec["intervention"] for run in own} - {NO_BUG})
        for bug, color in zip([NO_BUG, *bugs], PALETTE, strict=False):
            same = [run for run in own if run.spec["intervention"] == bug]
            curves = np.array([run.results.mean(axis=1) for run in same])
            mean, low, high = compute_interval_bounds(curves, "t")
            name = "without the bug" if bug == NO_BUG else bug.removeprefix("bug.")
            panel.plot(same[0].timesteps, mean, color=color, label=name)
            panel.fill_between(same[0].timesteps, low, high, color=color, alpha=0.2, linewidth=0)
        spec = own[0].spec
        algorithm, seeds = spec["algorithm"].upper(), len({run.spec["seed"] for run in own})
        panel.set_title(
            f"{framework}, {algorithm}, {spec['env']} (n = {seeds} each)", fontsize="medium"
        )
        panel.legend(loc="lower right", fontsize="small", frameon=True)
        panel.locator_params(axis="x", nbins=5)
        panel.ticklabel_format(axis="x", style="plain")
    figure.supxlabel("environment steps")
    figure.supylabel("mean return")
    figure.savefig(output, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    with sns.axes_style("whitegrid"), plt.rc_context(get_rc_settings()):
        draw_curves(load_runs(options.runs).runs, options.output)
