"""Import of other tools' runs as run folders: reading their files, naming and writing runs.

Readers raise `UnusableError` where a file is damaged, too large, or has other content than its
format; it refuses one run, and the others are imported.
"""
