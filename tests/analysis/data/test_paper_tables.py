"""Tables of papers on replay and mutants, and the tasks that they are of."""

import math

import pytest

from parallax.analysis.data.paper_tables import (
    ATARI_RANDOM_HUMAN,
    IMP_ATARI_SCORES,
    IMP_MAPE,
    IMP_MUJOCO_SCORES,
    IMP_PRINTED_MEDIANS,
    IMP_SECONDS,
    MUPRL_RESULTS,
    find_muprl_results,
    game_from_env,
    is_atari,
)


@pytest.mark.parametrize(
    ("env", "game", "atari"),
    [
        ("ALE/Pong-v5", "Pong", True),
        ("PongNoFrameskip-v4", "Pong", True),
        ("MinAtar/Breakout-v1", "Breakout", False),
        ("Hopper-v4", "Hopper", False),
        ("Pendulum-v1,g=9.81", "Pendulum-v1,g=9.81", False),
        ("CartPole", "CartPole", False),
    ],
)
def test_tasks_have_the_name_of_their_game(env, game, atari):
    assert (game_from_env(env), is_atari(env)) == (game, atari)


def test_results_of_mutants_are_found_for_any_version_of_a_task():
    for (env, algorithm), found in MUPRL_RESULTS.items():
        assert (
            find_muprl_results(f"{env}-v1", algorithm)
            is found
            is find_muprl_results(env, algorithm)
        )
        scores = list(found.operators.values())
        printed = [one.sensitivity for one in scores if not math.isnan(one.sensitivity)]
        assert found.steps > 0 and 0 <= found.sensitivity <= 1 and printed
        assert all(0 <= one.trivial <= 1 and 0 <= one.killable <= 1 for one in scores)
    assert MUPRL_RESULTS and find_muprl_results("Unknown-v1", "ppo") is None


def test_times_of_the_paper_add_up_and_tables_are_complete():
    for name in ("per", "imp"):
        total, *parts = IMP_SECONDS[name]
        assert total == pytest.approx(sum(parts), rel=0.02)
    assert len(IMP_SECONDS) == 3 and [len(row) for row in IMP_MAPE.values()] == [3, 3]
    assert IMP_ATARI_SCORES.keys() == ATARI_RANDOM_HUMAN.keys() and len(IMP_ATARI_SCORES) == 10
    assert all(low < high for low, high in ATARI_RANDOM_HUMAN.values())
    assert len(IMP_PRINTED_MEDIANS) == 3 and {len(row) for row in IMP_MUJOCO_SCORES.values()} == {4}
