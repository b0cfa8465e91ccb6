"""Import of other tools' runs as run folders: reading their files, naming and writing runs."""
