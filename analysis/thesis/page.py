"""The thesis' published tables alone, judged: one Markdown page."""

from collections.abc import Sequence

from analysis.answers import Answers, answer_published
from analysis.options import Options
from analysis.thesis.deviations import deviations
from analysis.thesis.off_policy import statements_of_td3_and_sac
from analysis.thesis.ppo import statements_of_ppo
from analysis.thesis.ranking import statements_of_ranking
from analysis.thesis.sections import consistency, ranking, reproduction, table
from analysis.thesis.statements import NOT_CONTRADICTED, NOT_SUPPORTED, Statement, key_of

_HEAD = """# What the thesis' tables show

Tables 9 to 11 of "How Stable are Baselines" (Janssens 2025) give means and intervals of five runs
for 288 cells. This page holds them against the rules of [statistics.md](statistics.md). No run of
ours is in it. It is written by

    parallax published --output docs

The thesis says that two of PPO's runs with TorchRL failed; n = 5 is taken as printed. Tests assume
normal means; with five runs of which one may have failed, that is rough, and the single runs are
not published.
"""


def published_page(options: Options) -> str:
    """The whole page.

    Args:
        options: Settings of the verdicts.
    """
    answers = answer_published(options)
    parts = [
        _HEAD.strip(),
        *deviations(answers.groups),
        *_statements(thesis_statements(answers), options),
        *reproduction(answers),
        *consistency(answers),
        *ranking(answers),
    ]
    return "\n\n".join(parts) + "\n"


def thesis_statements(answers: Answers) -> tuple[Statement, ...]:
    """Every statement of sections 6.2 and 6.3 that the tables can be asked about.

    Args:
        answers: What the thesis' tables answer.
    """
    cells = {key_of(group): group for group in answers.groups}
    alpha = answers.options.alpha
    return (
        *statements_of_ppo(cells, alpha),
        *statements_of_td3_and_sac(cells, alpha),
        *statements_of_ranking(answers),
    )


def _statements(statements: Sequence[Statement], options: Options) -> list[str]:
    rows = [
        (str(i), item.section, item.claim, f"**{item.verdict}**")
        for i, item in enumerate(statements, 1)
    ]
    details = [
        f"{i}. {item.reading} Found: {item.outcome}." for i, item in enumerate(statements, 1)
    ]
    return [
        "## The thesis' statements on its results",
        f"Statements of sections 6.2 and 6.3 at {options.alpha:.0%}, corrected by Holm's method "
        "over the comparisons of each statement. Which tasks most panels of Figures 6 to 11 show "
        "is not in the text, so the widest set of cells that fits was taken.",
        table(rows, ("", "section", "statement", "verdict")),
        f"Not supported by the numbers: {_with(statements, NOT_SUPPORTED)}. Neither shown nor "
        f"contradicted: {_with(statements, NOT_CONTRADICTED)}. Not supported is not refuted: five "
        "runs leave most differences open. Where far more comparisons are significant before the "
        "correction than would be expected, some differences are likely there, although none can "
        "be named.",
        "How each was put to the test:",
        "\n".join(details),
    ]


def _with(statements: Sequence[Statement], verdict: str) -> str:
    found = [str(i) for i, item in enumerate(statements, 1) if item.verdict == verdict]
    return f"{', '.join(found) or 'none'} of {len(statements)}"
