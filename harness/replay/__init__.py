"""Replay strategies: which transitions are replayed with what weight, in NumPy only."""
