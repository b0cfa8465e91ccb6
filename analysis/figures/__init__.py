"""Figures: `families` lists them, each family is one module, and `style` has the common style."""
