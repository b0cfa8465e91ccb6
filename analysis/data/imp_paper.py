"""What Imp-PER's tables print (Zhang et al., Applied Sciences 10 (2020) 6925).

Their digits run together in the text that is public; they are separated so that every normalised
score of table 6 and every relative gain of table 8 follows from the scores beside it.
"""

from collections.abc import Mapping

SOURCE = "Zhang et al. 2020"

MAPE: Mapping[str, tuple[float, float, float]] = {"atdc": (76, 54, 48), "imp": (6, 3, 0.7)}
"""Table 3: percent on Atari's Pong, DDQN, in each third of 6e7 steps."""

SECONDS: Mapping[str, tuple[float, float, float, float]] = {
    "per": (0.014, 0.005, 0.0028, 0.006),
    "atdc": (0.150, 0.075, 0.0028, 0.006),
    "imp": (0.015, 0.005, 0.0029, 0.007),
}
"""Table 4: seconds of an iteration on Atari, DDQN: all, sampling, priority update, learning."""

RANDOM_HUMAN: Mapping[str, tuple[float, float]] = {
    "BankHeist": (21.7, 644.5),
    "Bowling": (35.2, 146.5),
    "Boxing": (-1.5, 9.6),
    "Breakout": (1.7, 31.8),
    "FishingDerby": (-77.1, 5.1),
    "Freeway": (0.1, 25.6),
    "Pong": (-20.7, 9.3),
    "RoadRunner": (11.5, 7845),
    "Robotank": (2.2, 11.9),
    "Tutankham": (12.7, 138.3),
}
"""Table 6: scores of random play and of a human."""

ATARI: Mapping[str, tuple[float, float, float]] = {
    "BankHeist": (728.3, 870.6, 951.6),
    "Bowling": (50.4, 53.5, 60.5),
    "Boxing": (81.7, 90.6, 90.3),
    "Breakout": (450, 420.5, 451.3),
    "FishingDerby": (3.2, 3.1, 3.4),
    "Freeway": (28.8, 32, 32.2),
    "Pong": (21, 20.7, 21),
    "RoadRunner": (48330.5, 50113, 54370.6),
    "Robotank": (47.8, 53.7, 52.1),
    "Tutankham": (125.7, 207, 190),
}
"""Table 6: final scores of DDQN with uniform replay, Org-PER and Imp-PER."""

METHODS = ("uniform", "per", "imp")
"""What the three columns of tables 6 and 8 are called here."""

PRINTED_MEDIANS = (113.4, 138.0, 141.1)
"""Table 7, in percent; the lower of the two middle values of ten each, which is no median."""

LEARNER_OF_MUJOCO = "ddpg"
MUJOCO: Mapping[str, tuple[float, float, float, float]] = {
    "Walker2d": (-4.34, 500, 800, 1360),
    "Hopper": (11, 650, 800, 950),
    "InvertedPendulum": (7.76, 120, 105, 275),
    "InvertedDoublePendulum": (54.1, 1300, 275, 312),
    "Reacher": (-90, -9, -10, -10),
    "Humanoid": (102.0, 1284, 195, 271),
}
"""Table 8, v1 tasks, DDPG: random play, uniform replay, Org-PER, Imp-PER."""


def game(env: str) -> str:
    """The paper's name of a task: `Pong` of `ALE/Pong-v5`, `Hopper` of `Hopper-v4`."""
    return env.rpartition("/")[2].partition("-v")[0].removesuffix("NoFrameskip")


def is_atari(env: str) -> bool:
    """Whether a task is one of Atari's games, and not of MinAtar's, which share their names."""
    return env.startswith("ALE/") or "NoFrameskip" in env
