"""What test generators killed, as sentences and as rows."""

import math
from collections.abc import Iterator

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
        }
        for operator in item.operators
        for found in operator.configurations
    ]


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
    """A table like the paper's Table III, for a terminal."""
    setting = item.setting
    yield (
        f"{label(setting.framework)}, {label(setting.algorithm)}, {setting.env}, hyperparameters "
        f"{setting.hps}, {setting.steps} steps, {len(setting.originals)} originals"
        + (", as the published code counts:" if item.published else ":")
    )
    head = ("operator", "values", "pairs", "trivial", "killable", "weak", "strong", "sensitivity")
    yield "  " + "".join(f"{name:>12}" for name in head)
    for operator in item.operators:
        yield "  " + "".join(f"{cell:>12}" for cell in _cells(operator))
    means = ("mean", "", "", "", "", _told(item.weak), _told(item.strong), _told(item.sensitivity))
    yield "  " + "".join(f"{cell:>12}" for cell in means)
    for operator in item.operators:
        yield from _remarks(operator)


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


def _remarks(operator: Operator) -> Iterator[str]:
    for found in operator.configurations:
        missing = sorted(set(found.mutant.trained) - set(found.mutant.seeds))
        name = _name(operator, found)
        if missing:
            yield f"  {name}: seeds {', '.join(map(str, missing))} have no original."
        for generator, tests in found.mutant.tests.items():
            if tests.why_not:
                yield f"  {name}: no tests of the {generator} generator: {tests.why_not}."
        if found.replay is not None and found.replay.weaker == found.replay.n:
            yield f"  {name}: all {found.replay.n} originals are weaker than their mutants."


def _name(operator: Operator, found: Configuration) -> str:
    value = found.mutant.value
    return operator.name if value is None else f"{operator.name} {value:g}"
