"""Measurement of detectors: mutants of upstream's code, and the tools that find them."""
