"""Ports that nobody listens on."""

import random
import socket


def free_ports(count: int) -> int:
    """The first of `count` ports on loopback that nobody listens on."""
    rng = random.SystemRandom()
    while True:
        first = rng.randrange(20_000, 32_000 - count)
        if all(map(_is_free, range(first, first + count))):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
