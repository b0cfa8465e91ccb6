"""Interventions: changes of exactly one thing in a training, as data, and code to apply them."""
