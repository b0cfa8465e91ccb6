"""Probes that several algorithms share."""
