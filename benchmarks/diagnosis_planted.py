"""Faults in the frameworks' own code, and which check should find each: `diagnosis_planted.csv`.

A mutant is named by its operator and a part of the text that it changes, since its number depends
on upstream's version; `parallax intervention list --kind mutants --frameworks F --algorithms A
--all` shows them all.
"""

import csv
import dataclasses
from pathlib import Path

TABLE = Path(__file__).with_suffix(".csv")


@dataclasses.dataclass(frozen=True)
class PlantedFault:
    """One fault, a row of the table.

    Attributes:
        framework: Framework whose code it changes.
        algorithm: Algorithm that uses this code.
        fault: Description in words.
        check: Check that should find it; several are joined by `|`, and any of them counts.
        operator: Operator of the mutant; empty if `text` is an intervention of the catalogue.
        text: Part of the text that is replaced, or the intervention's name.
        number: Which of the matching mutants, from 0.
        task: Task; empty for the algorithm's first one.
    """

    framework: str
    algorithm: str
    fault: str
    check: str
    operator: str
    text: str
    number: str
    task: str


def load_planted_faults() -> list[PlantedFault]:
    """Return all rows of the table."""
    with TABLE.open(newline="") as file:
        return [PlantedFault(**row) for row in csv.DictReader(file)]


def name_intervention(one: PlantedFault) -> str:
    """Return the name of a fault on the command line."""
    if not one.operator:
        return one.text
    from parallax.harness.contract.adapter import load_adapter
    from parallax.harness.interventions.mutants import load_mutants

    matching = [
        mutant
        for mutant in load_mutants(load_adapter(one.framework), one.algorithm)
        if mutant.operator == one.operator and one.text in mutant.before
    ]
    return matching[int(one.number)].name
