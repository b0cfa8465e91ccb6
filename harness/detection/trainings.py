"""Final returns and findings of whole trainings with mutants and without, from run folders."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.contract.run_spec import NO_INTERVENTION
from harness.interventions.mutants import is_mutant
from harness.record.diagnosis import read_diagnosis
from harness.record.layout import RUN_FILE
from harness.record.reading import read_run

Setting = tuple[str, str, str]
"""Framework, algorithm and intervention."""


@dataclasses.dataclass(frozen=True)
class Trained:
    """What complete runs of one setting say.

    Attributes:
        returns: Mean final return by seed.
        findings: Of the diagnosis, by seed; only of runs that it watched.
    """

    returns: Mapping[int, float]
    findings: Mapping[int, tuple[Mapping[str, Any], ...]]


def read(folder: Path) -> dict[Setting, Trained]:
    """All complete runs below a folder that have a mutant or nothing changed."""
    returns: dict[Setting, dict[int, float]] = {}
    findings: dict[Setting, dict[int, tuple[Mapping[str, Any], ...]]] = {}
    for file in sorted(folder.rglob(RUN_FILE)):
        reading = read_run(file.parent, with_evaluations=True)
        if reading.record is None or reading.evaluations is None:
            continue
        spec = reading.record.spec
        name = spec.intervention
        if name != NO_INTERVENTION and not is_mutant(name):
            continue
        setting = (spec.framework, spec.algorithm, name)
        last = reading.evaluations.results[-1]
        returns.setdefault(setting, {})[spec.seed] = float(last.mean())
        told = read_diagnosis(file.parent)
        if not told.reason:
            findings.setdefault(setting, {})[spec.seed] = told.findings
    return {key: Trained(found, findings.get(key, {})) for key, found in returns.items()}
