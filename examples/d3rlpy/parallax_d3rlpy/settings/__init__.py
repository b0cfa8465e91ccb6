"""Unified hyperparameters to the options of d3rlpy, a module per algorithm."""
