"""Trained policies, loaded again.

from harness.policies import load

policy = load("results/mine/Hopper-v4/td3/original/sb3/steps=1000000/seed=0")
actions = policy(observations)
"""

__all__ = ["LoadedPolicy", "load_policy"]
