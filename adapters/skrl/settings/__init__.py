"""Unified hyperparameters to the arguments of skrl's classes, a module per algorithm.

Each has `settings(t, hp, context)`; `adapters.skrl.agents.<algorithm>` builds what they describe.
"""
