"""Claims of the thesis about its published tables, tested on these tables."""
