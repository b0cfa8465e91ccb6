"""Policies of complete runs: load them, evaluate them, export them, record videos.

from parallax.harness.policies.loading import load_policy

policy = load_policy("results/mine/Hopper-v4/td3/original/sb3/steps=1000000/seed=0")
actions = policy(observations)
"""
