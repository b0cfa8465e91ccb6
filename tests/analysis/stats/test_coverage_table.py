"""The coverage table in docs/reference/simulations.md, against its script and against theory."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import support
from scipy import stats

from parallax.analysis.stats.intervals import INTERVAL_METHODS, compute_thesis_coverage

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script():
    return support.load_file(ROOT / "benchmarks" / "interval_coverage.py")


@pytest.fixture(scope="module")
def table():
    found = {}
    for line in (ROOT / "docs" / "reference" / "simulations.md").read_text().splitlines():
        match = re.fullmatch(r"\| ([\w-]+) \| (\d+) \| ([\d.]+% \(.*) \|", line)
        if match:
            shares = [float(cell.split("%")[0]) / 100 for cell in match[3].split(" | ")]
            found[match[1], int(match[2])] = dict(zip(INTERVAL_METHODS, shares, strict=True))
    return found


def near(first, second, repeats):
    return abs(first - second) < 4 * math.sqrt(0.25 / repeats)


def test_coverage_table_is_complete(script, table):
    assert set(table) == {(name, n) for name in script.CASES for n in script.SIZES}


@pytest.mark.parametrize("n", [3, 5, 10, 20])
def test_on_normal_returns_the_table_agrees_with_theory(table, n):
    assert near(table["normal", n]["t"], 0.95, 10_000)
    assert near(table["normal", n]["thesis"], compute_thesis_coverage(n), 10_000)


def test_coverage_of_the_thesis_interval_is_that_of_theory():
    text = (ROOT / "docs" / "explanation" / "statistics.md").read_text()
    shares = {n: compute_thesis_coverage(n) for n in (2, 5, 10)}
    assert ", ".join(f"{share:.1%} at n = {n}" for n, share in shares.items()) in text


@pytest.mark.parametrize("case", ["skewed", "two-humped"])
@pytest.mark.parametrize("method", INTERVAL_METHODS)
def test_script_reproduces_the_table(script, table, case, method):
    share, _ = script.measure_coverage(script.CASES[case], 5, method, 1000, seed=5)
    assert near(share, table[case, 5][method], 1000)


def test_the_returns_of_each_case_have_mean_zero_and_their_shape(script):
    rng = np.random.default_rng(0)
    drawn = {name: draw(rng, (400_000, 1)) for name, draw in script.CASES.items()}
    for values in drawn.values():
        assert abs(values.mean()) < 5 * values.std() / math.sqrt(len(values))
    assert abs(stats.skew(drawn["normal"])[0]) < 0.02
    assert stats.skew(drawn["skewed"])[0] < -3
    assert np.mean(np.abs(drawn["two-humped"] + 370) < 200) < 0.01
