"""Test scenarios in which originals and mutants play, as in muPRL."""
