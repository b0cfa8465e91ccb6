"""What changes of one thing did, as sentences and as rows."""

import math
from collections.abc import Sequence

from analysis.stats.paired import Paired
from analysis.stats.ratio import Ratio
from analysis.tables.verdicts import Row, setting_row, size_row
from analysis.verdicts.ablation import CHANGES, NO_EFFECT, TOO_FEW, Ablation, Effect, Gap
from analysis.words import label


def rows(item: Ablation) -> list[Row]:
    """One row per effect and other framework; one per effect where there is no other."""
    others = [gap.other for gap in item.gaps] or [""]
    gaps = {gap.other: gap for gap in item.gaps}
    return [
        {
            **setting_row(item.cell),
            "framework": item.framework,
            "intervention": effect.name,
            "verdict": effect.verdict,
            **size_row("changed", effect.changed),
            **size_row("plain", effect.plain),
            "pairs": effect.result.n,
            "seeds": " ".join(map(str, effect.seeds)),
            "effect": effect.result.difference,
            "low": effect.result.low,
            "high": effect.result.high,
            "p_paired": effect.result.p,
            "p_holm": effect.p_holm,
            "family_size": effect.family_size,
            "p_sign_flips": effect.p_flips,
            "p_sign_flips_holm": effect.p_flips_holm,
            "margin": effect.pair.margin.size,
            **_failed_row(effect),
            "sum_of_parts": item.sum_of(effect) if effect in item.together else "",
            "other": other,
            **_gap_row(gaps.get(other)),
            **_share_row(effect.shares.get(other)),
        }
        for effect in item.effects
        for other in others
    ]


def _failed_row(effect: Effect) -> Row:
    failed = (*effect.pair.failures.failed, "", "")  # nothing where no scale is known
    return {"failed_changed": failed[0], "failed_plain": failed[1]}


def _gap_row(gap: Gap | None) -> Row:
    names = ("gap", "gap_low", "gap_high", "gap_p", "gap_pairs")
    if gap is None:
        return dict.fromkeys(names, "")
    found = gap.result
    return dict(
        zip(names, (found.difference, found.low, found.high, found.p, found.n), strict=True)
    )


def _share_row(share: Ratio | None) -> Row:
    names = ("share", "share_low", "share_high", "share_pairs")
    if share is None:
        return dict.fromkeys(names, "")
    return dict(zip(names, (share.share, share.low, share.high, share.n), strict=True))


def sentences(item: Ablation) -> list[str]:
    """What was found in one setting, in words, with every n."""
    cell = item.cell
    head = (
        f"{label(item.framework)}, {label(cell.algorithm)}, {cell.env}, "
        f"hyperparameters {cell.hps}, {cell.variant}:"
    )
    lines = [head]
    for gap in item.gaps:
        lines.append(
            f"  {label(gap.other)} as it is lies {_number(gap.result)} from it "
            f"({gap.result.n} pairs of seeds)."
        )
    for effect in item.effects:
        lines.append(f"  {_effect(effect)}")
        if effect in item.together and (total := item.sum_of(effect)) is not None:
            lines.append(f"    Its parts alone add up to {total:+.4g}.")
        lines += [f"    {_share(other, share)}" for other, share in effect.shares.items()]
    return lines


def _effect(effect: Effect) -> str:
    size = f"{_number(effect.result)}, {_counts(effect)}"
    if effect.verdict == CHANGES:
        p = f"p = {effect.p_holm:.2g} after Holm over {effect.family_size}"
        return f"{effect.name} changes the return: {size}; {p}."
    if effect.verdict == NO_EFFECT:
        margin = f"{effect.pair.margin.size:.4g}"
        return f"{effect.name} has no effect beyond the margin of {margin}: {size}."
    if effect.verdict == TOO_FEW:
        return f"{effect.name}: too few pairs of seeds to tell ({_counts(effect)})."
    if effect.result.low == effect.result.high == 0:
        return f"{effect.name} changed no return: it never came to bear in {_counts(effect)}."
    return f"{effect.name}: undecided, {size}."


def _counts(effect: Effect) -> str:
    changed, plain = effect.changed, effect.plain
    return (
        f"{effect.result.n} pairs of {changed.requested} and {plain.requested} runs asked for, "
        f"{changed.completed} and {plain.completed} complete"
    )


def _share(other: str, share: Ratio) -> str:
    if not share.is_bounded:
        return (
            f"No share of the gap to {label(other)} can be told: over {share.n} seeds the gap may "
            "as well be 0."
        )
    return (
        f"Of the gap to {label(other)} it is {share.share:.0%} "
        f"({share.low:.0%} to {share.high:.0%}, {share.n} seeds)."
    )


def _number(result: Paired) -> str:
    if math.isnan(result.low):
        return f"{result.difference:+.4g}"
    return f"{result.difference:+.4g} ({result.low:+.4g} to {result.high:+.4g})"


def summary(items: Sequence[Ablation]) -> str:
    """How many effects of which verdict."""
    words = [effect.verdict for item in items for effect in item.effects]
    parts = [f"{words.count(word)} {word}" for word in dict.fromkeys(words)]
    return f"{len(words)} effects in {len(items)} settings: {', '.join(parts)}."
