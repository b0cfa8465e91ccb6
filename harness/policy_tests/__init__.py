"""Test scenarios for policies: originals and mutants play in them, as in muPRL."""
