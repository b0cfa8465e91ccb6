"""Test results of mutants and originals, as `parallax mutation test` writes them."""

import collections
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.harness.record.files import UnusableError, read_bounded

OUTCOMES_FILE = "mutation.json"
SCHEMA = 1
MAX_MUTANTS, MAX_PAIRS = 1000, 4000
"""Bounds of one file, pairs of all generators; muPRL's study of CartPole has 77 and 2,310."""
_MAX_BYTES = 2**23

Name = Annotated[str, msgspec.Meta(max_length=500)]
Seed = Annotated[int, msgspec.Meta(ge=0)]
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
    reason: Name = msgspec.field(name="why_not", default="")
    predictor_accuracy: Annotated[float, msgspec.Meta(ge=0, le=1)] = math.nan

    @property
    def pairs(self) -> tuple[PairSuccesses, PairSuccesses]:
        """Return the outcomes as arrays."""
        first, second = ([np.array(row, bool) for row in of] for of in (self.original, self.mutant))
        return first, second


class MutantResults(msgspec.Struct, frozen=True):
    """One mutant configuration.

    Attributes:
        value: Mutated value; None if it has none.
        original_value: Value of the originals; None if it is not a number.
        mutant_seeds: Seeds of complete mutants.
        seeds: Seeds of pairs.
        tests: By generator.
    """

    operator: Name
    value: float | None
    original_value: float | None
    mutant_seeds: list[Seed] = msgspec.field(name="trained")
    seeds: list[Seed]
    tests: dict[Literal["replay", "weak", "strong"], GeneratorResults]


class MutationSetting(msgspec.Struct, frozen=True):
    """Originals of one setting and their mutants.

    Attributes:
        originals: Seeds of the originals.
        steps: Environment steps that originals were trained for.
    """

    env: Name
    algorithm: Name
    hps: Name
    framework: Name
    originals: list[Seed]
    steps: Annotated[int, msgspec.Meta(ge=1)]
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
            f"{file} does not exist. Create it with: parallax mutation test {path}"
        ) from None
    except (msgspec.MsgspecError, UnusableError, OSError, ValueError, RecursionError) as error:
        raise OutcomesError(f"{file} is not what parallax mutation test writes: {error}") from error
    if content.schema != SCHEMA:
        raise OutcomesError(f"{file} has schema {content.schema}; this version reads {SCHEMA}.")
    try:
        _check_settings(content.settings)
    except OutcomesError as error:
        raise OutcomesError(f"{file}: {error}. Run parallax mutation test again.") from None
    return content.settings


def _check_settings(settings: list[MutationSetting]) -> None:
    if not settings:
        raise OutcomesError("it has no settings")
    mutants = [mutant for setting in settings for mutant in setting.mutants]
    pairs = sum(len(tests.original) for mutant in mutants for tests in mutant.tests.values())
    if max(len(settings), len(mutants)) > MAX_MUTANTS or pairs > MAX_PAIRS:
        raise OutcomesError(
            f"{len(settings):,} settings, {len(mutants):,} mutants and {pairs:,} pairs, but "
            f"{MAX_MUTANTS:,}, {MAX_MUTANTS:,} and {MAX_PAIRS:,} are allowed: test one study"
        )
    names = [f"{one.framework} {one.algorithm} {one.env} {one.hps}" for one in settings]
    _check_unique("the setting", names)
    for name, setting in zip(names, settings, strict=True):
        _check_unique(f"{name}: originals: seed", setting.originals)
        _check_unique(f"{name}: the mutant", [f"{m.operator} {m.value}" for m in setting.mutants])
        values: dict[str, float | None] = {}
        for mutant in setting.mutants:
            place = f"{name}: {mutant.operator} {mutant.value}"
            first = values.setdefault(mutant.operator, mutant.original_value)
            if first != mutant.original_value:
                raise OutcomesError(f"{place}: original_value={mutant.original_value}, not {first}")
            _check_mutant(place, mutant, setting.originals)


def _check_mutant(place: str, mutant: MutantResults, originals: list[int]) -> None:
    for name, tests in mutant.tests.items():
        lengths = {len(mutant.seeds) if tests.reason == "" else 0}
        if {len(tests.original), len(tests.mutant)} != lengths:
            raise OutcomesError(
                f"{place}: {name} has {len(tests.original)} originals and {len(tests.mutant)} "
                f"mutants of {len(mutant.seeds)} pairs"
            )
        if any(not row for row in (*tests.original, *tests.mutant)):
            raise OutcomesError(f"{place}: {name} has no tests")
        if name == "replay" and [*map(len, tests.original)] != [*map(len, tests.mutant)]:
            raise OutcomesError(f"{place}: a pair has unequally many tests of replay")
    _check_unique(f"{place}: trained: seed", mutant.mutant_seeds)
    _check_unique(f"{place}: seeds: seed", mutant.seeds)
    for field, seeds in (("trained", mutant.mutant_seeds), ("originals", originals)):
        if unknown := set(mutant.seeds).difference(seeds):
            raise OutcomesError(f"{place}: seeds has {min(unknown)}, which is not in {field}")


def _check_unique(what: str, values: Iterable[object]) -> None:
    for value, count in collections.Counter(values).items():
        if count > 1:
            raise OutcomesError(f"{what} {value} occurs twice")
