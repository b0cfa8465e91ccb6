"""Verdicts as rows of plain values, for CSV and for anything else that shows them."""

import csv
import io
from collections.abc import Mapping, Sequence

from analysis.data.runs import Cell
from analysis.stats.ranks import Chance
from analysis.verdicts.consistency import PairVerdict
from analysis.verdicts.existence import Existence
from analysis.verdicts.groups import Group
from analysis.verdicts.learning import Learning
from analysis.verdicts.paired import PairedVerdict
from analysis.verdicts.pooling import PooledPair
from analysis.verdicts.ranking import RankingVerdict
from analysis.verdicts.reproduction import ReproductionVerdict
from analysis.verdicts.stopping import StoppingVerdict
from analysis.verdicts.study import StudyVerdicts
from analysis.words import label

Row = dict[str, object]


def verdict_tables(verdicts: StudyVerdicts) -> dict[str, list[Row]]:
    """A table for each question and for each other way to look, by the name of its file."""
    return {
        "reproduction.csv": [reproduction_row(item) for item in verdicts.reproduction],
        "consistency.csv": [consistency_row(item) for item in verdicts.consistency],
        "defaults.csv": [consistency_row(item) for item in verdicts.defaults],
        "ranking.csv": [row for item in verdicts.rankings for row in ranking_rows(item)],
        "existence.csv": [existence_row(item) for item in verdicts.existence],
        "pooled.csv": [row for pair in verdicts.pooled for row in pooled_rows(pair)],
        "paired.csv": [paired_row(item) for item in verdicts.paired],
        "learning.csv": [learning_row(item) for item in verdicts.learning],
    }


def consistency_row(item: PairVerdict) -> Row:
    """One pair of frameworks in one setting."""
    return {
        **setting_row(item.cell),
        "first": item.first.framework,
        "second": item.second.framework,
        "verdict": item.verdict,
        "detectable": item.detectable,
        **size_row("first", item.first),
        **size_row("second", item.second),
        "difference": item.difference,
        "low": item.low,
        "high": item.high,
        "p_welch": item.p_welch,
        "p_permutation": item.p_permutation,
        "p_holm": item.p_holm,
        "p_tost": item.p_tost,
        "p_unseen": item.p_unseen,
        "p_equivalence": item.p_equivalence,
        "p_equivalence_holm": item.p_equivalence_holm,
        "margin": item.margin.size,
        "margin_from": item.margin.zero,
        "margin_to": item.margin.reference,
        "margin_of": item.margin.source,
        "range_low": item.range.low,
        "range_high": item.range.high,
        "range_of": item.range.source,
        **_failures(item),
        "family": item.family,
        "family_size": item.family_size,
        "seeds_needed": item.seeds_needed,
        **_ends("hedges_g", item.hedges_g),
        **_ends("improvement", item.improvement),
        "rounding_matters": item.rounding_matters,
        "remarks": "; ".join(item.remarks),
    }


def paired_row(item: PairedVerdict) -> Row:
    """One pair of frameworks in one setting, seed by seed."""
    found = item.result
    return {
        **setting_row(item.item.cell),
        "first": item.item.first.framework,
        "second": item.item.second.framework,
        "pairs": found.n,
        "seeds": " ".join(map(str, item.seeds)),
        "difference": found.difference,
        "low": found.low,
        "high": found.high,
        "p_paired": found.p,
        "correlation": found.correlation,
        "n_first": item.item.first.n,
        "n_second": item.item.second.n,
        "p_welch": item.item.p_welch,
        "p_paired_holm": item.p_holm,
        "p_welch_holm": item.item.p_holm,
    }


def learning_row(item: Learning) -> Row:
    """One framework in one setting against random actions."""
    return {
        **setting_row(item.group.cell),
        "framework": item.group.framework,
        "verdict": item.verdict,
        **size_row("ours", item.group),
        "random_mean": item.random.mean,
        "random_sd": item.random.spread,
        "random_episodes": item.random.trials,
        "difference": item.difference,
        "low": item.low,
        "high": item.high,
        "p": item.p,
        "source": item.random.source,
    }


def pooled_rows(pair: PooledPair) -> list[Row]:
    """One row per task; differences in shares of the way that margins are a share of."""
    found = pair.pooled
    return [
        {
            **setting_row(item.cell),
            "first": item.first.framework,
            "second": item.second.framework,
            "n_first": item.first.n,
            "n_second": item.second.n,
            "scale": scale,
            "difference": item.difference / scale,
            "low": item.low / scale,
            "high": item.high / scale,
            "pooled": found.estimates[i],
            "pooled_low": found.lows[i],
            "pooled_high": found.highs[i],
            "tasks": len(pair.items),
            "mean_over_tasks": found.mean,
            "mean_low": found.low,
            "mean_high": found.high,
            "p_mean": found.p,
            "deviation_between_tasks": found.between,
            "p_mean_holm": pair.p_holm,
        }
        for i, (item, scale) in enumerate(zip(pair.items, pair.scales, strict=True))
    ]


def reproduction_row(item: ReproductionVerdict) -> Row:
    """One framework against one published number."""
    row = item.published
    return {
        **setting_row(item.group.cell),
        "framework": item.group.framework,
        "thesis_form": item.thesis_form,
        "two_sided": item.two_sided,
        **size_row("ours", item.group),
        "published_mean": row.mean,
        "published_spread": row.spread,
        "published_spread_kind": row.spread_kind,
        "published_trials": row.trials or "",
        "published_statistic": row.statistic,
        "published_steps": row.steps,
        "published_version": row.version,
        "table": row.table,
        "source": row.source,
        "test": item.test,
        "difference": item.difference,
        "low": item.low,
        "high": item.high,
        "p": item.p,
        "remarks": "; ".join(item.remarks),
    }


def ranking_rows(item: RankingVerdict) -> list[Row]:
    """One row per pair of frameworks."""
    ranks = {
        ranking.framework: " ".join(
            f"{name}={rank:g}" for name, rank in zip(item.algorithms, ranking.ranks, strict=True)
        )
        for ranking in item.rankings
    }
    return [
        {
            "study": item.study,
            "env": item.env,
            "hps": item.hps,
            "variant": item.variant,
            "first": pair.first,
            "second": pair.second,
            "verdict": pair.verdict,
            "first_ranks": ranks[pair.first],
            "second_ranks": ranks[pair.second],
            "tau_b": pair.tau_b,
            "tau_b_means": pair.tau_b_means,
            "same_order": pair.same_order,
            **_chance("same_order", pair.chance),
            "reversed": _names(pair.reversed_pairs),
            "changed_gaps": _names(pair.changed_gaps),
            "all_frameworks": item.verdict,
            "all_same_order": item.same_order,
            **_chance("all_same_order", item.chance),
            "seeds_needed": pair.seeds_needed,
            "left_out": "; ".join(item.left_out),
        }
        for pair in item.pairs
    ]


def existence_row(item: Existence) -> Row:
    """All pairs of one algorithm and variant."""
    return {
        "study": item.study,
        "algorithm": item.algorithm,
        "variant": item.variant,
        "verdict": item.verdict,
        "different": item.different,
        "pairs": item.count.tests,
        "significant_one_by_one": item.count.observed,
        "if_nothing_differed": item.count.mean,
        "most_if_nothing_differed": item.count.most,
        "p": item.count.p,
        "made_up_studies": item.count.resamples,
    }


def existence_words(item: Existence) -> str:
    """The same as a line."""
    count, under = item.count, f", {item.variant}" if item.variant else ""
    return (
        f"{label(item.algorithm)} in study {item.study}{under}: {item.verdict}; {count.observed} "
        f"of {count.tests} pairs significant one by one, {count.mean:.1f} if nothing differed "
        f"(p = {count.p:.4f})"
    )


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV; unknown numbers are empty, and all digits are kept."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def setting_row(cell: Cell) -> Row:
    """The setting, a column each."""
    return {name: getattr(cell, name) for name in ("study", "env", "algorithm", "hps", "variant")}


def size_row(prefix: str, group: Group) -> Row:
    """Mean, deviation and the three counts, each behind a prefix."""
    return {
        f"{prefix}_mean": float(group.moments.mean),
        f"{prefix}_sd": float(group.moments.sd),
        f"{prefix}_requested": group.requested,
        f"{prefix}_completed": group.completed,
        f"{prefix}_used": group.n,
    }


def _ends(name: str, values: tuple[float, float, float]) -> Row:
    return dict(zip((name, f"{name}_low", f"{name}_high"), values, strict=True))


def _chance(name: str, chance: Chance) -> Row:
    return {
        f"{name}_if_tied": chance.mean,
        f"{name}_if_tied_low": chance.low,
        f"{name}_if_tied_high": chance.high,
    }


def _failures(item: PairVerdict) -> Row:
    found = item.failures
    first, second = found.failed or ("", "")
    return {
        "failed_below": found.threshold,
        "first_failed": first,
        "second_failed": second,
        "p_failed": found.p,
        "p_failed_holm": found.p_holm,
        **_ends("failed_difference", (found.difference, found.low, found.high)),
    }


def _names(pairs: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{first} and {second}" for first, second in pairs)


def _plain(value: object) -> object:
    if isinstance(value, float):
        return "" if value != value else repr(float(value))  # NumPy's own repr is no number
    return value


def stopping_row(item: StoppingVerdict) -> Row:
    """One pair of frameworks in one setting, after the looks so far."""
    return {
        **setting_row(item.first.cell),
        "first": item.first.framework,
        "second": item.second.framework,
        "verdict": item.verdict,
        **size_row("first", item.first),
        **size_row("second", item.second),
        "looks": " ".join(map(str, item.sizes)),
        "next_look": item.next_size or "",
        "p_holm": item.p,
        "p_permutation": item.p_permutation,
        "p_equivalence_holm": item.p_equivalence,
        "family": item.family,
    }
