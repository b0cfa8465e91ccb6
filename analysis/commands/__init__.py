"""Commands: a function that adds arguments to a parser, and one that runs with the options."""
