"""One module per command: `add_arguments(parser)`, `run(options)`, and its help as docstring."""
