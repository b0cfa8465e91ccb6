"""Figures: `families` lists them, each family is one module, `style` sets how all of them look."""
