import sys

import gymnasium
import numpy as np
import pytest

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import TaskError, load_task, make_task_env

CARDS = "popgym-RepeatPreviousEasy-v0"
"""A card's suit at each step; to be named is that of four steps ago."""


def test_cards_are_one_hot_and_the_right_suit_is_rewarded():
    pytest.importorskip("popgym")
    task, env = load_task(CARDS), make_task_env(CARDS)
    assert (task.observation_size, task.choices) == (4, 4)
    shown, _ = env.reset(seed=0)
    suits, ended, total = [], False, 0.0
    while not ended:
        assert shown.dtype == np.float32 and sorted(shown) == [0, 0, 0, 1]
        suits.append(int(shown.argmax()))
        shown, reward, ended, _, _ = env.step(suits[-4] if len(suits) > 3 else 0)
        total += reward
    assert total == pytest.approx(1.0)  # the most that can be had


def test_evaluation_episodes_do_not_depend_on_each_other():
    pytest.importorskip("popgym")
    fresh, used = make_batched_env(CARDS, 3), make_batched_env(CARDS, 3)
    used.reset([7, 8, 9])
    used.step(np.zeros(3, int), np.ones(3, bool))
    shown = []
    for lockstep in (fresh, used):
        first = lockstep.reset([1, 2, 3])
        steps = [lockstep.step(np.zeros(3, int), np.ones(3, bool))[0] for _ in range(10)]
        shown.append(np.array([first, *steps]))
    assert (shown[0] == shown[1]).all()


@pytest.mark.parametrize(
    ("env_id", "size"),
    [
        ("popgym-AutoencodeEasy-v0", 6),  # two parts
        ("popgym-CountRecallEasy-v0", 4),  # two numbers
        ("popgym-PositionOnlyCartPoleEasy-v0", 2),  # as it is
    ],
)
def test_all_observation_types_are_encoded(env_id, size):
    pytest.importorskip("popgym")
    assert load_task(env_id).observation_size == size


def test_several_choices_at_once_are_refused():
    pytest.importorskip("popgym")
    with pytest.raises(TaskError, match=r"MultiDiscrete.*a flat Box or Discrete is needed"):
        load_task("popgym-BattleshipEasy-v0")


def test_missing_task_package_error_names_the_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "popgym", None)
    monkeypatch.setattr(gymnasium.envs.registration, "registry", {})
    monkeypatch.setattr(gymnasium, "registry", {})
    with pytest.raises(TaskError, match=rf"env={CARDS} .*parallax-drl\[popgym\]"):
        make_task_env(CARDS)
