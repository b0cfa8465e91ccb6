"""Section 6.3 of the thesis: whether frameworks rank the algorithms alike."""

import collections
from collections.abc import Sequence

import numpy as np

from analysis.answers import Answers
from analysis.published import split_version
from analysis.ranking import OWN
from analysis.ranking_verdict import MAGNITUDE, NOT_PRESERVED, PRESERVED, RankingVerdict
from analysis.thesis.statements import (
    CONFIGURATIONS,
    NOT_CONTRADICTED,
    NOT_SUPPORTED,
    PARTLY,
    SUPPORTED,
    Statement,
)

_READING = "Verdicts by the rule of docs/statistics.md, the worst of the three pairs of frameworks"


def statements_of_ranking(answers: Answers) -> tuple[Statement, ...]:
    """Every statement of section 6.3 that the tables can be asked about."""
    shared = [item for item in answers.rankings if item.hps in CONFIGURATIONS]
    own = [item for item in answers.rankings if item.hps == OWN]
    return (
        _preserved(
            shared,
            "The ranking of the algorithms is largely preserved across frameworks, on most tasks.",
        ),
        _preserved(
            [item for item in shared if item.hps in ("torchrl", "original")],
            "That holds in general for the hyperparameters of TorchRL and of the original papers.",
        ),
        _magnitude(shared),
        _named_tasks(shared),
        _broken(
            [item for item in shared if item.hps == "sb3"],
            "6.3, Figure 10",
            "Under Stable-Baselines3's hyperparameters some task's ranking is not preserved, the "
            "implementations being clearly apart.",
        ),
        _half_of_own(own),
        _broken(
            own,
            "6.3, Figure 11",
            "Under each framework's own defaults some task's ranking is clearly not preserved.",
        ),
    )


def _counts(items: Sequence[RankingVerdict]) -> str:
    found = collections.Counter(item.verdict for item in items)
    return ", ".join(f"{count} {word}" for word, count in sorted(found.items())) or "none"


def _likely(items: Sequence[RankingVerdict]) -> str:
    likely = sum(item.same_order > 0.5 for item in items)
    return f"all frameworks more likely in one order than not in {likely} of {len(items)}"


def _preserved(items: Sequence[RankingVerdict], claim: str) -> Statement:
    pairs = [pair for item in items for pair in item.pairs]
    kept = sum(item.verdict == PRESERVED for item in items)
    broken = sum(item.verdict == NOT_PRESERVED for item in items)
    taus = np.array([pair.tau_b_means for pair in pairs])
    verdict = NOT_SUPPORTED if broken else NOT_CONTRADICTED
    return Statement(
        "6.3",
        claim,
        f"{_READING}; supported if most of {len(items)} are preserved, contradicted by one that "
        "is not.",
        SUPPORTED if 2 * kept > len(items) else verdict,
        f"{_counts(items)}; of the {len(pairs)} single pairs of frameworks "
        f"{sum(pair.verdict == PRESERVED for pair in pairs)} preserved; mean tau-b of the bare "
        f"means {np.nanmean(taus):.2f}; {_likely(items)}",
    )


def _magnitude(items: Sequence[RankingVerdict]) -> Statement:
    found = collections.Counter(item.hps for item in items if item.verdict == MAGNITUDE)
    most = found and found["cleanrl"] == max(found.values())
    return Statement(
        "6.3, Figure 9",
        "Gaps between algorithms change in size from framework to framework, most often under "
        "CleanRL's hyperparameters.",
        f"{_READING}; partly supported if gaps change, but elsewhere more often.",
        (SUPPORTED if most else PARTLY) if found else NOT_SUPPORTED,
        f"magnitude changed: {', '.join(f'{found[hps]} under {hps}' for hps in CONFIGURATIONS)}",
    )


def _named_tasks(items: Sequence[RankingVerdict]) -> Statement:
    names = {split_version(item.env)[0] for item in items if item.verdict == NOT_PRESERVED}
    orders: dict[str, list[float]] = collections.defaultdict(list)
    for item in items:
        orders[split_version(item.env)[0]].append(item.same_order)
    means = sorted((float(np.mean(values)), task) for task, values in orders.items())
    named = {"Swimmer", "Walker2d"}
    verdict = SUPPORTED if named <= names else PARTLY if named & names else NOT_SUPPORTED
    return Statement(
        "6.3",
        "Under some framework's hyperparameters the ranking is not preserved, more often on "
        "Swimmer and Walker2d.",
        f"{_READING}; beside it the mean probability per task that the order is the same.",
        verdict,
        f"{len(names)} tasks with a ranking that is not preserved; probability of the same order: "
        f"{', '.join(f'{task} {value:.2f}' for value, task in means)}",
    )


def _half_of_own(items: Sequence[RankingVerdict]) -> Statement:
    broken = sum(item.verdict == NOT_PRESERVED for item in items)
    either = sum(item.verdict in (NOT_PRESERVED, MAGNITUDE) for item in items)
    half = len(items) / 2
    return Statement(
        "6.3",
        "Under each framework's own defaults the ranking is arguably not preserved in half of the "
        "cases.",
        f"{_READING}; partly supported if half are not preserved or changed in magnitude.",
        SUPPORTED if broken >= half else PARTLY if either >= half else NOT_SUPPORTED,
        f"{_counts(items)}; {_likely(items)}",
    )


def _broken(items: Sequence[RankingVerdict], section: str, claim: str) -> Statement:
    found = any(item.verdict == NOT_PRESERVED for item in items)
    least = min(items, key=lambda item: item.same_order)
    return Statement(
        section,
        claim,
        "The task is not named in the text: all eight; supported if one is not preserved.",
        SUPPORTED if found else NOT_SUPPORTED,
        f"{_counts(items)}; the order is least likely the same on {split_version(least.env)[0]} "
        f"(probability {least.same_order:.3f})",
    )
