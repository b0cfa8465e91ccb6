"""Numbers of the published study, recomputed from its files without code of this project.

Scores are read with PyArrow; tests and intervals are SciPy's or written out here.
"""

import itertools
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

DOCS = Path(__file__).parents[2] / "docs"
RECIPES = {**dict.fromkeys(("ddpg", "ppo", "sac", "td3"), "original"), "dqn": "zoo"}


def read_scores(file):
    """Final scores: the mean return of the last evaluation."""
    columns = ["env", "algorithm", "hps", "framework", "variant", "seed", "returns", "final_score"]
    table = pq.read_table(DOCS / file, columns=columns).to_pandas()
    table["score"] = [np.mean(returns[-1]) for returns in table.returns]
    return table.drop(columns="returns")


def compute_welch(a, b):
    """Difference, 95% interval and p-value."""
    va, vb = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    freedom = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    gap, error = a.mean() - b.mean(), math.sqrt(va + vb)
    half = stats.t.ppf(0.975, freedom) * error
    return gap, gap - half, gap + half, 2 * stats.t.sf(abs(gap) / error, freedom)


def adjust_holm(p):
    """Holm (1979), by the definition."""
    order, adjusted, highest = np.argsort(p), np.empty(len(p)), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p) - rank) * p[i]))
        adjusted[i] = highest
    return adjusted


def permute(a, b):
    """p-value of SciPy's permutation test of Welch's statistic."""

    def statistic(x, y, axis):
        error = x.var(axis=axis, ddof=1) / x.shape[axis] + y.var(axis=axis, ddof=1) / y.shape[axis]
        return (x.mean(axis=axis) - y.mean(axis=axis)) / np.sqrt(error)

    rng = np.random.default_rng(1)
    return stats.permutation_test((a, b), statistic, n_resamples=4_999, rng=rng).pvalue


@pytest.fixture(scope="module")
def pairs():
    """Every pair under the papers' recipes, judged by hand."""
    table = read_scores("study/cheap.parquet")
    assert (table.score - table.final_score).abs().max() == 0.0
    assert len(table) == 960
    rows = []
    for algorithm, hps in RECIPES.items():
        chosen = table[(table.algorithm == algorithm) & (table.hps == hps)]
        family = []
        for env, runs in chosen.groupby("env"):
            scores = {name: part.score.to_numpy() for name, part in runs.groupby("framework")}
            for one, two in itertools.combinations(sorted(scores), 2):
                found = compute_welch(scores[one], scores[two])
                p = permute(scores[one], scores[two]) if found[3] < 0.01 else 1.0
                family.append([algorithm, env, one, two, *found, p])
        holm = adjust_holm([row[7] for row in family])
        rows += [[*row, value] for row, value in zip(family, holm, strict=True)]
    names = ["algorithm", "env", "first", "second", "difference", "low", "high", "p", "permuted"]
    found = pd.DataFrame(rows, columns=[*names, "holm"])
    found["different"] = (found.holm < 0.05) & (found.permuted < 0.05)
    return found


def test_pairs_that_differ_are_as_many_as_published(pairs):
    decided = pairs.groupby("algorithm").different.sum().to_dict()
    assert len(pairs) == 165 and pairs.different.sum() == 19
    assert decided == {"ddpg": 0, "dqn": 9, "ppo": 5, "sac": 0, "td3": 5}
    uncorrected = pairs[pairs.p < 0.05].groupby("algorithm").size().to_dict()
    assert uncorrected == {"ddpg": 5, "dqn": 11, "ppo": 25, "sac": 4, "td3": 12}


# Algorithm, task, frameworks; difference, ends of its interval, and corrected p-value, as printed.
PAIRS = (
    ("td3", "Pendulum-v1", "sbx", "cleanrl", "963.0", "865.8", "1060.2", "5.336e-05"),
    ("td3", "Pendulum-v1", "sbx", "torchrl", "576.8", "354.8", "798.8", ".02332"),
    ("ppo", "Reacher-v4", "skrl", "torchrl", ".03434", "-1.551", "1.620", "1"),
    ("ppo", "Reacher-v4", "cleanrl", "tianshou", "-6.002", "-7.745", "-4.258", "9.165e-05"),
    ("ppo", "InvertedPendulum-v4", "sb3", "sbx", "-607.4", "-827.4", "-387.3", ".0041"),
    ("ppo", "InvertedPendulum-v4", "sbx", "torchrl", "743.9", "528.8", "958.9", ".0011"),
    ("ppo", "InvertedDoublePendulum-v4", "sb3", "tianshou", "-45.35", "-73.37", "-17.33", ".189"),
    ("ddpg", "InvertedPendulum-v4", "sbx", "skrl", "198.7", "-326.9", "724.3", "1"),
    ("ddpg", "Pendulum-v1", "cleanrl", "sbx", "-269.8", "-446.3", "-93.31", ".235"),
    ("dqn", "CartPole-v1", "cleanrl", "sb3", "230.5", "190.6", "270.4", "1.360e-06"),
    ("dqn", "CartPole-v1", "cleanrl", "tianshou", "77.1", "34.5", "119.7", ".013"),
    ("dqn", "CartPole-v1", "sb3", "skrl", "-129.0", "-220.4", "-37.53", ".065"),
    ("sac", "Pendulum-v1", "sb3", "torchrl", "-23.3", "-367.4", "320.8", "1"),
)


def agree(printed, value):
    """Return whether a number rounds to the printed digits."""
    mantissa, _, power = printed.partition("e")
    digits = len(mantissa.partition(".")[2]) - int(power or 0)
    return abs(float(printed) - value) <= 0.51 * 10.0**-digits


@pytest.mark.parametrize("row", PAIRS, ids=lambda row: "-".join(row[:4]))
def test_published_pairs_are_reproduced(pairs, row):
    algorithm, env, one, two, *printed = row
    chosen = pairs[(pairs.algorithm == algorithm) & (pairs.env == env)]
    (found,) = (item for item in chosen.itertuples() if {item.first, item.second} == {one, two})
    sign = 1 if found.first == one else -1
    values = sign * found.difference, *sorted((sign * found.low, sign * found.high)), found.holm
    assert all(map(agree, printed, values)), values


def test_the_published_table_has_every_pair_as_computed_here(pairs):
    table = pd.read_csv(DOCS / "study/tables/consistency.csv")
    both = pairs.merge(table, on=["algorithm", "env", "first", "second"], suffixes=("", "_printed"))
    assert len(both) == 165
    for name in ("difference", "low", "high"):
        np.testing.assert_allclose(both[name], both[f"{name}_printed"], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(both.p, both.p_welch, rtol=1e-8)
    np.testing.assert_allclose(both.holm, both.p_holm, rtol=1e-8)
    assert (both.different == (both.verdict == "different")).all()


# File; variants of the changed and the unchanged runs; the framework whose gap is explained;
# effect, ends of its interval, share of the gap, ends of its interval (Fieller), p by sign flips.
STEPS = {"target": "steps=20000,eval_every=4000,eval_episodes=10"}
STEPS["clipping"] = "steps=20480,eval_every=4096,eval_episodes=10"
STEPS["td3_sbx"] = "steps=4000,eval_every=1000,eval_episodes=10,learning_starts=1000"
ABLATIONS = (
    ("target", "intervention=snu-500", "cleanrl"),
    ("target", "overrides=", "cleanrl"),
    ("td3_sbx", "intervention=targets-every-step", "sbx"),
    ("clipping", "intervention=networks-clipped-apart+large-first-actions", "sbx"),
)
PRINTED = (
    (("111.9", "80.0", "143.8"), (".485", ".342", ".653"), ".00195"),
    (("230.1", "195.0", "265.2"), (".998", ".808", "1.244"), ".00195"),
    (("728.3", "486.4", "970.3"), (".905", ".628", "1.193"), ".00195"),
    (("437.6", "142.8", "732.5"), (".721", ".295", "1.096"), ".0215"),
)


def compute_fieller(effect, gap):
    """Share and the shares that a paired t test does not reject, by the quadratic's roots."""
    n = len(effect)
    square = stats.t.ppf(0.975, n - 1) ** 2 / n
    cov = np.cov(effect, gap)
    a = gap.mean() ** 2 - square * cov[1, 1]
    b = -2 * (effect.mean() * gap.mean() - square * cov[0, 1])
    c = effect.mean() ** 2 - square * cov[0, 0]
    return effect.mean() / gap.mean(), *sorted(np.roots([a, b, c]))


def is_change(word, change):
    """Return whether a part of a variant is the change; hashes of overrides are left open."""
    return word.startswith(change) if change.endswith("=") else word == change


@pytest.mark.parametrize(("row", "printed"), zip(ABLATIONS, PRINTED, strict=True))
def test_published_ablations_are_reproduced(row, printed):
    (file, change, other), (printed_effect, printed_share, printed_flips) = row, printed
    table = read_scores(f"{file}.parquet").set_index("seed").sort_index()
    plain = table[table.variant == STEPS[file]]
    base = plain[plain.framework == "sb3"].score
    goal = plain[plain.framework == other].score
    words = table.variant.str.split(",")
    changed = table[[any(is_change(word, change) for word in part) for part in words]].score
    effect, gap = (changed - base).to_numpy(), (goal - base).to_numpy()
    half = stats.t.ppf(0.975, len(effect) - 1) * stats.sem(effect)
    ends = effect.mean(), effect.mean() - half, effect.mean() + half
    assert all(map(agree, printed_effect, ends)), ends
    share = compute_fieller(effect, gap)
    assert all(map(agree, printed_share, share)), share
    flips = np.array(list(itertools.product((-1, 1), repeat=len(effect)))) @ effect
    extreme = np.abs(flips) >= abs(effect.sum()) - 1e-9
    assert agree(printed_flips, extreme.mean()), extreme.mean()
