"""Implementations that learn the same, and where they part."""

import pytest

from harness.cli.twins import main
from harness.interventions.catalogue import chosen
from harness.probes import telling
from harness.probes.pages.growth import figure
from harness.probes.twins import Distance, How, Side, Twins, compare


def side(framework, algorithm, change="none"):
    return Side(framework, chosen(change, framework, algorithm))


def test_two_frameworks_are_equal_once_what_differs_is_taken_away():
    changed = side("sb3", "ppo", "half-value-loss")
    found = compare(changed, side("cleanrl", "ppo"), "ppo", 8)
    assert found.parted is None and [d.apart for d in found.distances] == [0.0, 0.0]
    assert all(0 < d.rounding < 1e-5 for d in found.distances)


def test_they_part_where_it_is_left(capsys, monkeypatch):
    monkeypatch.setattr(telling, "APART", ("value_loss_factor", "log_prob"))
    assert main(["--frameworks", "sb3,cleanrl", "--algorithm", "ppo", "--until", "4"]) == 1
    said = capsys.readouterr().out
    assert "Never equal; at update 4 the value is" in said
    assert "They part first at update 1, in gradients of the value, by 1 of the largest" in said
    assert said.endswith("answer differently: ppo.value_loss_factor.\n")


def test_growth_is_drawn_beside_that_of_rounding():
    distances = (Distance(1, 0.0, "value", 1e-7), Distance(10, 1e-3, "value", 1e-6))
    drawn = figure(Twins(Side("sb3"), Side("cleanrl"), "ppo", distances))
    for words in ("updates of ppo", "sb3, last bit changed", "sb3 and cleanrl", "still rounding"):
        assert words in drawn


@pytest.mark.long
@pytest.mark.parametrize(
    ("frameworks", "changes"),
    [
        (("sb3", "cleanrl"), ("none", "none")),
        (
            ("sb3", "tianshou"),
            ("none", "target-action-within-bounds+delay-from-the-second-update"),
        ),
    ],
)
def test_td3_is_equal_to_the_last_bits_of_float64_on_a_shared_stream(frameworks, changes):
    sides = (side(f, "td3", c) for f, c in zip(frameworks, changes, strict=True))
    found = compare(*sides, "td3", 4, how=How(double=True, shared=True))
    assert found.parted is None
    assert max(d.apart for d in found.distances) < 1e-14
    assert all(0 < d.rounding < 1e-11 for d in found.distances)


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
        (
            ["--frameworks", "sb3,cleanrl", "--algorithm", "ppo", "--shared"],
            "PPO learns from what its own policy did. Drop --shared",
        ),
    ],
)
def test_bad_input_is_one_message(words, message, capsys):
    assert main(words) == 2
    assert message in capsys.readouterr().err
