"""Command-line options that all commands with verdicts share."""

import argparse

from analysis.commands.shell import CommandError
from analysis.options import FAMILIES, Options


def add_verdict_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares them with the defaults of `Options`."""
    default = Options()
    parser.add_argument(
        "--alpha",
        type=float,
        default=default.alpha,
        help="level of the tests (default: %(default)s)",
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=default.margin_share,
        help="margin of equivalence as a share of the published score (default: %(default)s)",
    )
    parser.add_argument(
        "--family",
        choices=FAMILIES,
        default=default.family,
        help="what Holm's correction runs over (default: all pairs of an %(default)s)",
    )
    parser.add_argument(
        "--power",
        type=float,
        default=default.power,
        help="power asked of further seeds (default: %(default)s)",
    )
    parser.add_argument(
        "--rng-seed",
        type=int,
        default=default.seed,
        help="seed of resampling (default: %(default)s)",
    )


def make_options(arguments: argparse.Namespace) -> Options:
    """The options given.

    Raises:
        CommandError: A value is out of its range.
    """
    for name, low, high in (("alpha", 0, 0.5), ("margin", 0, 10), ("power", 0, 1)):
        value = getattr(arguments, name)
        if not low < value < high:
            raise CommandError(f"--{name}={value}: give a number above {low} and below {high}.")
    return Options(
        alpha=arguments.alpha,
        margin_share=arguments.margin,
        family=arguments.family,
        power=arguments.power,
        seed=arguments.rng_seed,
    )
