"""Nobody but an algorithm's own file, adapters and probes knows an algorithm by its name."""

import ast
from pathlib import Path

import pytest

from parallax.harness.contract.algorithms import BUILTIN_ALGORITHMS

ROOT = Path(__file__).parents[3]
PACKAGES = ("harness", "analysis", "envs", "slurm", "hydra_plugins")
# What an algorithm is; what measures single updates; papers' claims about some of them; and how
# known ones are called and coloured in figures, where others get a name and a colour as well.
ELSEWHERE = (
    "harness/contract/algorithms/",
    "harness/probes/",
    "harness/lockstep/",
    "analysis/thesis/",
    "analysis/data/paper_tables.py",
    "harness/record/labels.py",
    "analysis/figures/style.py",
)
NAMES = {*BUILTIN_ALGORITHMS, *(cls.__name__ for cls in BUILTIN_ALGORITHMS.values())}


def named(source):
    """Line and name of every constant, variable and attribute that is an algorithm's name."""
    for node in ast.walk(ast.parse(source)):
        found = [
            getattr(node, part, None) for part in ("value", "id", "attr", "name", "asname", "arg")
        ]
        yield from (
            (node.lineno, name) for name in found if isinstance(name, str) and name in NAMES
        )


def files():
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return sorted(p for p in paths if not str(p.relative_to(ROOT)).startswith(ELSEWHERE))


def test_no_module_knows_an_algorithm_by_name():
    knowing = {str(path.relative_to(ROOT)): list(named(path.read_text())) for path in files()}
    assert {path: lines for path, lines in knowing.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        'if algorithm == "td3": pass',
        "from parallax.harness.contract.algorithms import PPO",
        "isinstance(hp, algorithms.SAC)",
        'COSTS = {"sac": 1}',
    ],
)
def test_the_search_finds_names(source):
    assert len(list(named(source))) == 1
