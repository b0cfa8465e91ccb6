"""Search for the one quantity of a formula that an implementation computes in another way.

A formula is a function that names its quantities while it computes numbers from them. It is
computed again with each quantity changed in each way that fits its shape: another sign, another
network, a mean over the minibatch, a missing term. The change that gives the measured numbers, if
there is one, is the description. Derivatives are PyTorch's, so a changed loss has its own gradient.
"""

import dataclasses
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from parallax.harness.contract.adapter import Array

Operation = Callable[[Tensor], Tensor]
Replacement = Callable[[Tensor, Mapping[str, Tensor]], Tensor]
"""Returns another value of a quantity, from its value and those of all without a change."""
_Value = TypeVar("_Value")
_ANY_SHAPE: Mapping[str, Operation] = {
    "is missing": torch.zeros_like,
    "has the opposite sign": torch.neg,
    "has no gradient": torch.detach,
    "is 1": torch.ones_like,
    "counts as 1 minus itself": lambda x: 1 - x,
    "is its absolute value": torch.abs,
    "counts 0.5 times": lambda x: x / 2,
    "counts 2 times": lambda x: 2 * x,
    "is squared": torch.square,
    "is at least 0": lambda x: x.clamp(min=0),
    "is at most 0": lambda x: x.clamp(max=0),
    "is cut at -1 and 1": lambda x: x.clamp(-1, 1),
    "is a whole number": torch.trunc,
    "is rounded": torch.round,
}
_SHAPES: Mapping[str, Operation] = {
    "is its sign": torch.sign,
    "is cut at 0 and 1": lambda x: x.clamp(0, 1),
    "is squashed by tanh": torch.tanh,
    "is its square root": lambda x: x.abs().sqrt() * x.sign(),
    "is its reciprocal": torch.reciprocal,
    "is its exponential": torch.exp,
    "is its logarithm": lambda x: x.abs().clamp(min=1e-12).log(),
    "is one more": lambda x: x + 1,
    "is one less": lambda x: x - 1,
}
_OVER_ROWS: Mapping[str, Operation] = {
    "is its mean over the {rows}": lambda x: x.mean(0),
    "is its sum over the {rows}": lambda x: x.sum(0),
    "is its largest value in the {rows}": lambda x: x.amax(0),
    "is its smallest value in the {rows}": lambda x: x.amin(0),
    "is that of the first row of the {rows}": lambda x: x[0],
    "is that of the last row of the {rows}": lambda x: x[-1],
    "is that of the next row of the {rows}": lambda x: x.roll(-1, 0),
    "is that of the previous row of the {rows}": lambda x: x.roll(1, 0),
    "is that of two rows later in the {rows}": lambda x: x.roll(-2, 0),
    "is that of two rows earlier in the {rows}": lambda x: x.roll(2, 0),
    "is missing in the first row of the {rows}": lambda x: _drop_row(x, 0),
    "is missing in the last row of the {rows}": lambda x: _drop_row(x, -1),
    "is in reverse order": lambda x: x.flip(0),
    "has its mean over the {rows} subtracted": lambda x: x - x.mean(0),
    "is divided by its standard deviation over the {rows}": lambda x: x / x.std(0),
    "is standardized over the {rows}": lambda x: (x - x.mean(0)) / x.std(0),
    "is summed up from the first row on": lambda x: x.cumsum(0),
    "is divided by the number of the row in the {rows}": lambda x: x / _count_rows(x),
    "is multiplied by the number of the row in the {rows}": lambda x: x * _count_rows(x),
    "falls to 0 over the {rows}": lambda x: x * (1 - (_count_rows(x) - 1) / len(x)),
}
_OVER_COLUMNS: Mapping[str, Operation] = {
    "is its mean over {column}s": lambda x: x.mean(1, keepdim=True),
    "is its sum over {column}s": lambda x: x.sum(1, keepdim=True),
    "is its largest value over {column}s": lambda x: x.amax(1, keepdim=True),
    "is its smallest value over {column}s": lambda x: x.amin(1, keepdim=True),
    "is that of the first {column}": lambda x: x[:, :1],
    "is that of the last {column}": lambda x: x[:, -1:],
    "has its {column}s in reverse order": lambda x: x.flip(1),
}


def _count_rows(values: Tensor) -> Tensor:
    return torch.arange(1.0, len(values) + 1).reshape(-1, *[1] * (values.ndim - 1))


def _drop_row(values: Tensor, row: int) -> Tensor:
    mask = torch.ones_like(values)
    mask[row] = 0
    return values * mask


@dataclasses.dataclass(frozen=True)
class FormulaChange:
    """Other values of some quantities of a formula.

    Attributes:
        words: Description.
        operations: Functions that give another value of a quantity, by its name.
        choices: Options that are chosen in place of the right ones, by the name of the choice.
        base: Options that are the right ones, if not the first, by the name of the choice.
        rows: Name of the only rows that are changed; empty for all.
    """

    words: str
    operations: Mapping[str, Replacement] = dataclasses.field(default_factory=dict)
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    base: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rows: str = ""


NO_CHANGE = FormulaChange("")


class FormulaQuantities:
    """Names the quantities of a formula while it is computed, and changes some of them.

    Attributes:
        change: Change of the formula.
        plain: Values of all quantities without a change.
        values: Values of all quantities, in the order of computation.
        options: Descriptions of the values that a choice may have, the right one first.
        usual: Options that some implementation has in place of the right one, by choice.
        groups: Names of quantities of one kind, which one line of code may compute, by their name.
        rows: Rows to which alone a change may apply, bool[rows] or bool[steps, copies], by name.
    """

    def __init__(
        self,
        change: FormulaChange = NO_CHANGE,
        plain: Mapping[str, Tensor] = types.MappingProxyType({}),
    ) -> None:
        self.change = change
        self.plain = plain
        self.values: dict[str, Tensor] = {}
        self.options: dict[str, tuple[str, ...]] = {}
        self.usual: dict[str, Sequence[str]] = {}
        self.groups: dict[str, Sequence[str]] = {}
        self.rows: dict[str, Tensor] = {}

    def name(self, name: str, value: Tensor | Array | float) -> Tensor:
        """Return the value of a named quantity, which may be changed."""
        tensor = self.values[name] = torch.as_tensor(value, dtype=torch.float64)
        if name not in self.change.operations:
            return tensor
        changed = self.change.operations[name](tensor, self.plain).broadcast_to(tensor.shape)
        return self._limit_to_rows(changed, tensor)

    def _limit_to_rows(self, changed: Tensor, plain: Tensor) -> Tensor:
        mask = self.rows.get(self.change.rows)
        if mask is None or (plain.ndim and plain.shape[: mask.ndim] != mask.shape):
            return plain if self.change.rows else changed
        mask = mask.reshape(*mask.shape, *[1] * (plain.ndim - mask.ndim))
        return torch.where(mask, changed, plain)

    def mark_rows(self, rows: Mapping[str, Array | Tensor]) -> None:
        """Name rows, so that changes of these rows alone are tried; masks by description."""
        self.rows |= {name: torch.as_tensor(mask) for name, mask in rows.items()}

    def join(self, name: str, members: Sequence[str]) -> None:
        """Name several quantities, so that changes of all of them at once are tried."""
        self.groups[name] = members

    @property
    def is_plain(self) -> bool:
        """Whether no quantity is changed, so that all are listed that may replace others."""
        return not self.change.operations

    def choose(self, name: str, options: Mapping[str, _Value], usual: Sequence[str] = ()) -> _Value:
        """Return the first of several values, or another one if the choice is changed.

        Args:
            name: Name of the choice.
            options: Values by their description.
            usual: Options that some implementation has: changes are tried with them as well.
        """
        self.options[name] = tuple(options)
        self.usual[name] = usual
        right = options[self.change.base.get(name, next(iter(options)))]
        if name not in self.change.choices:
            return right
        chosen = options[self.change.choices[name]]
        if isinstance(chosen, Tensor) and isinstance(right, Tensor):
            return cast(_Value, self._limit_to_rows(chosen, right))
        return right if self.change.rows else chosen


def differentiate_loss(loss: Tensor, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the derivatives of a loss; 0 by inputs that it does not depend on."""
    if not loss.requires_grad:
        return tuple(torch.zeros_like(each) for each in inputs)
    return torch.autograd.grad(loss, [*inputs], allow_unused=True, materialize_grads=True)


Formula = Callable[[FormulaQuantities], Tensor]
"""Computes numbers from quantities that it names."""


MeasureDistance = Callable[[Array, Array], float]
"""Returns how far computed numbers, the first, are from measured ones, as a share of these."""
MAX_DISTANCE = 1e-3
"""Largest distance of a formula that gives the measured numbers: rounding."""
MAX_DISTANCE_SHARE = 0.03
"""The same, as a share of the distance of the formula without a change."""
OF_OTHER_ROWS = (
    *("rewards are", "ends are", "values are", "next values are", "next states are"),
    *("returns are", "advantages are", "old values are", "old log-probabilities are"),
)
"""Choices of the steps that quantities are of; their descriptions are sentences."""
RARE_CHOICES = ("the observation that", "the action that", "the value of the", *OF_OTHER_ROWS)
"""First words of choices that are tried late: of one network alone, which likelier ones imitate."""
MIN_WRONG_NUMBERS = 3
"""Fewest wrong numbers for changes of some rows or of two choices: fewer may fit by chance."""


def find_changed_quantity(
    parts: Sequence[Formula],
    measured: Sequence[Array],
    measure_distance: MeasureDistance,
    axes: tuple[str, str] = ("minibatch", "dimension"),
) -> str:
    """Return the change of one quantity with which a formula gives the measured numbers.

    Args:
        parts: The paper's formula, for each of several updates.
        measured: The measured numbers of each update.
        measure_distance: Measures how far numbers are from measured ones.
        axes: Names of arrays' first axis, and of a place on the second.

    Returns:
        A description; empty if the formula fits as it is, or with no change.
    """
    search = _FormulaSearch(parts, measured, measure_distance, axes)
    plain = FormulaQuantities()
    parts[0](plain)
    usual = ({name: option} for name, of_one in plain.usual.items() for option in of_one)
    bases: tuple[dict[str, str], ...] = ({}, *usual)
    ways = itertools.product((False, True), bases)
    found = (search.find_change(base, is_partial) for is_partial, base in ways)
    return next((words for words in found if words is not None), "")


@dataclasses.dataclass(frozen=True)
class _FormulaSearch:
    """Numbers of several updates and their formulas; see `find_changed_quantity`."""

    parts: Sequence[Formula]
    measured: Sequence[Array]
    measure_distance: MeasureDistance
    axes: tuple[str, str]

    def find_change(self, base: Mapping[str, str], is_partial: bool) -> str | None:
        """Return the change of a formula with some other options, "" for none; None if not found.

        Args:
            base: Options in place of the right ones, by the name of the choice.
            is_partial: Whether changes of some rows and of two choices are tried, not single ones.
        """
        plain = [FormulaQuantities(FormulaChange("", base=base)) for _ in self.parts]
        numbers = [
            _compute_numbers(part, each) for part, each in zip(self.parts, plain, strict=True)
        ]
        distance = self._measure_all(numbers)
        if distance <= MAX_DISTANCE:
            return ""
        most = min(MAX_DISTANCE, MAX_DISTANCE_SHARE * distance)
        changes = [*_list_changes(plain[0], self.axes), *self._list_factors(plain[0], numbers[0])]
        tried: Iterable[FormulaChange] = changes
        if is_partial:
            wrong = self._find_wrong_numbers(numbers)
            if sum(int(each.sum()) for each in wrong) < MIN_WRONG_NUMBERS:
                return None
            rows = [name for name in plain[0].rows if self._can_reach(name, plain, wrong)]
            tried = _list_partial_changes(rows, changes)
        for change in tried:
            whole = dataclasses.replace(change, base=base)
            if self._fits(whole, [each.values for each in plain], most):
                return change.words
        return None

    def _find_wrong_numbers(self, numbers: Sequence[Array]) -> list[NDArray[np.bool_]]:
        # If the loss has another factor than the paper's, most numbers have it alone.
        ratios = [m / np.where(n, n, np.nan) for n, m in zip(numbers, self.measured, strict=True)]
        factor = np.nanmedian(np.concatenate([each.ravel() for each in ratios]))
        is_free = self.measure_distance(2 * numbers[0], numbers[0]) < MAX_DISTANCE
        factor = factor if is_free else 1.0
        apart = [np.abs(m - factor * n) for n, m in zip(numbers, self.measured, strict=True)]
        room = MAX_DISTANCE_SHARE * max(float(each.max()) for each in apart)
        return [each > room for each in apart]

    def _can_reach(
        self, rows: str, plain: Sequence[FormulaQuantities], wrong: Sequence[NDArray[np.bool_]]
    ) -> bool:
        """Return whether wrong numbers are among those that depend on these rows."""
        for part, each, mask in zip(self.parts, plain, wrong, strict=True):
            moved = dict.fromkeys(each.values, _make_replacement(lambda x: 1.37 * x + 0.11))
            change = FormulaChange("", moved, base=each.change.base, rows=rows)
            try:
                numbers = _compute_numbers(part, FormulaQuantities(change, each.values))
            except RuntimeError:
                return True
            if np.any(mask & (numbers == _compute_numbers(part, FormulaQuantities(each.change)))):
                return False
        return True

    def _list_factors(self, plain: FormulaQuantities, number: Array) -> Iterator[FormulaChange]:
        # If the formula is linear in a quantity, the factor is that of the distance from 0.
        for name in plain.values:
            none = dataclasses.replace(_make_factor_change(name, 0), base=plain.change.base)
            without = _compute_numbers(self.parts[0], FormulaQuantities(none))
            way, rest = (number - without).ravel(), (self.measured[0] - without).ravel()
            share = float(rest @ way) / max(float(way @ way), 1e-30)
            yield from (_make_factor_change(name, each) for each in (share, 0.25, 4.0))

    def _measure_all(self, numbers: Iterable[Array]) -> float:
        both = ([array.ravel() for array in arrays] for arrays in (numbers, self.measured))
        return self.measure_distance(*(np.concatenate(each) for each in both))

    def _fits(
        self, change: FormulaChange, plain: Sequence[Mapping[str, Tensor]], most: float
    ) -> bool:
        # The first update decides in most cases.
        numbers = (
            _compute_numbers(part, FormulaQuantities(change, values))
            for part, values in zip(self.parts, plain, strict=True)
        )
        try:
            first = next(numbers)
            if not np.isfinite(first).all():
                return False
            if self.measure_distance(first, self.measured[0]) > MAX_DISTANCE:
                return False
            return self._measure_all([first, *numbers]) <= most
        except RuntimeError:  # a number that differs from row to row, of a formula for other shapes
            return False


def _compute_numbers(part: Formula, quantities: FormulaQuantities) -> Array:
    return np.asarray(part(quantities).detach().numpy())


def _make_factor_change(name: str, factor: float) -> FormulaChange:
    return FormulaChange(f"{name} counts {factor:.4g} times", {name: _make_product(factor)})


def _list_changes(plain: FormulaQuantities, axes: tuple[str, str]) -> Iterator[FormulaChange]:
    # Likelier changes first, since several may give the same numbers.
    choices = [*_list_choices(plain)]
    yield from (change for change in choices if not change.words.startswith(RARE_CHOICES))
    yield from _list_operations(
        plain, axes, lambda x: [_ANY_SHAPE, _OVER_ROWS, _OVER_COLUMNS][: x.ndim + 1]
    )
    yield from (change for change in choices if change.words.startswith(RARE_CHOICES))
    pairs = [*itertools.permutations(plain.values.items(), 2)]
    alike = [pair for pair in pairs if pair[0][1].shape == pair[1][1].shape]
    for (one, _), (other, _) in alike:
        yield FormulaChange(f"{other} in place of {one}", {one: _take_quantity(other)})
    yield from _list_products(plain)
    yield from _list_operations(plain, axes, lambda _: [_SHAPES])
    for (one, _), (other, _) in alike:
        if one < other:
            both = {one: _take_quantity(other), other: _take_quantity(one)}
            yield FormulaChange(f"{one} and {other} have changed places", both)


def _list_products(plain: FormulaQuantities) -> Iterator[FormulaChange]:
    constants = {name: x.item() for name, x in plain.values.items() if not x.ndim}
    for name, (constant, factor) in itertools.product(plain.values, constants.items()):
        if name != constant and factor not in (0, 1):
            text = f"{name} is {{}} by {constant}"
            yield FormulaChange(text.format("multiplied"), {name: _make_product(factor)})
            yield FormulaChange(text.format("divided"), {name: _make_product(1 / factor)})


def _make_product(factor: float) -> Replacement:
    return lambda value, _: factor * value


def _list_operations(
    plain: FormulaQuantities,
    axes: tuple[str, str],
    choose: Callable[[Tensor], Sequence[Mapping[str, Operation]]],
) -> Iterator[FormulaChange]:
    for name, members in [*((each, (each,)) for each in plain.values), *plain.groups.items()]:
        choices = choose(plain.values[members[0]])
        for words, operation in itertools.chain(*(each.items() for each in choices)):
            text = f"{name} {words.format(rows=axes[0], column=axes[1])}"
            yield FormulaChange(text, dict.fromkeys(members, _make_replacement(operation)))


def _list_choices(plain: FormulaQuantities) -> Iterator[FormulaChange]:
    for name, options in plain.options.items():
        for option in options[1:]:
            words = f"{name}: {option}, not {options[0]}"
            words = f"{name} {option}" if name in OF_OTHER_ROWS else words
            yield FormulaChange(words, choices={name: option})


def _list_partial_changes(
    rows: Sequence[str], changes: Sequence[FormulaChange]
) -> Iterator[FormulaChange]:
    # Changes of some rows only, and two choices at once.
    for name, change in itertools.product(rows, changes):
        yield dataclasses.replace(change, words=f"{change.words}, {name}", rows=name)
    choices = [change for change in changes if change.choices]
    for one, other in itertools.combinations(choices, 2):
        if one.choices.keys() != other.choices.keys():
            words = f"{one.words}; {other.words}"
            yield FormulaChange(words, choices={**one.choices, **other.choices})


def _make_replacement(operation: Operation) -> Replacement:
    return lambda value, _: operation(value)


def _take_quantity(name: str) -> Replacement:
    return lambda _, plain: plain[name]
