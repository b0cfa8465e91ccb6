"""All probes."""

import difflib
import itertools
from collections.abc import Sequence

from harness.contract.algorithms import PROBED as ALGORITHMS
from harness.contract.fields import SpecError, unknown
from harness.probes import ddpg, dqn, ppo, r2d2, sac, settings, td3
from harness.probes.probe import Probe

PROBES: tuple[Probe, ...] = tuple(
    probe
    for algorithm in ALGORITHMS
    for probe in itertools.chain(
        *(own.PROBES for own in (ppo, td3, sac, ddpg, dqn, r2d2)), settings.PROBES
    )
    if probe.algorithm == algorithm
)


def select(algorithms: Sequence[str], patterns: Sequence[str]) -> list[Probe]:
    """Probes of some algorithms whose name contains one of some texts; empty is all.

    Raises:
        SpecError: An algorithm is not known, or nothing is left.
    """
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise SpecError(unknown(f"--algorithm {algorithm}", algorithm, list(ALGORITHMS)))
    chosen = [
        probe
        for probe in PROBES
        if (not algorithms or probe.algorithm in algorithms)
        and (not patterns or any(pattern in probe.name for pattern in patterns))
    ]
    if not chosen:
        names = [probe.name for probe in PROBES]
        close = difflib.get_close_matches(patterns[0] if patterns else "", names, n=1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise SpecError(
            f"--probe {','.join(patterns)}: no probe has such a name.{hint} "
            "parallax probe --list lists all."
        )
    return chosen
