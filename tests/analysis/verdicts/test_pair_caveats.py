"""Caveats of runs that differ in more than their framework."""

import types

import pytest

from parallax.analysis.verdicts import pair_caveats as caveats

MOST = caveats._MAX_NAMED_VALUES


@pytest.mark.parametrize("surplus", [0, 1, 3])
def test_only_values_that_are_not_named_are_counted_as_more(surplus):
    values = {f"package{i}": {"1.0", "2.0"} for i in range(MOST + surplus)}
    said = caveats._format_differing("versions differ", values)
    assert said.startswith("versions differ: package0 1.0 and 2.0")
    assert said.count("1.0 and 2.0") == MOST
    assert said.endswith(f" and {surplus} more") == (surplus > 0)
    assert ("more" in said) == (surplus > 0)


def test_values_that_are_all_equal_are_not_mentioned():
    assert caveats._format_differing("versions differ", {"numpy": {"2.0"}}) == ""


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ((0, 1), (1, 0), ""),
        ((0, None), (0, 0), ""),
        ((), (1,), ""),
        ((1,), (None,), ""),
        ((0,), (1,), "no seed in common, so neither are the initial states"),
        ((0, 1, 2), (2, 7), "1 seeds in common of 3 and 2"),
        ((0, 1), (0, None), "1 seeds in common of 2 and 1"),
    ],
)
def test_seeds_in_common_are_counted_without_unknown_ones(first, second, text):
    assert caveats.describe_seed_overlap(first, second) == text


def imported_group(framework, versions, unknown=("version",)):
    runs = tuple(
        types.SimpleNamespace(
            imported=types.SimpleNamespace(unknown=unknown),
            provenance=types.SimpleNamespace(packages={"numpy": version}, python="3.11.7"),
            effective_hyperparameters={"gamma": 0.99},
        )
        for version in versions
    )
    seeds = tuple(range(len(runs)))
    return types.SimpleNamespace(framework=framework, runs=runs, seeds=seeds, n=len(runs))


def test_imported_runs_of_both_sides_are_named():
    found = caveats.find_caveats(imported_group("a", ["2.0"]), imported_group("b", ["2.0", "2.0"]))
    assert "1 of 1 runs of a were imported, version unknown" in found
    assert "2 of 2 runs of b were imported, version unknown" in found


def make_group(framework, seeds, packages, python="3.11.7 (main)", **values):
    runs = tuple(
        types.SimpleNamespace(
            imported=None,
            provenance=packages and types.SimpleNamespace(packages=packages, python=python),
            effective_hyperparameters={name: given[i] for name, given in values.items()},
        )
        for i in range(len(seeds))
    )
    return types.SimpleNamespace(framework=framework, runs=runs, seeds=seeds, n=len(runs))


def test_every_difference_that_was_not_intended_is_named_in_its_order():
    first = make_group("a", (0, 1), {"torch": "2.1", "only": "1"}, gamma=[0.9, 0.99], lr=[1, 1])
    second = make_group("b", (1, 2), {"torch": "2.2", "other": "1"}, "3.12.1", tau=[1, 1])
    assert caveats.find_caveats(first, second) == (
        "1 seeds in common of 2 and 2",
        "versions differ: Python 3.11.7 and 3.12.1, torch 2.1 and 2.2",
        "a was trained with: gamma 0.9 and 0.99",
    )
    assert caveats.find_caveats(second, first)[2] == "a was trained with: gamma 0.9 and 0.99"
    assert caveats.find_caveats(first, make_group("b", (), None)) == ()
    assert caveats.find_caveats(make_group("b", (), None), first) == ()
    same = make_group("c", (0, 1), {"torch": "2.1"}, gamma=[1, 1])
    assert caveats.find_caveats(same, make_group("d", (0, 1), None)) == ()
    mixed = make_group("f", (0, 1), {"torch": "2.1", "own": "1"})
    mixed.runs[1].provenance = types.SimpleNamespace(packages={"own": "2"}, python=None)
    assert caveats.find_caveats(mixed, same)[0] == "versions differ: own 1 and 2"
    apart = make_group("e", (7,), {"torch": "2.1"})
    assert caveats.find_caveats(same, apart) == (
        "no seed in common, so neither are the initial states",
    )


def test_unknown_settings_of_imported_runs_are_named():
    group = imported_group("a", ["2.0", "2.0", "2.0"], unknown=())
    assert caveats._describe_imported_runs(group) == "3 of 3 runs of a were imported"
    group.runs[0].imported = None
    group.runs[1].imported.unknown = ("wrappers", "seed")
    text = "2 of 3 runs of a were imported, seed, wrappers unknown"
    assert caveats._describe_imported_runs(group) == text
    group.runs[2].effective_hyperparameters = {}
    text = text.replace(" unknown", ", hyperparameters unknown")
    assert caveats._describe_imported_runs(group) == text
