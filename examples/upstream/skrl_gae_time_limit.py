"""skrl's PPO: by default, advantages run over a time limit into the next episode.

Four steps of one environment with rewards of 1 and values of 0; a time limit ends the second step.
Nothing of the second episode belongs into the advantages of the first. Released in 2.0.0 (and in
0.9.0 to 1.3.0). Run: python skrl_gae_time_limit.py
"""

from importlib.metadata import version

import torch
from skrl.agents.torch.ppo.ppo import PPO_CFG, compute_gae


def compute_returns(truncated_at: int, time_limit_bootstrap: bool) -> list[float]:
    """Return skrl's returns float[4] of rewards of 1."""
    rewards, values = torch.ones(4, 1, 1), torch.zeros(4, 1, 1)
    truncated = torch.zeros(4, 1, 1, dtype=torch.bool)
    truncated[truncated_at] = True
    returns, _ = compute_gae(
        rewards=rewards,
        terminated=torch.zeros(4, 1, 1, dtype=torch.bool),
        truncated=truncated,
        values=values,
        last_values=torch.zeros(1, 1),
        discount_factor=1.0,
        lambda_coefficient=1.0,
        time_limit_bootstrap=time_limit_bootstrap,
    )
    return [round(float(number), 4) for number in returns.flatten()]


def main() -> int:
    """Print the returns; 1 if the default leaks."""
    default = PPO_CFG.time_limit_bootstrap
    found = compute_returns(1, default)
    expected = [2.0, 1.0, 2.0, 1.0]
    print(f"skrl {version('skrl')}, time_limit_bootstrap={default} (the default)")
    print(f"returns:  {found}")
    print(f"expected: {expected} (values are 0, so the bootstrap adds nothing)")
    print(f"with time_limit_bootstrap=True: {compute_returns(1, True)}")
    return int(found != expected)


if __name__ == "__main__":
    raise SystemExit(main())
