"""History of a framework's behaviour over its releases."""
