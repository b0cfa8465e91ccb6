"""Parallax: compare implementations of deep reinforcement learning algorithms."""
