"""Unified hyperparameters to the arguments of SB3's classes, a module per algorithm.

Each has `settings(t, hp, context)`; `own_defaults(defaults, context)` where SB3 couples values.
"""
