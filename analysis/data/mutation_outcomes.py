"""Test results of mutants and originals, as `parallax mutation test` writes them."""

import math
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.harness.record.files import UnusableError, read_bounded

OUTCOMES_FILE = "mutation.json"
SCHEMA = 1
_MAX_BYTES = 2**27

SuccessFlag = Annotated[int, msgspec.Meta(ge=0, le=1)]
PairSuccesses = list[NDArray[np.bool_]]
"""Successes of one agent of each pair, bool[tests]."""


class OutcomesError(Exception):
    """The file is missing, or not what `parallax mutation test` writes."""


class GeneratorResults(msgspec.Struct, frozen=True):
    """One generator's tests of all pairs.

    Attributes:
        original: Successes of the originals, a list per pair.
        reason: Why there are no tests; empty if there are.
        predictor_accuracy: Accuracy of the strong generator's predictor on data not trained on.
    """

    original: list[list[SuccessFlag]] = []
    mutant: list[list[SuccessFlag]] = []
    reason: str = msgspec.field(name="why_not", default="")
    predictor_accuracy: float = math.nan

    @property
    def pairs(self) -> tuple[PairSuccesses, PairSuccesses]:
        """Return the outcomes as arrays."""
        return _rows_to_arrays(self.original), _rows_to_arrays(self.mutant)


class MutantResults(msgspec.Struct, frozen=True):
    """One mutant configuration.

    Attributes:
        value: Mutated value; None if it has none.
        original_value: Value of the originals; None if it is not a number.
        mutant_seeds: Seeds of complete mutants.
        seeds: Seeds of pairs.
        tests: By generator.
    """

    operator: str
    value: float | None
    original_value: float | None
    mutant_seeds: list[int] = msgspec.field(name="trained")
    seeds: list[int]
    tests: dict[str, GeneratorResults]


class MutationSetting(msgspec.Struct, frozen=True):
    """Originals of one setting and their mutants.

    Attributes:
        originals: Seeds of the originals.
        steps: Environment steps that originals were trained for.
    """

    env: str
    algorithm: str
    hps: str
    framework: str
    originals: list[int]
    steps: int
    mutants: list[MutantResults]


class _OutcomesFile(msgspec.Struct, frozen=True):
    schema: int
    settings: list[MutationSetting]
    replay: int = 0
    seed: int = 0


def read_outcomes(path: Path) -> list[MutationSetting]:
    """Return the settings in a file, or in a study's folder.

    Raises:
        OutcomesError: The file is missing or invalid; the message says what to do.
    """
    file = path / OUTCOMES_FILE if path.is_dir() else path
    try:
        content = msgspec.json.decode(read_bounded(file, _MAX_BYTES), type=_OutcomesFile)
    except FileNotFoundError:
        raise OutcomesError(
            f"{file}: there is no such file; parallax mutation test {path} writes it."
        ) from None
    except (msgspec.MsgspecError, UnusableError, OSError, ValueError, RecursionError) as error:
        raise OutcomesError(f"{file} is not what parallax mutation test writes: {error}") from error
    if content.schema != SCHEMA:
        raise OutcomesError(f"{file} has schema {content.schema}; this version reads {SCHEMA}.")
    for setting in content.settings:
        for mutant in setting.mutants:
            _check_mutant(file, mutant)
    return content.settings


def _check_mutant(file: Path, mutant: MutantResults) -> None:
    for name, tests in mutant.tests.items():
        lengths = {len(mutant.seeds) if tests.reason == "" else 0}
        if {len(tests.original), len(tests.mutant)} != lengths:
            raise OutcomesError(
                f"{file}: {mutant.operator} {mutant.value}: {name} has {len(tests.original)} "
                f"originals and {len(tests.mutant)} mutants of {len(mutant.seeds)} pairs."
            )
        if any(not row for row in (*tests.original, *tests.mutant)):
            raise OutcomesError(f"{file}: {mutant.operator} {mutant.value}: {name} has no tests.")


def _rows_to_arrays(rows: Any) -> PairSuccesses:
    return [np.array(row, bool) for row in rows]
