"""TQC, an algorithm of Parallax, in Stable-Baselines3's contributed package."""
