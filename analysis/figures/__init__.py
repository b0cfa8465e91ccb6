"""Figures: `families` lists them, each family is one module, `style` is how all of them look."""
