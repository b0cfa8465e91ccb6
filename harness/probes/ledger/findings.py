"""What probes found of algorithms and frameworks that the statements are not about."""

from collections.abc import Iterator, Mapping

from harness.contract.algorithms import ALGORITHMS
from harness.probes.results import AGREES, Answer, Report, Result, describe

NAMES = {
    **{"cleanrl": "CleanRL", "sb3": "SB3", "torchrl": "TorchRL"},
    **{"tianshou": "Tianshou", "skrl": "skrl", "sbx": "sbx"},
}
"""Frameworks as they are written."""
BEYOND = tuple(name for name in NAMES if name not in ("cleanrl", "sb3", "torchrl"))
"""Those that the statements are not about."""
DOCUMENTED = ("default_settings", "learning_rates", "network_sizes", "tau_as_told")
"""Probes of what a signature, a command line or a recipe says: no finding of theirs is told."""
HEAD = """| probe | question | found |
|---|---|---|"""


def in_thesis(algorithm: str) -> bool:
    """Whether the statements are about an algorithm."""
    return ALGORITHMS[algorithm].thesis_table is not None


def parts(report: Report) -> Iterator[str]:
    """Parts of the page: algorithms beyond the statements, then frameworks beyond them."""
    beyond = [name for name, cls in ALGORITHMS.items() if not in_thesis(name)]
    for algorithm in beyond:
        rows = [row(r, found) for r, found in _differing(report, algorithm, tuple(NAMES))]
        if rows:
            label = ALGORITHMS[algorithm].label
            yield f"## {label}"
            yield ""
            yield f"Where implementations of {label} differ from its paper, and no signature and no"
            yield "command line tells of it. Those that are not named do as it says, or lack what"
            yield "the probe asks for; what is marked *our recipe* is this project's code there."
            yield ""
            yield HEAD
            yield from rows
            yield ""
    of_thesis = [name for name in ALGORITHMS if in_thesis(name)]
    for one in BEYOND:
        rows = [row(*pair) for name in of_thesis for pair in _differing(report, name, (one,))]
        if rows:
            label = NAMES[one]
            yield f"## {label}"
            yield ""
            what = f"{label}'s implementations of the thesis' algorithms"
            yield f"Where {what} differ from the papers."
            yield ""
            yield HEAD
            yield from rows
            yield ""


def _differing(
    report: Report, algorithm: str, frameworks: tuple[str, ...]
) -> Iterator[tuple[Result, dict[str, Answer]]]:
    for result in report.results:
        documented = result.probe.split(".", 1)[1] in DOCUMENTED
        if result.algorithm != algorithm or documented:
            continue
        answers = {
            name: result.answers[name]
            for name in frameworks
            if name in result.answers
            and not result.answers[name].unmeasured
            and result.answers[name].comparison.kind != AGREES
        }
        if answers:
            yield result, answers


def row(result: Result, answers: Mapping[str, Answer]) -> str:
    """One probe: frameworks that say the same stand together."""
    texts: dict[str, list[str]] = {}
    for name, answer in answers.items():
        texts.setdefault(describe(answer), []).append(NAMES[name])
    found = "; ".join(f"{', '.join(names)}: {text}" for text, names in texts.items())
    return f"| `{result.probe}` | {result.question} | {found.replace('|', '/')} |"
