"""What test generators killed, as sentences and as rows."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from analysis.data.muprl_paper import RUNS, VALUES, Cell, Column, published
from analysis.stats.killing import Killing, Score
from analysis.tables.verdicts import Row
from analysis.verdicts.mutation import Configuration, Mutation, Operator
from analysis.words import label


def rows(item: Mutation) -> list[Row]:
    """One row per mutant configuration, with every n."""
    setting = item.setting
    return [
        {
            **{"env": setting.env, "algorithm": setting.algorithm, "hps": setting.hps},
            **{"framework": setting.framework, "originals": len(setting.originals)},
            "operator": operator.name,
            "value": _blank(found.mutant.value),
            "original_value": _blank(found.mutant.original_value),
            "mutants": len(found.mutant.trained),
            "pairs": len(found.mutant.seeds),
            "killable": found.is_killable,
            "trivial": found.is_trivial,
            "trivial_share": _number(found.trivial.share if found.trivial else math.nan),
            **_killing_row("replay", found.replay),
            **_killing_row("weak", found.weak),
            **_killing_row("strong", found.strong),
            "chosen": found is operator.chosen,
            "as_published_code": item.published,
            **_paper_row(published(setting.env, setting.algorithm), operator.name),
        }
        for operator in item.operators
        for found in operator.configurations
    ]


def _paper_row(paper: Column | None, operator: str) -> Row:
    """The operator's row in the paper, the same beside each of its values."""
    cell = paper.operators.get(operator) if paper else None
    names = [field.name for field in dataclasses.fields(Cell)]
    values = dataclasses.astuple(cell) if cell else (math.nan,) * len(names)
    return {f"paper_{n}": _number(value) for n, value in zip(names, values, strict=True)}


def _killing_row(name: str, found: Killing | None) -> Row:
    keys = [f"{name}_{part}" for part in ("killed", "weaker", "rate")]
    if found is None:
        return dict.fromkeys(keys, "")
    return dict(zip(keys, (found.killed, found.weaker, _number(found.rate)), strict=True))


def _number(value: float) -> float | str:
    return "" if math.isnan(value) else value


def _blank(value: float | None) -> float | str:
    return "" if value is None else value


def lines(item: Mutation) -> Iterator[str]:
    """A table like the paper's Table III, for a terminal, with the paper's own beside."""
    setting = item.setting
    paper = published(setting.env, setting.algorithm)
    yield (
        f"{label(setting.framework)}, {label(setting.algorithm)}, {setting.env}, hyperparameters "
        f"{setting.hps}, {setting.steps} steps, {len(setting.originals)} originals"
        + (", as the published code counts:" if item.published else ":")
    )
    if paper:
        yield _line(("",) * len(_HEAD), ("muPRL's Table III",))
    yield _line(_HEAD, _PAPER_HEAD if paper else ())
    for operator in item.operators:
        yield _line(_cells(operator), _paper_cells(paper, operator.name))
    for name in _not_tried(item, paper):
        yield _line((name, *("-" for _ in _HEAD[1:])), _paper_cells(paper, name))
    means = ("mean", "", "", "", "", _told(item.weak), _told(item.strong), _told(item.sensitivity))
    yield _line(means, ("", "", "", "", f"{paper.sensitivity:.2f}") if paper else ())
    if paper:
        yield f"  {_part(item, paper)}"
    yield from _remarks(item)


_HEAD = ("operator", "values", "pairs", "trivial", "killable", "weak", "strong", "sensitivity")
_PAPER_HEAD = _HEAD[3:]


def _line(cells: Sequence[str], paper: Sequence[str]) -> str:
    beside = "".join(f"{cell:>12}" for cell in paper)
    return "  " + "".join(f"{cell:>12}" for cell in cells) + (f"  |{beside}" if paper else "")


def _paper_cells(paper: Column | None, operator: str) -> tuple[str, ...]:
    if paper is None:
        return ()
    cell = paper.operators.get(operator)
    return tuple(map(_share, dataclasses.astuple(cell))) if cell else ("-",) * len(_PAPER_HEAD)


def _not_tried(item: Mutation, paper: Column | None) -> list[str]:
    tried = {operator.name for operator in item.operators}
    return [name for name in paper.operators if name not in tried] if paper else []


def _part(item: Mutation, paper: Column) -> str:
    """How much of the paper's study of this setting was made."""
    setting = item.setting
    values = {o.name: len(o.configurations) for o in item.operators if o.name in paper.operators}
    others = [o.name for o in item.operators if o.name not in paper.operators]
    made = ", ".join(f"{name} {n} of {VALUES}" for name, n in values.items()) or "none"
    return (
        f"Of the paper's study: {len(values)} of {len(paper.operators)} operators "
        f"(values: {made}), {len(setting.originals)} of {RUNS} originals, "
        f"{setting.steps} of {paper.steps} steps."
        + (f" Not in its table: {', '.join(others)}." if others else "")
    )


def _cells(operator: Operator) -> tuple[str, ...]:
    found = operator.configurations
    pairs = sorted({len(one.mutant.seeds) for one in found})
    return (
        operator.name,
        str(len(found)),
        "-".join(map(str, dict.fromkeys((pairs[0], pairs[-1])))),
        f"{operator.trivial / len(found):.2f}",
        f"{operator.killable / len(found):.2f}",
        _told(operator.weak),
        _told(operator.strong),
        _share(operator.sensitivity),
    )


def _told(score: Score) -> str:
    return f"{score.value:.2f} ({score.n})" if score.n else "-"


def _share(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _remarks(item: Mutation) -> Iterator[str]:
    """What is missing and why: a reason that many configurations have is told once."""
    why_not: dict[str, list[str]] = {}
    for operator in item.operators:
        if 0 < operator.strong.n < operator.weak.n:
            yield (
                f"  {operator.name}: the weak score is of {operator.weak.n} values, the strong one "
                f"of {operator.strong.n} of them, over which the sensitivity is "
                f"{_share(operator.paired)}."
            )
        for found in operator.configurations:
            missing = sorted(set(found.mutant.trained) - set(found.mutant.seeds))
            name = _name(operator, found)
            if missing:
                yield f"  {name}: seeds {', '.join(map(str, missing))} have no original."
            for generator, tests in found.mutant.tests.items():
                if tests.why_not:
                    reason = f"no tests of the {generator} generator: {tests.why_not}"
                    why_not.setdefault(reason, []).append(name)
            if found.replay is not None and found.replay.weaker == found.replay.n:
                yield f"  {name}: all {found.replay.n} originals are weaker than their mutants."
    for reason, names in why_not.items():
        yield f"  {', '.join(names)}: {reason}."


def _name(operator: Operator, found: Configuration) -> str:
    value = found.mutant.value
    return operator.name if value is None else f"{operator.name} {value:g}"
