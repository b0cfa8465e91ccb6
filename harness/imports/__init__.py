"""Runs that other tools made, as run folders: readers of their files, names, and writing."""
