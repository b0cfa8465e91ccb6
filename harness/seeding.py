"""Which states evaluation episodes start from: the same for every framework."""

import zlib

import numpy as np


def episode_seeds(
    evaluation_seed: int, env_id: str, seed: int, evaluation: int, episodes: int
) -> list[int]:
    """One reset seed per episode; nothing else decides about them.

    The numbers must not be negative. Fewer episodes are the first of more.

    Args:
        evaluation_seed: The study's choice of initial states.
        env_id: Gymnasium's name of the task.
        seed: Index of the training run.
        evaluation: Index of the evaluation within the run.
        episodes: How many seeds to draw.

    Returns:
        Integers below 2**32.
    """
    # Python's own hash of a text differs between processes.
    entropy = [evaluation_seed, zlib.crc32(env_id.encode()), seed, evaluation]
    return [int(state) for state in np.random.SeedSequence(entropy).generate_state(episodes)]
