"""MuJoCo tasks without their Gymnasium classes, for many copies at once."""
