"""Unified hyperparameters to the arguments of Tianshou's classes, a module per algorithm.

Each has `settings(t, hp, context)`; `own_defaults(defaults, context)` where Tianshou counts
otherwise. `adapters.tianshou.<algorithm>` builds what they describe.
"""
