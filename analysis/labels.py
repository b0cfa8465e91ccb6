"""Labels, numbers, settings and file names in words, shared by terminal, files and pages."""

import collections
import hashlib
import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from parallax.analysis.data.runs import CompletedRun, ExcludedRun, LoadedRuns, StudyCell
from parallax.analysis.stats.intervals import ConfidenceInterval
from parallax.analysis.stats.ranks import SameOrderChance
from parallax.harness.record.files import escape_unprintable
from parallax.harness.record.labels import FRAMEWORK_LABELS
from parallax.harness.record.labels import LIBRARY_DEFAULTS as LIBRARY_DEFAULTS
from parallax.harness.record.labels import get_label as get_label

Item = TypeVar("Item")
Key = TypeVar("Key")

_MAX_FILE_NAME = 200
# No two of them give the same name: settings such as `n_envs=8` have no hyphen in their names.
_PLAIN_PART = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9.])?")
_PLAIN_SETTINGS = re.compile(r"(\w+=[A-Za-z0-9.-]+(,|$))*", re.A)

MISSING = "-"

# How each kind of interval is computed.
INTERVAL_FORMULAS = {
    "t": "mean ± t(0.975, n-1)·s/√n",
    "thesis": "mean ± 1.96·population deviation/√n",
    "bootstrap": "2.5% and 97.5% percentiles of 10,000 bootstrap means",
    "bca": "percentiles of 10,000 bootstrap means, corrected for bias and skewness",
}


def format_number(value: float) -> str:
    """Format a value with four significant digits, whole above 999, never in scientific notation.

    More than six decimals are cut off; NaN is shown as a dash.
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    mantissa = f"{value:.3e}"
    rounded, exponent = float(mantissa), int(mantissa.partition("e")[2])
    if exponent >= 3:
        return f"{value:.0f}"
    text = f"{rounded:.{min(6, 3 - exponent)}f}"
    return text.removeprefix("-") if float(text) == 0 else text


def escape_markdown(text: str) -> str:
    """Escape text so that nothing in it is read as Markdown."""
    for sign in "\\`*_|<[":
        text = text.replace(sign, f"\\{sign}")
    return text


def make_anchor(heading: str) -> str:
    """Return the anchor of a heading on a page, as repositories make it in Markdown."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def format_steps(value: int) -> str:
    """Format a count of environment steps, such as 18,432."""
    return f"{value:,}"


def format_interval_bounds(interval: ConfidenceInterval) -> str:
    """Format the ends of an interval, or say why there are none."""
    if not math.isnan(interval.low):
        return f"[{format_number(interval.low)}, {format_number(interval.high)}]"
    return "n = 1, no interval"


def format_seeds_needed(value: float) -> str:
    """Format a number of seeds; a dash if unknown."""
    if math.isnan(value):
        return MISSING
    return f"{value:.0f}" if math.isfinite(value) else "> 1,000"


def format_order_probability(same_order: float, chance: SameOrderChance) -> str:
    """Format the probability of the same order, and its value if all algorithms tie."""
    ends = f"{chance.low:.2f} to {chance.high:.2f}"
    return f"{same_order:.2f} (if all tied: {chance.mean:.2f} on average, {ends} in 95%)"


def clean_file_name(text: str) -> str:
    """Return text with all but letters, digits, dots and hyphens replaced by hyphens."""
    return re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-")


def make_file_name(*parts: str) -> str:
    """Return parts joined to a name that is safe in any file system; empty parts are left out.

    A hash follows where the name is cut, or other parts may give the same: figures and tables must
    not replace each other. Only the last part may be settings, `a=1,b=2`, which need no hash; a
    study may be named `a=1` or `a-1`.
    """
    given = [part for part in parts if part]
    name = "_".join(map(clean_file_name, given))
    names = given[:-1] if _PLAIN_SETTINGS.fullmatch(parts[-1]) and parts[-1] else given
    if len(name) <= _MAX_FILE_NAME and all(map(_PLAIN_PART.fullmatch, names)):
        return name
    digest = hashlib.sha256("\0".join(given).encode("utf-8", "replace")).hexdigest()[:8]
    return f"{name[:_MAX_FILE_NAME]}-{digest}"


def make_file_suffix(
    cells: Iterable[StudyCell], study: str, variant: str, algorithm: str | None = None
) -> tuple[str, str]:
    """Return study and variant as far as they are needed to make a file name unique.

    Args:
        cells: All settings of the study.
        study: Study of the file.
        variant: Variant of the file.
        algorithm: Algorithm of the file; None if it contains all.

    Returns:
        The study, empty if there is only one, and the settings of this variant that not all
        variants of the algorithm have.
    """
    known = list(cells)
    own = [c for c in known if c.study == study and algorithm in (None, c.algorithm)]
    apart = set(split_variant(variant)) - set(find_common_parts(own))
    several = len({cell.study for cell in known}) > 1
    return study if several else "", ",".join(sorted(apart))


def get_recipe_order(name: str) -> tuple[int, str]:
    """Return the sort key of a recipe: the thesis' order, then others by name."""
    order = ("sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx", "original")
    return (order.index(name) if name in order else len(order), name)


def sort_recipes(names: Iterable[str]) -> tuple[str, ...]:
    """Return the sets of hyperparameters in the thesis' order, then others by name."""
    return tuple(
        sorted(set(names), key=lambda name: (name == LIBRARY_DEFAULTS, get_recipe_order(name)))
    )


def get_recipe_label(name: str) -> str:
    """Return the display name of a recipe; a user's own recipe is shown by its name."""
    known = {"original": "original papers", "zoo": "RL Baselines3 Zoo", "defaults": "own values"}
    own = f"{get_label(name)} defaults" if name in FRAMEWORK_LABELS else name
    return known.get(name, own)


def wrap_task_name(text: str, width: int = 14) -> str:
    """Return a task's name in lines of at most `width` characters, broken before capitals.

    Further lines of the text stay as they are.
    """
    env, *rest = text.split("\n")
    lines = [""]
    for word in re.findall(r"[A-Z]?[^A-Z]+|[A-Z]+", env):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("")
        lines[-1] += word
    return "\n".join([*lines, *rest])


def format_run_counts(loaded: LoadedRuns) -> str:
    """Phrase how many runs there are, and what the number does not include."""
    links = len(loaded.links)
    passed_over = f" {links} links to folders were not followed." if links else ""
    return (
        f"Runs: {loaded.requested} requested (folders found), {loaded.completed} completed, "
        f"{loaded.used} used. A seed that was never started leaves no folder, unless pending, "
        f"and is not counted.{passed_over}"
    )


def find_common_parts(cells: Sequence[StudyCell]) -> list[str]:
    """Return the options that all variants have in common."""
    variants = [split_variant(cell.variant) for cell in cells]
    return [part for part in variants[0] if all(part in variant for variant in variants)]


def find_own_parts(cell: StudyCell, cells: Sequence[StudyCell]) -> list[str]:
    """Return the settings in a variant that `find_common_parts` leaves out."""
    common = find_common_parts(cells)
    return [part for part in split_variant(cell.variant) if part not in common]


def split_variant(variant: str) -> list[str]:
    """Return the settings in a variant; commas inside a value do not separate settings."""
    return re.split(r",(?=\w+=)", variant)


def shorten_run_path(item: CompletedRun | ExcludedRun, loaded: LoadedRuns) -> str:
    """Return the path of a run folder relative to the loaded root."""
    relative = str(item.path.relative_to(loaded.root))
    return escape_unprintable(item.path.name if relative == "." else relative)


def format_range(values: Iterable[float], format: Callable[[Any], str] = str) -> str:
    """Return the smallest and the largest of some numbers; empty where there are none."""
    found = sorted(set(values))
    return " to ".join(dict.fromkeys(map(format, (found[0], found[-1])))) if found else ""


def format_p_value(value: float) -> str:
    """Format a p-value in the usual notation."""
    if math.isnan(value):
        return "p unknown"
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def format_setting(cell: StudyCell, cells: Iterable[StudyCell]) -> str:
    """Return a setting in words: its study if there are several, and its variant's own settings."""
    known = list(cells)
    parts = find_own_parts(cell, [other for other in known if other.study == cell.study])
    if len({other.study for other in known}) > 1:
        parts = [f"study {cell.study}", *parts]
    own = f" ({', '.join(part for part in parts if part)})" if any(parts) else ""
    return f"{cell.env}, {get_label(cell.algorithm)} under {describe_recipe(cell.hps)}{own}"


def format_ranges(values: Sequence[int], shortest: int = 2) -> str:
    """Format ascending numbers with ranges of `shortest` or more, such as `0 to 4, 7`."""
    parts: list[list[int]] = []
    for value in values:
        if parts and value == parts[-1][-1] + 1:
            parts[-1].append(value)
        else:
            parts.append([value])
    return ", ".join(
        f"{part[0]} to {part[-1]}" if len(part) >= shortest else ", ".join(map(str, part))
        for part in parts
    )


def group_items(items: Iterable[Item], key_of: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Group items by a key; groups are in the order of their first items."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key_of(item), []).append(item)
    return found


def group_by_variant(
    items: Iterable[Item], cells: Sequence[StudyCell], cell_of: Callable[[Item], StudyCell]
) -> list[tuple[str, list[Item]]]:
    """Group items by algorithm and variant, which are given in words.

    Options that the variants of all `cells` have are left out.
    """
    found = group_items(items, lambda item: cell_of(item).variant_key)
    named = []
    for key in sorted(found):
        cell = cell_of(found[key][0])
        parts = find_own_parts(cell, [other for other in cells if other.study == cell.study])
        words = " with ".join(
            part for part in (get_label(cell.algorithm), ", ".join(parts)) if part
        )
        named.append((words, found[key]))
    return named


def split_main_variants(
    items: Sequence[Item], main_cells: Collection[StudyCell], cell_of: Callable[[Item], StudyCell]
) -> tuple[list[Item], list[tuple[str, list[Item]]]]:
    """Return the items of main variants, and all items by algorithm and variant.

    Returns:
        The items of main variants, or all if there are none; and all items in parts, each with the
        start of its sentence.
    """
    cells = [cell_of(item) for item in items]
    sides: tuple[list[Item], list[Item]] = ([], [])
    for item, cell in zip(items, cells, strict=True):
        sides[cell not in main_cells].append(item)
    main, others = sides if sides[0] else (sides[1], [])
    begun = [
        (f"{lead}{words}", own)
        for group, lead in ((main, ""), (others, "Apart from these, "))
        for words, own in group_by_variant(group, cells, cell_of)
    ]
    return main, begun


def format_higher_minus_lower_interval(difference: float, low: float, high: float) -> str:
    """Return the ends of an interval for "higher - lower", in brackets, given any difference."""
    sign = 1 if difference >= 0 else -1
    least, most = sorted((sign * low, sign * high))
    return f"[{format_number(least)}, {format_number(most)}]"


def describe_recipe(hps: str) -> str:
    """Return a set of hyperparameters in words."""
    known = {
        LIBRARY_DEFAULTS: LIBRARY_DEFAULTS,
        "original": "the original papers' values",
        "zoo": "RL Baselines3 Zoo's values",
        "defaults": "own hyperparameters",  # of runs at alignment=defaults
        "unknown": "hyperparameters that are not known",  # of imported runs
    }
    own = f"{get_label(hps)}'s defaults" if hps in FRAMEWORK_LABELS else f"the recipe {hps}"
    return known.get(hps, own)


def format_count(count: int, noun: str) -> str:
    """Format a number with its noun, such as `1 pair` or `1,200 pairs`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_verdict_counts(words: Sequence[str], order: Sequence[str]) -> str:
    """Format counts of verdicts, such as `3 different, 1 equivalent, 20 inconclusive`."""
    found = collections.Counter(words)
    return ", ".join(f"{found[word]:,} {word}" for word in order)


def describe_sizes_used(sizes: Iterable[int]) -> str:
    """Return a sentence on how many runs are behind each mean."""
    return f"n = {format_range(sizes)} runs used per mean."


def hide_machine(path: Path) -> Path:
    """Return a path as a page may show it: relative to the folder in which the command runs.

    Only the name remains of an absolute path to another place on the machine.
    """
    if not path.is_absolute():
        return path
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
