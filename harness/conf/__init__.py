"""The Hydra configuration tree."""
