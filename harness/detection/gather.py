"""Every verdict on every fault: those that are kept, and those that run folders tell."""

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from harness.contract.run_spec import NO_INTERVENTION
from harness.detection.trainings import Setting, Trained
from harness.detection.verdicts import (
    CONFORMANCE,
    DIAGNOSIS,
    PROBES,
    SEEDS,
    Verdict,
    false_alarms,
    of_findings,
    of_probes,
    of_returns,
    read_lines,
    returns,
)

DETECTORS = (PROBES, CONFORMANCE, DIAGNOSIS, *map(returns, SEEDS))
"""In the order of tables."""
_TRAINS = ("found", "missed")


def kept(path: Path) -> list[Verdict]:
    """Verdicts of the probes on mutants that train, as `benchmarks/mutants.py` writes them."""
    return [of_probes(line) for line in read_lines(path) if line["outcome"] in _TRAINS]


def checked(path: Path) -> list[Verdict]:
    """Verdicts that were written by `add`."""
    return [Verdict(**line) for line in read_lines(path)]


def add(path: Path, verdict: Verdict) -> None:
    """Keeps a verdict; a file that is interrupted holds whole lines."""
    with path.open("a") as file:
        file.write(json.dumps(dataclasses.asdict(verdict)) + "\n")


def trained(found: Mapping[Setting, Trained], seconds: float = math.nan) -> list[Verdict]:
    """What diagnosis and returns say of every mutant that has runs without it beside it.

    Args:
        found: Complete runs.
        seconds: Of processor time that one training takes.
    """
    verdicts = []
    for (framework, algorithm, name), with_fault in found.items():
        plain = found.get((framework, algorithm, NO_INTERVENTION))
        if plain is None or name == NO_INTERVENTION:
            continue
        mutant = f"{framework}/{algorithm}/{name.rpartition('-')[2]}"
        watched = [dict(sorted(of.findings.items())).values() for of in (with_fault, plain)]
        said = [of_findings(mutant, *(list(of) for of in watched))]
        said += [of_returns(mutant, with_fault.returns, plain.returns, n) for n in SEEDS]
        verdicts += [
            dataclasses.replace(verdict, seconds=seconds * verdict.trainings)
            for verdict in said
            if verdict is not None
        ]
    return verdicts


def alarms(found: Mapping[Setting, Trained]) -> str:
    """What the diagnosis says of trainings without a fault; empty where none were watched."""
    rows = []
    for (framework, algorithm, name), plain in found.items():
        if name == NO_INTERVENTION and len(plain.findings) > 1:
            wrong, n = false_alarms(list(plain.findings.values())), len(plain.findings)
            rows.append(f"{wrong} of {n} of {framework}'s {algorithm}")
    if not rows:
        return ""
    return f"Trainings without a fault that the diagnosis would take for faulty: {'; '.join(rows)}."


def common(verdicts: Iterable[Verdict]) -> list[str]:
    """Mutants on which more than the probes have a verdict."""
    by: dict[str, set[str]] = {}
    for verdict in verdicts:
        by.setdefault(verdict.mutant, set()).add(verdict.detector)
    return sorted(mutant for mutant, detectors in by.items() if detectors - {PROBES})


def table(verdicts: Sequence[Verdict]) -> str:
    """For each detector how many faults it was asked about and found, and at what cost."""
    rows = [
        "| detector | asked about | found | trainings for one | CPU seconds for one, median |",
        "|---|---|---|---|---|",
    ]
    for name in DETECTORS:
        own = [verdict for verdict in verdicts if verdict.detector == name]
        if own:
            found = sum(verdict.found for verdict in own)
            rows.append(
                f"| {name} | {len(own)} | {found} ({found / len(own):.0%}) | "
                f"{max(v.trainings for v in own)} | {_middle([v.seconds for v in own])} |"
            )
    return "\n".join(rows)


def by_mutant(verdicts: Sequence[Verdict], mutants: Sequence[str]) -> str:
    """For each mutant what each detector said: by what it was found, and after which step."""
    said = {(verdict.mutant, verdict.detector): verdict for verdict in verdicts}
    rows = [f"| mutant | {' | '.join(DETECTORS)} |", "|---" * (len(DETECTORS) + 1) + "|"]
    for mutant in mutants:
        cells = [_cell(said.get((mutant, name))) for name in DETECTORS]
        rows.append(f"| `{mutant}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def _cell(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not asked"
    if not verdict.found:
        return "-"
    return f"{verdict.by}, step {verdict.step}" if verdict.step else verdict.by


def _middle(seconds: Sequence[float]) -> str:
    known = sorted(value for value in seconds if not math.isnan(value))
    return f"{known[len(known) // 2]:.1f}" if known else "those of the trainings"
