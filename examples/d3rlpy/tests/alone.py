"""d3rlpy as a user of it would train; prints the hash of the weights."""

import d3rlpy
import gymnasium
from d3rlpy.algos import NormalNoise, TD3Config
from d3rlpy.dataset import create_fifo_replay_buffer
from d3rlpy.logging import NoopAdapterFactory
from d3rlpy.preprocessing import MinMaxActionScaler

from parallax.harness.record.provenance import hash_weights


def main():
    d3rlpy.seed(5)
    env = gymnasium.make("InvertedPendulum-v4")
    d3rlpy.envs.seed_env(env, 5)
    env.action_space.seed(5)
    scaler = MinMaxActionScaler(minimum=env.action_space.low, maximum=env.action_space.high)
    model = TD3Config(action_scaler=scaler).create(device="cpu:0")
    model.build_with_env(env)
    model.fit_online(
        env,
        create_fifo_replay_buffer(limit=1_000_000, env=env),
        NormalNoise(std=0.1 * 3),
        n_steps=360,
        n_steps_per_epoch=361,
        update_start_step=299,
        random_steps=301,
        logger_adapter=NoopAdapterFactory(),
        show_progress=False,
    )
    modules = model.impl.modules
    networks = {
        "policy": modules.policy,
        "target_policy": modules.targ_policy,
        "q_funcs": modules.q_funcs,
        "target_q_funcs": modules.targ_q_funcs,
    }
    weights = {
        f"{network}.{name}": value.detach().numpy()
        for network, module in networks.items()
        for name, value in module.named_parameters()
    }
    print(hash_weights(weights))


if __name__ == "__main__":
    main()
