"""Mutants killed by test generators, as sentences and as rows."""

import dataclasses
import math
from collections.abc import Iterator, Sequence

from parallax.analysis.data.paper_tables import (
    MUPRL_RUNS,
    MUPRL_VALUES,
    MuprlOperatorScores,
    MuprlTaskResults,
    find_muprl_results,
)
from parallax.analysis.labels import get_label
from parallax.analysis.report.tables import TableRow
from parallax.analysis.stats.mutation_score import KillResult, MeanScore
from parallax.analysis.verdicts.mutation import MutantVerdict, MutationVerdict, OperatorVerdict


def make_mutation_rows(item: MutationVerdict) -> list[TableRow]:
    """Return a row per mutant configuration, with every n."""
    setting = item.setting
    return [
        {
            **{"env": setting.env, "algorithm": setting.algorithm, "hps": setting.hps},
            **{"framework": setting.framework, "originals": len(setting.originals)},
            "operator": operator.name,
            "value": _blank_if_none(found.mutant.value),
            "original_value": _blank_if_none(found.mutant.original_value),
            "mutants": len(found.mutant.mutant_seeds),
            "pairs": len(found.mutant.seeds),
            "killable": found.is_killable,
            "trivial": found.is_trivial,
            "trivial_share": _blank_if_nan(found.trivial.share if found.trivial else math.nan),
            **_make_killing_columns("replay", found.replay),
            **_make_killing_columns("weak", found.weak),
            **_make_killing_columns("strong", found.strong),
            "is_closest_to_original": found is operator.closest_to_original,
            "as_published_code": item.published,
            **_make_paper_columns(
                find_muprl_results(setting.env, setting.algorithm), operator.name
            ),
        }
        for operator in item.operators
        for found in operator.configurations
    ]


def _make_paper_columns(paper: MuprlTaskResults | None, operator: str) -> TableRow:
    """Return the operator's row in the paper, which is repeated for each of its values."""
    cell = paper.operators.get(operator) if paper else None
    names = [field.name for field in dataclasses.fields(MuprlOperatorScores)]
    values = dataclasses.astuple(cell) if cell else (math.nan,) * len(names)
    return {f"paper_{n}": _blank_if_nan(value) for n, value in zip(names, values, strict=True)}


def _make_killing_columns(name: str, found: KillResult | None) -> TableRow:
    keys = [
        f"{name}_{part}" for part in ("killed", "weaker", "rate", "bootstrap_killed", "agreeing")
    ]
    if found is None:
        return dict.fromkeys(keys, "")
    bootstrap = found.bootstrap_killed, found.agreeing
    values = (found.killed, found.weaker, _blank_if_nan(found.rate), *bootstrap)
    return dict(zip(keys, values, strict=True))


def _blank_if_nan(value: float) -> float | str:
    return "" if math.isnan(value) else value


def _blank_if_none(value: float | None) -> float | str:
    return "" if value is None else value


def format_mutation_table(item: MutationVerdict) -> Iterator[str]:
    """Format a table like the paper's Table III for a terminal, next to the paper's numbers."""
    setting = item.setting
    paper = find_muprl_results(setting.env, setting.algorithm)
    yield (
        f"{get_label(setting.framework)}, {get_label(setting.algorithm)}, {setting.env}, "
        f"hyperparameters {setting.hps}, {setting.steps} steps, {len(setting.originals)} originals"
        + (", as the published code counts:" if item.published else ":")
    )
    if paper:
        yield _format_line(("",) * len(_HEADINGS), ("muPRL's Table III",))
    yield _format_line(_HEADINGS, _PAPER_HEADINGS if paper else ())
    for operator in item.operators:
        yield _format_line(
            _format_operator_cells(operator), _format_paper_cells(paper, operator.name)
        )
    for name in _list_untested_operators(item, paper):
        yield _format_line((name, *("-" for _ in _HEADINGS[1:])), _format_paper_cells(paper, name))
    blank, scores = ("",) * 4, map(_format_score, (item.weak, item.strong, item.sensitivity))
    beside = (*blank, f"{paper.sensitivity:.2f}") if paper else ()
    yield _format_line(("mean", *blank, *scores), beside)
    if paper:
        yield f"  {_describe_coverage(item, paper)}"
    yield from _format_agreement(item)
    yield from _format_remarks(item)


def _format_agreement(item: MutationVerdict) -> Iterator[str]:
    """Compare Fisher's test with the bootstrap, as the paper does."""
    found = [
        result
        for operator in item.operators
        for one in operator.configurations
        for result in (one.replay, one.weak, one.strong)
        if result is not None and result.n > result.weaker
    ]
    pairs = sum(result.n - result.weaker for result in found)
    if not pairs:
        return
    agreeing = sum(result.agreeing for result in found)
    text = f"  Fisher's test and a bootstrap agree on {agreeing} of {pairs} pairs"
    if apart := pairs - agreeing:
        only = sum(result.killed_by_fisher_only for result in found)
        text += f"; of the other {apart}, {only} are killed by Fisher's test only"
    yield f"{text} (muPRL: 88%, of the others 65%)."


_HEADINGS = ("operator", "values", "pairs", "trivial", "killable", "weak", "strong", "sensitivity")
_PAPER_HEADINGS = _HEADINGS[3:]


def _format_line(cells: Sequence[str], paper: Sequence[str]) -> str:
    beside = "".join(f"{cell:>12}" for cell in paper)
    return "  " + "".join(f"{cell:>12}" for cell in cells) + (f"  |{beside}" if paper else "")


def _format_paper_cells(paper: MuprlTaskResults | None, operator: str) -> tuple[str, ...]:
    if paper is None:
        return ()
    cell = paper.operators.get(operator)
    return (
        tuple(map(_format_sensitivity, dataclasses.astuple(cell)))
        if cell
        else ("-",) * len(_PAPER_HEADINGS)
    )


def _list_untested_operators(item: MutationVerdict, paper: MuprlTaskResults | None) -> list[str]:
    tried = {operator.name for operator in item.operators}
    return [name for name in paper.operators if name not in tried] if paper else []


def _describe_coverage(item: MutationVerdict, paper: MuprlTaskResults) -> str:
    """Return the share of the paper's study of this setting that was run, in words."""
    setting = item.setting
    values = {o.name: len(o.configurations) for o in item.operators if o.name in paper.operators}
    others = [o.name for o in item.operators if o.name not in paper.operators]
    made = ", ".join(f"{name} {n} of {MUPRL_VALUES}" for name, n in values.items()) or "none"
    return (
        f"Of the paper's study: {len(values)} of {len(paper.operators)} operators "
        f"(values: {made}), {len(setting.originals)} of {MUPRL_RUNS} originals, "
        f"{setting.steps} of {paper.steps} steps."
        + (f" Not in its table: {', '.join(others)}." if others else "")
    )


def _format_operator_cells(operator: OperatorVerdict) -> tuple[str, ...]:
    found = operator.configurations
    pairs = sorted({len(one.mutant.seeds) for one in found})
    return (
        operator.name,
        str(len(found)),
        "-".join(map(str, dict.fromkeys((pairs[0], pairs[-1])))),
        f"{operator.trivial / len(found):.2f}",
        f"{operator.killable / len(found):.2f}",
        _format_score(operator.weak),
        _format_score(operator.strong),
        _format_sensitivity(operator.sensitivity),
    )


def _format_score(score: MeanScore) -> str:
    return f"{score.value:.2f} ({score.n})" if score.n else "-"


def _format_sensitivity(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def _format_remarks(item: MutationVerdict) -> Iterator[str]:
    """List what is missing and why; a reason that many configurations share is given once."""
    why_not: dict[str, list[str]] = {}
    for operator in item.operators:
        if 0 < operator.strong.n < operator.weak.n:
            yield (
                f"  {operator.name}: the weak score is of {operator.weak.n} values, the strong one "
                f"of {operator.strong.n} of them, over which the sensitivity is "
                f"{_format_sensitivity(operator.paired)}."
            )
        for found in operator.configurations:
            missing = sorted(set(found.mutant.mutant_seeds) - set(found.mutant.seeds))
            name = _format_configuration_name(operator, found)
            if missing:
                yield f"  {name}: seeds {', '.join(map(str, missing))} have no original."
            for generator, tests in found.mutant.tests.items():
                if tests.reason:
                    reason = f"no tests of the {generator} generator: {tests.reason}"
                    why_not.setdefault(reason, []).append(name)
            if found.replay is not None and found.replay.weaker == found.replay.n:
                yield f"  {name}: all {found.replay.n} originals are weaker than their mutants."
    for reason, names in why_not.items():
        yield f"  {', '.join(names)}: {reason}."


def _format_configuration_name(operator: OperatorVerdict, found: MutantVerdict) -> str:
    value = found.mutant.value
    return operator.name if value is None else f"{operator.name} {value:g}"
