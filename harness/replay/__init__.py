"""Replay strategies: selection and weights of replayed transitions, in NumPy only."""
