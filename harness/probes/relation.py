"""Relations of measured numbers to the paper's if they are another function of the inputs.

Only forms that hold for several numbers are named, since these rarely hold by chance.
"""

import types
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.adapter import Array

RELATION_TOLERANCE = 2e-3
"""Share of the paper's largest magnitude within which two numbers count as equal."""
_MIN_NUMBERS = 6  # fewest numbers for any description
_MIN_GROUP_SIZE = 3  # fewest of them that a form must explain

KIND_SEPARATOR = "; "
"""Stands between the kinds of a number in several respects."""
OTHER_FUNCTION = "another function of its inputs"
"""Description if no relation is known."""
_SHAPES: Mapping[str, Callable[[Array], Array]] = {
    "the square": np.square,
    "the absolute value": np.abs,
    "the sign": np.sign,
    "the square root": lambda e: np.sign(e) * np.sqrt(np.abs(e)),
    "the signed square": lambda e: e * np.abs(e),
    "the cube": lambda e: e**3,
    "tanh": np.tanh,
    "the exponential": lambda e: np.exp(np.minimum(e, 50.0)),
    "the logarithm": lambda e: np.log(np.maximum(np.abs(e), 1e-12)),
    "the reciprocal": lambda e: 1 / np.where(np.abs(e) > 1e-12, e, np.inf),
}
"""Functions of the paper's numbers that faults may compute instead."""


def describe_weighted_sum(value: Array, terms: Mapping[str, Array]) -> str:
    """Return the weights of known quantities that add up to `value`; empty if they do not.

    Args:
        value: Measured numbers; any shape.
        terms: Quantities of the same shape, by their description.
    """
    known = {name: np.ravel(term) for name, term in terms.items() if np.size(term) == value.size}
    v = np.ravel(value).astype(float)
    if not known or len(v) < len(known) + _MIN_GROUP_SIZE or not np.isfinite(v).all():
        return ""
    basis = np.stack([*known.values()], axis=1)
    weights = np.linalg.lstsq(basis, v, rcond=None)[0]
    room = RELATION_TOLERANCE * max(float(np.abs(v).max()), 1e-6)
    if not _is_near(basis @ weights, v, room):
        return ""
    shown = [
        f"{weight:.4g} times {name}"
        for name, weight in zip(known, weights, strict=True)
        if abs(weight) > RELATION_TOLERANCE
    ]
    return " + ".join(shown) or "0"


def describe_course(found: Array, due: Array, steps: Array) -> str:
    """Return where a quantity leaves its schedule, and how it continues.

    Args:
        found: Measured numbers.
        due: The numbers of the schedule.
        steps: Environment step of each.
    """
    room = RELATION_TOLERANCE * max(float(np.abs(due).max()), 1e-6)
    wrong = np.flatnonzero(np.abs(found - due) > room)
    if len(found) != len(due) or len(found) < _MIN_NUMBERS or not len(wrong):
        return ""
    parts = [f"as due before step {steps[wrong[0]]:g}" if wrong[0] else "other from the start"]
    changes = np.diff(found)
    moved = np.flatnonzero(np.abs(changes) > room)
    if not len(moved):
        return f"{parts[0]}: always {found[0]:.4g}"
    at = int(np.abs(changes).argmax())
    rest = changes[moved[moved != at]]
    if np.abs(changes[at]) > 3 * (np.median(np.abs(rest)) if len(rest) else 0.0):
        verb = "drops" if changes[at] < 0 else "jumps"
        parts.append(f"{verb} at once from {found[at]:.3g} to {found[at + 1]:.3g} ")
        parts[-1] += f"at step {steps[at + 1]:g}"
    if len(rest):
        verb = "falls" if np.median(rest) < 0 else "rises"
        parts.append(f"{verb} by {abs(np.median(rest)):.3g} at a time, {len(rest)} times")
    if abs(found[-1] - due[-1]) > room:
        parts.append(f"ends at {found[-1]:.3g}, not {due[-1]:.3g}")
    return ", ".join(parts)


def describe_relation(
    value: Array,
    expected: Array,
    terms: Mapping[str, Array] = types.MappingProxyType({}),
    kinds: Sequence[str] = (),
) -> str:
    """Return a relation in words, such as `at most 0.5, for 7 of 24`; empty if none is known.

    Args:
        value: Measured numbers; any shape.
        expected: The formula's numbers; with another shape, the result is empty.
        terms: Quantities that the numbers may be a weighted sum of, by their description.
        kinds: The kind of each number, such as `at a time limit`; empty if all are of one.
    """
    if value.shape != expected.shape or value.size < _MIN_NUMBERS:
        return ""
    v, e = np.ravel(value).astype(float), np.ravel(expected).astype(float)
    if not (np.isfinite(v).all() and np.isfinite(e).all()):
        return ""
    room = RELATION_TOLERANCE * max(float(np.abs(e).max()), 1e-6)
    other = np.abs(v - e) > room
    if not other.any():
        return ""
    share = _describe_share(other, np.array(kinds))
    if text := _describe_clipping(v, e, other, room):
        return text + share
    if other.all():
        return _describe_whole_array(v, e, room)
    if other.sum() >= _MIN_GROUP_SIZE and (text := _describe_subset(v[other], e[other], room)):
        return text + share
    if other.sum() >= _MIN_GROUP_SIZE and (text := _describe_shape(v[other], e[other], room)):
        return text + share
    own_terms = {name: np.ravel(a)[other] for name, a in terms.items() if np.size(a) == len(v)}
    if text := describe_weighted_sum(v[other], own_terms):
        return text + share
    forms = _describe_line, _describe_clipped_line, _describe_displacement
    text = next((text for form in forms if (text := form(v, e, room))), OTHER_FUNCTION)
    return text + share


def _describe_share(other: NDArray[np.bool_], kinds: NDArray[np.str_]) -> str:
    # How many numbers differ, and their kind if it is one.
    words = f", for {other.sum()} of {len(other)}"
    if len(kinds) != len(other):
        return words
    # Each number may be of a kind in several respects.
    for respect in np.array([kind.split(KIND_SEPARATOR) for kind in kinds]).T:
        names = {*respect[other]}
        if len(names) == 1 < len({*respect}):
            (name,) = names
            words += f" {name}, of {(respect == name).sum()}"
        elif len(left_out := {*respect} - names) == 1:
            words += f", none {left_out.pop()}"
    return words


def _is_near(one: Array, other: Array | float, room: float) -> bool:
    return bool(np.all(np.abs(one - other) <= room))


def _describe_clipping(v: Array, e: Array, other: Array, room: float) -> str:
    low, high = float(v.min()), float(v.max())
    words: Sequence[tuple[Array, str]] = (
        (np.minimum(e, high), f"at most {high:.4g}"),
        (np.maximum(e, low), f"at least {low:.4g}"),
        (np.clip(e, low, high), f"between {low:.4g} and {high:.4g}"),
    )
    if other.sum() < _MIN_GROUP_SIZE or other.sum() > len(v) - _MIN_GROUP_SIZE:
        return ""
    return next((text for bounded, text in words if _is_near(v, bounded, room)), "")


def _describe_subset(v: Array, e: Array, room: float) -> str:
    # Describes the numbers that differ if others do not.
    if _is_near(v, 0.0, room):
        return "0"
    if _is_near(v, float(v.mean()), room):
        return f"{v.mean():.4g}"
    return _describe_scale_or_offset(v, e, room)


def _describe_scale_or_offset(v: Array, e: Array, room: float) -> str:
    norm = float(np.sum(e**2))
    factor = float(np.sum(v * e)) / norm if norm > 0 else np.nan
    if _is_near(v, factor * e, room * max(1.0, abs(factor))):
        return f"{factor:.4g} times the paper's"
    offset = float(np.mean(v - e))
    return f"the paper's {offset:+.4g}" if _is_near(v, e + offset, room) else ""


def _describe_whole_array(v: Array, e: Array, room: float) -> str:
    forms: Sequence[Callable[[Array, Array, float], str]] = (
        _describe_permutation,
        _describe_sign_flips,
        _describe_line,
        _describe_two_factors,
        _describe_shape,
        _describe_clipped_line,
        _describe_displacement,
    )
    return next((text for form in forms if (text := form(v, e, room))), "")


def _describe_permutation(v: Array, e: Array, room: float) -> str:
    return "the paper's numbers in another order" if _is_near(np.sort(v), np.sort(e), room) else ""


def _describe_sign_flips(v: Array, e: Array, room: float) -> str:
    return "of the paper's size with other signs" if _is_near(np.abs(v), np.abs(e), room) else ""


def _describe_line(v: Array, e: Array, room: float) -> str:
    if np.ptp(e) <= room:
        return ""
    factor, offset = np.polyfit(e, v, 1)
    if not _is_near(v, factor * e + offset, room * max(1.0, abs(factor))):
        return ""
    if abs(factor) * np.ptp(e) <= room:
        return f"{offset:.4g} whatever the inputs"
    words = f"{factor:.4g} times the paper's"
    return words if abs(offset) <= room else f"{words} {offset:+.4g}"


def _describe_clipped_line(v: Array, e: Array, room: float) -> str:
    # Finds a line that is cut at the smallest or largest number.
    low, high = float(v.min()), float(v.max())
    inside = (v > low + room) & (v < high - room)
    if inside.sum() < _MIN_GROUP_SIZE:
        return ""
    text = _describe_line(v[inside], e[inside], room)
    factor, offset = np.polyfit(e[inside], v[inside], 1)
    made = np.clip(factor * e + offset, low, high)
    is_cut = text and "whatever" not in text and _is_near(v, made, room * max(1.0, abs(factor)))
    return f"{text}, cut at {low:.4g} and {high:.4g}" if is_cut else ""


def _describe_displacement(v: Array, e: Array, room: float) -> str:
    # Finds the paper's numbers in reverse order or some places away.
    for turned, order in ((e, ""), (e[::-1], " in reverse order")):
        for places in (0, 1, -1, 2, -2):
            later, earlier = max(places, 0), max(-places, 0)
            moved = turned[earlier : len(e) - later]
            varied = len(np.unique(moved.round(9))) >= _MIN_NUMBERS
            if varied and _is_near(v[later : len(v) - earlier], moved, room):
                where = f"{abs(places)} place{'s' * (abs(places) > 1)} "
                where += "later" if places > 0 else "earlier"
                return f"the paper's numbers{order}" + f", {where}" * (places != 0)
    return ""


def _describe_shape(v: Array, e: Array, room: float) -> str:
    # Finds a function of the paper's numbers, up to a factor. Two sizes fit many functions, and
    # the room is that of the measured numbers: a large factor would let chance pass.
    room = max(room, RELATION_TOLERANCE * float(np.abs(v).max()))
    if len(np.unique(np.round(np.abs(e) / room))) < _MIN_GROUP_SIZE:
        return ""
    for name, function in _SHAPES.items():
        shaped = function(e)
        norm = float(shaped @ shaped)
        factor = float(shaped @ v) / norm if norm > 0 else np.nan
        if _is_near(v, factor * shaped, room):
            times = "" if abs(factor - 1) < RELATION_TOLERANCE else f"{factor:.4g} times "
            return f"{times}{name} of the paper's"
    return ""


def _describe_two_factors(v: Array, e: Array, room: float) -> str:
    large = np.abs(e) > 10 * room
    if not large.all():
        return ""
    ratios = v / e
    middle = (ratios.min() + ratios.max()) / 2
    upper = ratios > middle
    factors = [float(np.median(ratios[part])) for part in (upper, ~upper)]
    made = np.where(upper, factors[0] * e, factors[1] * e)
    several = min(upper.sum(), (~upper).sum()) >= _MIN_GROUP_SIZE
    if not several or not _is_near(v, made, room * max(1.0, *map(abs, factors))):
        return ""
    return (
        f"{factors[0]:.4g} times the paper's, for {upper.sum()} of {len(v)}, and "
        f"{factors[1]:.4g} times"
    )
