"""TorchRL's SAC: log-probability in the task's units, target entropy for actions in [-1, 1].

`target_entropy="auto"` is minus the number of action dimensions, the value of Haarnoja et al.
(2018b, appendix D) for actions between -1 and 1. The log-probability is that of the action in the
task's units: for bounds of +-2 it is lower by ln 2 per dimension. So the temperature aims at
another policy in each range. Run: python torchrl_sac_action_units.py
"""

import math

import torch
import torchrl
from torchrl.modules import TanhNormal


def compute_log_probability(bound: float) -> float:
    """Return the log-probability of the middle action, of a policy that only the range changes."""
    policy = TanhNormal(torch.zeros(1), torch.ones(1), low=-bound, high=bound)
    return float(policy.log_prob(torch.zeros(1)))


def main() -> int:
    """Print the offset; 1 if the range changes the log-probability."""
    one, two = compute_log_probability(1.0), compute_log_probability(2.0)
    print(f"torchrl {torchrl.__version__}, one action dimension, target entropy -1 in both ranges")
    print(f"log-probability with bounds +-1: {one:.4f}")
    print(
        f"log-probability with bounds +-2: {two:.4f} (lower by {one - two:.4f}, ln 2 = "
        f"{math.log(2):.4f})"
    )
    return int(abs(one - two) > 1e-4)


if __name__ == "__main__":
    raise SystemExit(main())
