"""Test results of mutants and originals, as `parallax mutation test` writes them."""

import collections
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

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

    operator: Name
    value: float | None
    original_value: float | None
    mutant_seeds: list[int] = msgspec.field(name="trained")
    seeds: list[int]
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
    originals: list[int]
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
            f"{file}: there is no such file; parallax mutation test {path} writes it."
        ) from None
    except (msgspec.MsgspecError, UnusableError, OSError, ValueError, RecursionError) as error:
        raise OutcomesError(f"{file} is not what parallax mutation test writes: {error}") from error
    if content.schema != SCHEMA:
        raise OutcomesError(f"{file} has schema {content.schema}; this version reads {SCHEMA}.")
    if trouble := _find_contradiction(content.settings):
        raise OutcomesError(f"{file}: {trouble}. Run parallax mutation test again.")
    return content.settings


def _find_contradiction(settings: Sequence[MutationSetting]) -> str:
    """Return the first contradiction between parts of a file, or an empty string."""
    mutants = [mutant for setting in settings for mutant in setting.mutants]
    pairs = sum(len(tests.original) for mutant in mutants for tests in mutant.tests.values())
    if max(len(settings), len(mutants)) > MAX_MUTANTS or pairs > MAX_PAIRS:
        return (
            f"it has {len(settings):,} settings, {len(mutants):,} mutants and {pairs:,} pairs, "
            f"but {MAX_MUTANTS:,}, {MAX_MUTANTS:,} and {MAX_PAIRS:,} are allowed: test one study "
            "at a time"
        )
    names = [f"{one.framework} {one.algorithm} {one.env} {one.hps}" for one in settings]
    if name := _find_repeated(names):
        return f"the setting {name} is there twice"
    troubles = (
        f"{name}: {trouble}"
        for name, setting in zip(names, settings, strict=True)
        if (trouble := _check_setting(setting))
    )
    return next(troubles, "")


def _check_setting(setting: MutationSetting) -> str:
    if seed := _find_repeated(setting.originals):
        return f"originals has seed {seed} twice"
    originals: dict[str, float | None] = {}
    for mutant in setting.mutants:
        name = f"{mutant.operator} {mutant.value}"
        original = originals.setdefault(mutant.operator, mutant.original_value)
        if original != mutant.original_value:
            return f"{name}: original_value={mutant.original_value}, and {original} before"
        if trouble := _check_mutant(mutant, setting.originals):
            return f"{name}: {trouble}"
    if name := _find_repeated([f"{one.operator} {one.value}" for one in setting.mutants]):
        return f"the mutant {name} is there twice"
    return ""


def _check_mutant(mutant: MutantResults, originals: Sequence[int]) -> str:
    for name, tests in mutant.tests.items():
        lengths = {len(mutant.seeds) if tests.reason == "" else 0}
        if {len(tests.original), len(tests.mutant)} != lengths:
            return (
                f"{name} has {len(tests.original)} originals and {len(tests.mutant)} mutants of "
                f"{len(mutant.seeds)} pairs"
            )
        if any(not row for row in (*tests.original, *tests.mutant)):
            return f"{name} has no tests"
        lengths_of_pairs = [list(map(len, rows)) for rows in (tests.original, tests.mutant)]
        if name == "replay" and lengths_of_pairs[0] != lengths_of_pairs[1]:
            return "the two agents of a pair have unequally many tests of replay"
    for field, seeds in (("seeds", mutant.seeds), ("trained", mutant.mutant_seeds)):
        if seed := _find_repeated(seeds):
            return f"{field} has seed {seed} twice"
    for field, seeds in (("trained", mutant.mutant_seeds), ("originals", originals)):
        if unknown := set(mutant.seeds).difference(seeds):
            return f"seeds has {min(unknown)}, which is not in {field}"
    return ""


def _find_repeated(values: Iterable[object]) -> str:
    return next((str(one) for one, count in collections.Counter(values).items() if count > 1), "")


def _rows_to_arrays(rows: Any) -> PairSuccesses:
    return [np.array(row, bool) for row in rows]
