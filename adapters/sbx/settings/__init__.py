"""Unified hyperparameters to the arguments of sbx's classes, a module per algorithm.

Each has `settings(t, hp, context)`; `own_defaults(defaults, context)` where sbx couples values.
"""
