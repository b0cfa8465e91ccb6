"""Initial states depend on study, task, seed and evaluation, and on nothing else."""

from parallax.envs.batched_env import make_batched_env
from parallax.harness.train.evaluation import compute_episode_seeds


def test_each_seed_argument_changes_the_initial_states():
    base = {"evaluation_seed": 0, "env_id": "Hopper-v4", "seed": 0, "evaluation": 0}
    changes = [{}, {"evaluation_seed": 1}, {"env_id": "Hopper-v5"}, {"seed": 1}, {"evaluation": 1}]
    env, states = make_batched_env("Hopper-v4", 30), []
    for change in changes:
        states.extend(map(tuple, env.reset(compute_episode_seeds(**base | change, episodes=30))))
    assert len(set(states)) == 30 * len(changes)


def test_episode_seeds_never_change():
    # Published studies must stay repeatable with later versions and on other machines.
    assert compute_episode_seeds(0, "HalfCheetah-v4", 3, 7, 3) == [
        3190408898,
        413036484,
        3207928423,
    ]


def test_smaller_evaluations_use_the_first_episodes():
    assert (
        compute_episode_seeds(5, "Ant-v4", 1, 2, 4)
        == compute_episode_seeds(5, "Ant-v4", 1, 2, 30)[:4]
    )
