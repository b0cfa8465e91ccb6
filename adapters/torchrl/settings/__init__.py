"""Unified hyperparameters to the arguments of TorchRL's components, a module per algorithm.

Each has `settings(t, hp, context)`; `own_defaults(defaults, context)` where upstream's script
couples values. `adapters.torchrl.<algorithm>` trains with them.
"""
