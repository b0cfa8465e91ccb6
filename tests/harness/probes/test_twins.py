"""Implementations that learn the same, and where they part."""

import pytest

from harness.cli.twins import main
from harness.interventions.catalogue import chosen
from harness.probes.twins import Side, compare


def side(framework, algorithm, change="none"):
    return Side(framework, chosen(change, framework, algorithm))


def test_two_frameworks_are_equal_once_what_differs_is_taken_away():
    changed = side("sb3", "ppo", "half-value-loss")
    found = compare(changed, side("cleanrl", "ppo"), "ppo", 8)
    assert found.parted is None and [d.apart for d in found.distances] == [0.0, 0.0]
    assert all(0 < d.rounding < 1e-5 for d in found.distances)


def test_they_part_where_it_is_left(capsys):
    assert main(["--frameworks", "sb3,cleanrl", "--algorithm", "ppo", "--until", "8"]) == 1
    said = capsys.readouterr().out
    assert "Never equal; at update 4 the value is" in said and "parallax probe --algorithm" in said


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("ppo", ("half-value-loss", "none")),
        ("td3", ("none", "none")),
        ("ddpg", ("none", "none")),
        ("dqn", ("squared-loss", "none")),
        ("dqn", ("none", "bent-loss")),
        (
            "sac",
            (
                "whole-critic-loss+deviation-by-tanh+temperature-after-policy",
                "temperature-of-the-same-sample",
            ),
        ),
    ],
)
def test_a_pair_of_each_algorithm_stays_equal(algorithm, changes):
    sides = (side(f, algorithm, c) for f, c in zip(("sb3", "cleanrl"), changes, strict=True))
    assert compare(*sides, algorithm, 100).parted is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--frameworks", "sb3", "--algorithm", "ppo"], "must name two"),
        (["--frameworks", "sb3,cleanrl", "--algorithm", "a2c"], "twins are there for ppo, td3"),
        (
            ["--frameworks", "sb3,cleanrl", "--algorithm", "ppo", "--until", "9999"],
            "--until 9999 must be from 1 to 2000",
        ),
        (
            ["--frameworks", "sb3,cleanrl", "--algorithm", "ppo", "--interventions", "a"],
            "must name one for each framework",
        ),
    ],
)
def test_bad_input_is_one_message(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err
