"""Search for the one quantity of a formula that an implementation computes differently.

A formula is a function that names its quantities while it computes numbers from them. It is
computed again with each quantity changed in each way that fits its shape: another sign, another
network, a mean over the minibatch, a missing term. If a change gives the measured numbers, it is
the description. Derivatives are PyTorch's, so a changed loss has its own gradient.
"""

import dataclasses
import functools
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.overrides import TorchFunctionMode

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
    "is its logarithm, as without its exponential": lambda x: x.abs().clamp(min=1e-12).log(),
    "is one more": lambda x: x + 1,
    "is one less": lambda x: x - 1,
    "is 1 plus its logarithm": lambda x: 1 + x.abs().clamp(min=1e-12).log(),
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
        use: Number of the only use of a quantity that is changed, from 0; -1 for all uses.
        pairs: Whether each row has the changed quantities of all rows, one after another.
    """

    words: str
    operations: Mapping[str, Replacement] = dataclasses.field(default_factory=dict)
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    base: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rows: str = ""
    use: int = -1
    pairs: bool = False


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
        uses: For each use of a quantity, what is computed from it, by its name.
        parts: Values that are no quantities of the formula, of which one may be a weighted mean.
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
        self.uses: dict[str, list[str]] = {}
        self.parts: dict[str, Tensor] = {}
        self._named: dict[int, tuple[str, Tensor]] = {}
        self._is_naming = False

    def name(self, name: str, value: Tensor | Array | float) -> Tensor:
        """Return the value of a named quantity, which may be changed."""
        self._is_naming = True
        tensor = self.values[name] = torch.as_tensor(value, dtype=torch.float64)
        for consumers in self.uses.values():
            consumers[:] = [name if each == "" else each for each in consumers]
        if name in self.change.operations and self.change.use < 0:
            tensor = self._change(name, tensor)
        self._named.setdefault(id(tensor), (name, tensor))  # alive, so that no other has its id
        self._is_naming = False
        return tensor

    def _change(self, name: str, tensor: Tensor) -> Tensor:
        changed = self.change.operations[name](tensor, self.plain).broadcast_to(tensor.shape)
        return self._limit_to_rows(changed, tensor)

    def use(self, value: object) -> object:
        """Return the argument of an operation, changed if it is the use that is to be changed."""
        if isinstance(value, list | tuple):
            return type(value)(self.use(each) for each in value)
        name, _ = self._named.get(id(value), ("", None))
        if self._is_naming or not name:
            return value
        uses = self.uses.setdefault(name, [])
        uses.append("")
        is_changed = name in self.change.operations and self.change.use == len(uses) - 1
        return self._change(name, cast(Tensor, value)) if is_changed else value

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


class _UseMode(TorchFunctionMode):
    """Passes the arguments of each operation of PyTorch through the quantities of a formula."""

    def __init__(self, quantities: FormulaQuantities) -> None:
        super().__init__()
        self.quantities = quantities

    def __torch_function__(
        self,
        function: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        is_operation = getattr(function, "__name__", "") not in _NO_OPERATIONS
        given = cast(tuple[object, ...], self.quantities.use(args)) if is_operation else args
        return function(*given, **(kwargs or {}))


_NO_OPERATIONS = ("__get__", "__set__", "__len__", "grad", "requires_grad_", "dim", "numpy")
"""Functions of PyTorch that compute nothing from their arguments."""


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
N_SOLVED, N_SECANTS, MAX_ROUGHNESS = 3, 12, 0.08
"""Updates in which a quantity is solved for, steps of this, and largest roughness of a function."""
N_BINS, MIN_BINS = 60, 10
"""Places along a quantity at which its function is read, and fewest of them."""
MIN_SHARE = 0.02
"""Smallest share of a quantity in a weighted mean of two."""
NEARER = 0.9
"""Share of its distance to which one of two choices at once must bring the formula."""
MIN_WRONG_ROWS, MIN_MATCH_SHARE = 20, 0.9
"""Fewest wrong numbers, and least share of them, for changes that do not give all of them."""


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
    usual = [{name: option} for name, options in plain.usual.items() for option in options]
    baselines = [search.make_baseline(choices) for choices in ({}, *usual)]
    stages = (
        search.find_single_change,
        search.find_use_or_pairs,
        search.find_partial_change,
        search.find_change_of_most,
        search.find_function,
    )
    found = (find(base) for find, base in itertools.product(stages, baselines))
    return next((words for words in found if words is not None), "")


@dataclasses.dataclass(frozen=True)
class _TriedChange:
    """A change, and the numbers of the first update with it; None if it does not fit shapes."""

    change: FormulaChange
    numbers: Array | None


@dataclasses.dataclass(frozen=True)
class _SolvedQuantity:
    """Values of a quantity that give the measured numbers, of some updates.

    Attributes:
        rows: Rows of each update that numbers depend on.
        before: The quantity's own values in these rows, of one update after another.
        after: The values that give the measured numbers.
    """

    rows: Sequence[NDArray[np.intp]]
    before: Array
    after: Array


@dataclasses.dataclass(frozen=True)
class _Baseline:
    """Formulas with some options in place of the right ones.

    Attributes:
        choices: These options, by the name of the choice.
        plain: Quantities of the formula of each update.
        numbers: Its numbers.
        distance: Their distance from the measured ones.
        wrong: Which of them differ.
        factor: Factor of the measured numbers that most have alone, if it is free.
        tried: Changes of all rows that were tried, by their description.
    """

    choices: Mapping[str, str]
    plain: Sequence[FormulaQuantities]
    numbers: Sequence[Array]
    distance: float
    wrong: Sequence[NDArray[np.bool_]]
    factor: float
    tried: dict[str, _TriedChange] = dataclasses.field(default_factory=dict)

    @property
    def max_distance(self) -> float:
        """Largest distance of a formula that counts as the right one."""
        return min(MAX_DISTANCE, MAX_DISTANCE_SHARE * self.distance)

    @property
    def n_wrong(self) -> int:
        """Number of wrong numbers."""
        return sum(int(each.sum()) for each in self.wrong)


@dataclasses.dataclass(frozen=True)
class _FormulaSearch:
    """Numbers of several updates and their formulas; see `find_changed_quantity`."""

    parts: Sequence[Formula]
    measured: Sequence[Array]
    measure_distance: MeasureDistance
    axes: tuple[str, str]

    def make_baseline(self, choices: Mapping[str, str]) -> _Baseline:
        """Return the formulas with some options in place of the right ones, by choice."""
        plain = [FormulaQuantities(FormulaChange("", base=choices)) for _ in self.parts]
        numbers = [_compute_numbers(*each) for each in zip(self.parts, plain, strict=True)]
        # If the loss has another factor than the paper's, most numbers have it alone.
        factor = _compute_median_ratio(self.measured, numbers) if self._has_free_factor else 1.0
        apart = [np.abs(m - factor * n) for n, m in zip(numbers, self.measured, strict=True)]
        room = MAX_DISTANCE_SHARE * max(float(each.max(initial=0.0)) for each in apart)
        wrong = [each > room for each in apart]
        return _Baseline(choices, plain, numbers, self._measure_all(numbers), wrong, factor)

    @property
    def _has_free_factor(self) -> bool:
        # Whether distances do not depend on a factor of the numbers.
        return self.measure_distance(2 * self.measured[0], self.measured[0]) < MAX_DISTANCE

    def find_single_change(self, base: _Baseline) -> str | None:
        """Return the change of one quantity or choice, "" for none; None if not found."""
        if base.distance <= MAX_DISTANCE:
            return ""
        return self._find_fitting(_list_changes(base.plain[0], self.axes), base)

    def find_use_or_pairs(self, base: _Baseline) -> str | None:
        """Return a factor, or a change of one use of a quantity or of pairs of rows."""
        changes = (self._list_factors(base), self._list_uses(base), _list_means(base, self.axes))
        return self._find_fitting(itertools.chain(*changes), base)

    def find_partial_change(self, base: _Baseline) -> str | None:
        """Return the change of some rows only, or of two choices."""
        if base.n_wrong < MIN_WRONG_NUMBERS:
            return None
        changes = [t.change for t in base.tried.values() if t.change.use < 0 and not t.change.pairs]
        rows = [name for name in base.plain[0].rows if self._can_reach(name, base)]
        choices = [change for change in changes if change.choices]
        near = {c.words for c in choices if self._is_nearer(base, base.tried[c.words].numbers)}
        pairs = [
            (one, other)
            for one, other in itertools.combinations(choices, 2)
            if one.words in near or other.words in near
        ]
        if rows and base.wrong[0].any() and self._is_rowwise(base):
            # Then a change of some rows gives in them the numbers of a change of all rows.
            wrong = base.wrong[0]
            changes = [c for c in changes if self._find_matches(base, c, 0)[wrong].all()]
        partial = _list_partial_changes(rows, changes, pairs)
        return self._find_fitting(partial, base, is_partial=True)

    def _is_nearer(self, base: _Baseline, numbers: Array | None) -> bool:
        # Whether numbers are nearer to the measured ones than those without a change, on average.
        if numbers is None:
            return False
        due = self.measured[0] / base.factor
        rest, plain = (np.abs(each - due).sum() for each in (numbers, base.numbers[0]))
        return bool(rest < NEARER * plain)

    def find_change_of_most(self, base: _Baseline) -> str | None:
        """Return the change that gives most of the wrong numbers, and leaves few others."""
        if base.n_wrong < MIN_WRONG_ROWS:
            return None
        for change in (tried.change for tried in base.tried.values()):
            if not self._matches_most(base, [self._find_matches(base, change, 0)]):
                continue
            matches = [self._find_matches(base, change, n) for n in range(len(self.parts))]
            if self._matches_most(base, matches):
                right = sum(int(m[w].sum()) for m, w in zip(matches, base.wrong, strict=True))
                return f"{change.words}, for {right} of {base.n_wrong} wrong numbers"
        return None

    def find_function(self, base: _Baseline) -> str | None:
        """Return which quantity is replaced by a function of itself, whatever the function is.

        The values that a quantity must have for the measured numbers are solved for, row by row.
        If they change smoothly along the quantity, it is a function of nothing else; if they do
        along another one, this is added to it, or multiplies it.
        """
        if base.n_wrong < MIN_WRONG_ROWS:
            return None
        given = [n for n, x in base.plain[0].values.items() if x.ndim == 1 and len(x) > 1]
        every = {name: self._solve_quantity(base, name) for name in given}
        solved = {name: each for name, each in every.items() if each is not None}
        if words := _find_weighted_mean(base.plain, solved):
            return words
        roughness = {n: _measure_roughness(s.before, s.after - s.before) for n, s in solved.items()}
        name = min(roughness, key=roughness.__getitem__, default="")
        if name and roughness[name] < MAX_ROUGHNESS:
            x, y = solved[name].before, solved[name].after
            shown = np.argsort(x)[[len(x) // 4, len(x) // 2, -1 - len(x) // 4]]
            examples = ", ".join(f"{y[i]:.3g} at {x[i]:.3g}" for i in shown)
            return f"{name} is another function of itself: {examples}"
        for (name, quantity), other in itertools.product(solved.items(), given):
            if other == name:
                continue
            updates = zip(base.plain, quantity.rows, strict=False)
            along = np.concatenate([q.values[other].detach().numpy()[at] for q, at in updates])
            x, y = quantity.before, quantity.after
            if _measure_roughness(along, y - x) < MAX_ROUGHNESS:
                return f"to {name} a function of {other} is added"
            if _measure_roughness(along, y / np.where(x, x, np.nan)) < MAX_ROUGHNESS:
                return f"{name} is multiplied by a function of {other}"
        return None

    def _solve_quantity(self, base: _Baseline, name: str) -> _SolvedQuantity | None:
        """Return the values of a quantity that give the numbers of some updates, if there are."""
        rows: list[NDArray[np.intp]] = []
        before: list[Array] = []
        after: list[Array] = []
        for number in range(len(self.parts))[:N_SOLVED]:
            x = base.plain[number].values[name].detach().numpy()
            compute = functools.partial(self._compute_with_values, base, name, number)
            plain = base.numbers[number].ravel()
            due = self.measured[number].ravel() / base.factor
            at = _find_used_rows(compute, x, plain)
            solved = None if at is None else _run_secants(compute, x, at, plain, due)
            if at is None or solved is None:
                return None
            rows.append(at)
            before.append(x[at])
            after.append(solved)
        return _SolvedQuantity(rows, np.concatenate(before), np.concatenate(after))

    def _compute_with_values(self, base: _Baseline, name: str, number: int, values: Array) -> Array:
        """Return the numbers of an update for other values of a quantity, flat."""
        given = {name: _make_replacement(lambda _: torch.as_tensor(values))}
        numbers = self._compute(base, FormulaChange("", given), number)
        return (base.numbers[number] if numbers is None else numbers).ravel()

    def _matches_most(self, base: _Baseline, matches: Sequence[NDArray[np.bool_]]) -> bool:
        found = np.concatenate([each.ravel() for each in matches])
        wrong = np.concatenate([each.ravel() for each in base.wrong[: len(matches)]])
        return bool(wrong.any() and min(found[wrong].mean(), found.mean()) >= MIN_MATCH_SHARE)

    def _find_matches(
        self, base: _Baseline, change: FormulaChange, number: int
    ) -> NDArray[np.bool_]:
        """Return which numbers of an update a change gives."""
        due, first = self.measured[number], base.tried[change.words].numbers
        numbers = first if number == 0 else self._compute(base, change, number)
        if numbers is None or not np.isfinite(numbers).all():
            return np.zeros(due.shape, bool)
        factor = _compute_median_ratio([due], [numbers]) if self._has_free_factor else 1.0
        room = 2 * MAX_DISTANCE * float(np.abs(due).max())
        return np.asarray(np.abs(factor * numbers - due) <= room)

    def _compute(self, base: _Baseline, change: FormulaChange, number: int) -> Array | None:
        compute = _compute_pairs if change.pairs else _compute_numbers
        whole = dataclasses.replace(change, base=base.choices)
        try:
            return compute(self.parts[number], FormulaQuantities(whole, base.plain[number].values))
        except RuntimeError:  # a number that differs from row to row, of a formula for other shapes
            return None

    def _find_fitting(
        self, changes: Iterable[FormulaChange], base: _Baseline, is_partial: bool = False
    ) -> str | None:
        """Return the first change that gives the numbers of all updates."""
        for change in changes:
            first = self._compute(base, change, 0)
            if not is_partial:
                base.tried.setdefault(change.words, _TriedChange(change, first))
            # Other updates are computed only if the numbers of the first fit.
            if first is None or not np.isfinite(first).all():
                continue
            if self.measure_distance(first, self.measured[0]) > MAX_DISTANCE:
                continue
            others = [self._compute(base, change, n) for n in range(1, len(self.parts))]
            known = [first, *(each for each in others if each is not None)]
            if len(known) == len(self.parts) and self._measure_all(known) <= base.max_distance:
                return change.words
        return None

    def _is_rowwise(self, base: _Baseline) -> bool:
        """Return whether each number of the first update depends on quantities of its row alone."""
        plain, numbers = base.plain[0], base.numbers[0]
        moved = dict.fromkeys(plain.values, _PERTURB)
        every = self._compute(base, FormulaChange("", moved), 0)
        if every is None:
            return False
        for rows in plain.rows:
            some = self._compute(base, FormulaChange("", moved, rows=rows), 0)
            if some is None or not np.all(np.isclose(some, every) | np.isclose(some, numbers)):
                return False
        return True

    def _can_reach(self, rows: str, base: _Baseline) -> bool:
        """Return whether wrong numbers are among those that depend on these rows."""
        for number, (each, mask) in enumerate(zip(base.plain, base.wrong, strict=True)):
            moved = dict.fromkeys(each.values, _PERTURB)
            numbers = self._compute(base, FormulaChange("", moved, rows=rows), number)
            if numbers is None:
                return True
            if np.any(mask & (numbers == base.numbers[number])):
                return False
        return True

    def _list_factors(self, base: _Baseline) -> Iterator[FormulaChange]:
        # If the formula is linear in a quantity, the factor is that of the distance from 0.
        number = base.numbers[0]
        groups = base.plain[0].groups
        for name in (*base.plain[0].values, *groups):
            members = groups.get(name, (name,))
            nothing = dict.fromkeys(members, _make_product(0))
            without = self._compute(base, FormulaChange("", nothing), 0)
            assert without is not None
            way, rest = (number - without).ravel(), (self.measured[0] - without).ravel()
            share = float(rest @ way) / max(float(way @ way), 1e-30)
            for words, factor in _BASES.items():
                yield FormulaChange(
                    f"{name} {words}", dict.fromkeys(members, _make_product(factor))
                )
            for factor in (share, 0.25, 4.0):
                words, product = f"{name} counts {factor:.4g} times", _make_product(factor)
                yield FormulaChange(words, dict.fromkeys(members, product))

    def _list_uses(self, base: _Baseline) -> Iterator[FormulaChange]:
        # Changes of one of several uses that have an effect on the numbers.
        nothing = FormulaChange("", {"": _make_replacement(torch.neg)}, base=base.choices)
        plain = base.plain[0].values
        seen = FormulaQuantities(nothing, plain)
        _compute_numbers(self.parts[0], seen, watches=True)
        for name, consumers in seen.uses.items():
            if len(consumers) < 2:
                continue
            effective = []
            for use in range(len(consumers)):
                other = self._compute(base, FormulaChange("", {name: _PERTURB}, use=use), 0)
                if other is not None and not np.array_equal(other, base.numbers[0]):
                    effective.append(use)
            if len(effective) < 2:
                continue
            for use in effective:
                shown = FormulaQuantities()
                shown.values = {name: plain[name]}
                for each in _list_operations(shown, self.axes, _choose_operations):
                    words = f"{each.words}, in {consumers[use] or 'the result'}"
                    yield dataclasses.replace(each, words=words, use=use)

    def _measure_all(self, numbers: Iterable[Array]) -> float:
        both = ([array.ravel() for array in arrays] for arrays in (numbers, self.measured))
        return self.measure_distance(*(np.concatenate(each) for each in both))


def _compute_numbers(part: Formula, quantities: FormulaQuantities, watches: bool = False) -> Array:
    if not watches and quantities.change.use < 0:
        return np.asarray(part(quantities).detach().numpy())
    with _UseMode(quantities):
        return np.asarray(part(quantities).detach().numpy())


def _find_weighted_mean(
    plain: Sequence[FormulaQuantities], solved: Mapping[str, _SolvedQuantity]
) -> str:
    """Return of which two quantities a quantity is the weighted mean, or "" if of none."""
    of_updates = [{**q.values, **q.parts} for q in plain]
    known = [n for n, x in of_updates[0].items() if x.ndim == 1 and len(x) > 1]
    for name, quantity in solved.items():
        y, columns = quantity.after, dict[str, Array]()
        for other in sorted(known):
            arrays = [values[other].detach().numpy() for values in of_updates]
            updates = zip(arrays, quantity.rows, strict=False)
            if all(len(array) == len(arrays[0]) for array in arrays):
                columns[other] = np.concatenate([array[at] for array, at in updates])
        for (one, u), (other, v) in itertools.combinations(columns.items(), 2):
            # With weights of sum 1, the quantity minus one part is a multiple of their distance.
            way, rest = u - v, y - v
            share = float(rest @ way) / max(float(way @ way), 1e-30)
            apart = float(np.abs(share * way - rest).max())
            if MIN_SHARE < share < 1 - MIN_SHARE and apart < MAX_DISTANCE * np.abs(rest).max():
                return f"{name} is {share:.3g} times {one} plus {1 - share:.3g} times {other}"
    return ""


def _find_used_rows(
    compute: Callable[[Array], Array], x: Array, plain: Array
) -> NDArray[np.intp] | None:
    """Return the row of a quantity that each number depends on; None if not each on its own.

    For each binary digit, all rows are moved whose number, from 1, has it. The numbers that change
    then spell the rows that they depend on.

    Args:
        compute: Computes the numbers for other values of the quantity.
        x: Values of the quantity.
        plain: Numbers for these values.
    """
    numbers_of_rows, spread = np.arange(1, len(x) + 1), _compute_spread(x)
    rows = np.full(len(plain), -1)
    for bit in (1 << place for place in range(len(x).bit_length())):
        moved = compute(x + spread * ((numbers_of_rows & bit) > 0)) != plain
        rows += bit * moved
    is_valid = rows.min(initial=0) >= 0 and rows.max(initial=0) < len(x)
    return rows if is_valid and len(np.unique(rows)) == len(rows) else None


def _run_secants(
    compute: Callable[[Array], Array], x: Array, rows: NDArray[np.intp], plain: Array, due: Array
) -> Array | None:
    """Solve for values of rows that give the numbers `due`, by the secant method in each row."""
    values, spread = x.copy(), _compute_spread(x)
    last, last_numbers, now = x[rows], plain, x[rows] + 0.1 * spread
    for _ in range(N_SECANTS):
        values[rows] = now
        numbers = compute(values)
        with np.errstate(all="ignore"):
            way = (due - numbers) * (now - last) / (numbers - last_numbers)
        step = np.clip(np.nan_to_num(way, posinf=0, neginf=0), -2 * spread, 2 * spread)
        last, last_numbers, now = now, numbers, now + step
    is_wrong = np.abs(last_numbers - due) > MAX_DISTANCE * np.abs(due).max()
    return None if is_wrong.any() else last


def _compute_spread(x: Array) -> float:
    return max(float(np.std(x)), 1e-6)


def _measure_roughness(x: Array, y: Array) -> float:
    """Return how far numbers are from the line between their neighbours along another quantity.

    It is 0 for a line and about 1 for numbers without any relation, as a share of their spread.
    """
    if (
        not np.isfinite(y).all()
        or np.mean(np.abs(y) > MAX_DISTANCE * np.ptp(x)) < MIN_MATCH_SHARE / 2
    ):
        return np.inf
    # Numbers at nearly the same place share a bin, such as those of a row in several updates.
    places = np.round(N_BINS * (x - x.min()) / max(np.ptp(x), 1e-12))
    _, bins, sizes = np.unique(places, return_inverse=True, return_counts=True)
    mean_x, mean_y = (np.bincount(bins, weights=each) / sizes for each in (x, y))
    spread = float(np.abs(mean_y - np.median(mean_y)).mean())
    if len(mean_x) < MIN_BINS or spread < MAX_DISTANCE * np.ptp(mean_x):
        return np.inf
    share = (mean_x[1:-1] - mean_x[:-2]) / (mean_x[2:] - mean_x[:-2])
    on_line = mean_y[:-2] + share * (mean_y[2:] - mean_y[:-2])
    between = float(np.abs(mean_y[1:-1] - on_line).mean())
    within = float(np.abs(y - mean_y[bins]).mean())
    return max(between, within) / spread


def _compute_median_ratio(measured: Sequence[Array], numbers: Sequence[Array]) -> float:
    pairs = zip(measured, numbers, strict=True)
    ratios = np.concatenate([(m / np.where(n, n, np.nan)).ravel() for m, n in pairs])
    known = ratios[np.isfinite(ratios)]
    return float(np.median(known)) if len(known) else 1.0


def _compute_pairs(part: Formula, quantities: FormulaQuantities) -> Array:
    # A loss of all pairs of rows has the mean over them.
    change, plain = quantities.change, quantities.plain
    size = max(len(plain[name]) for name in change.operations)
    rolls = (
        _make_replacement(functools.partial(torch.roll, shifts=i, dims=0)) for i in range(size)
    )
    changes = (
        dataclasses.replace(change, operations=dict.fromkeys(change.operations, roll))
        for roll in rolls
    )
    numbers = (_compute_numbers(part, FormulaQuantities(each, plain)) for each in changes)
    return np.asarray(sum(numbers)) / size


_BASES = {
    "counts 0.6931 times, as with powers of 2": float(np.log(2)),
    "counts 1.443 times, as with logarithms to base 2": 1 / float(np.log(2)),
}
"""Factors of exponents and logarithms with another base."""


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


def _choose_operations(value: Tensor) -> list[Mapping[str, Operation]]:
    return [_ANY_SHAPE, *(_OVER_ROWS, _OVER_COLUMNS)[: value.ndim], _SHAPES]


def _list_means(base: _Baseline, axes: tuple[str, str]) -> Iterator[FormulaChange]:
    # Rows that are paired with those of other quantities, where one of them has an axis more.
    rowed = {name: x for name, x in base.plain[0].values.items() if x.ndim and len(x) > 1}
    of_all = f"is that of all rows of the {axes[0]}, each paired with all"
    for name in rowed:
        yield FormulaChange(f"{name} {of_all}", {name: _make_replacement(torch.clone)}, pairs=True)
    mean = _make_replacement(lambda x: x.mean(0))
    for one, other in itertools.combinations(rowed, 2):
        words = f"{one} and {other} are their means over the {axes[0]}, as if paired with all rows"
        yield FormulaChange(words, {one: mean, other: mean})


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
    rows: Sequence[str],
    changes: Sequence[FormulaChange],
    pairs: Sequence[tuple[FormulaChange, FormulaChange]],
) -> Iterator[FormulaChange]:
    # Changes of some rows only, and two choices at once.
    for name, change in itertools.product(rows, changes):
        yield dataclasses.replace(change, words=f"{change.words}, {name}", rows=name)
    for one, other in pairs:
        if one.choices.keys() != other.choices.keys():
            words = f"{one.words}; {other.words}"
            yield FormulaChange(words, choices={**one.choices, **other.choices})


def _make_replacement(operation: Operation) -> Replacement:
    return lambda value, _: operation(value)


def _take_quantity(name: str) -> Replacement:
    return lambda _, plain: plain[name]


_PERTURB = _make_replacement(lambda x: 1.37 * x + 0.11)
"""Changes a quantity in a way that changes all numbers that depend on it."""
