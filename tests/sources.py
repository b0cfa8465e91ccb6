"""Parsing of many source files at once."""

import ast
import gc


def parse_files(files):
    """Return the syntax trees of source files, by path.

    The garbage collector is off meanwhile and never scans the trees: with it, parsing takes ten
    times as long.
    """
    gc.disable()
    try:
        trees = {path: ast.parse(path.read_text("utf-8")) for path in files}
        gc.freeze()
    finally:
        gc.enable()
    return trees
