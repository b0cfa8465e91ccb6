"""The page as Markdown with its main figures, for who reads it in a repository.

The same answers, tables of scores and counts as on the page; single verdicts and runs stand only
there.
"""

from collections.abc import Sequence

from tabulate import tabulate

from analysis.report.page import Content, Picture
from analysis.report.statements import AnswerInWords
from analysis.report.study import Part
from analysis.tables.scores import to_markdown
from analysis.words import FORMULAS, label, plain, run_counts

MAIN = ("reproduction", "verdicts", "intervals", "consistency", "ranks", "aggregates", "efficiency")
"""Families of figures that are shown."""


def pictures(content: Content) -> list[Picture]:
    """The figures that the text shows, in its order."""
    return [picture for family in MAIN for picture in content.pictures[family]]


def markdown(content: Content, folder: str) -> str:
    """The text.

    Args:
        content: What is on the page.
        folder: Where figures lie, seen from the text, as `<name>.png`.
    """
    blocks = [
        f"# {content.title}",
        run_counts(content.material.loaded),
        f"Made by\n\n    {content.command}\n\nwith {content.versions}.",
        "## Answers in words",
        *(block for answer in content.answers for block in _answer(answer)),
        "## What was run",
        _parts(content.parts),
        *_missing(content),
        "## Figures",
        *(block for picture in pictures(content) for block in _picture(picture, folder)),
        "## Final scores",
        f"Intervals: 95%, {FORMULAS[content.material.method]}.",
        *(
            block
            for table in content.scores
            for block in (f"### {table.title}", to_markdown(table))
        ),
        "## Other looks at the same pairs",
        "They change no verdict.",
        *(block for answer in content.others for block in _answer(answer)),
    ]
    return "\n\n".join(block.rstrip("\n") for block in blocks) + "\n"


def _answer(answer: AnswerInWords) -> list[str]:
    blocks = [f"### {answer.question}", f"**{plain(answer.headline.text)}**"]
    if answer.parts:
        blocks.append("\n".join(f"- {plain(part.text)}" for part in answer.parts))
    if answer.findings:
        more = f"; {answer.more} more are on the page" if answer.more else ""
        blocks.append(f"The clearest findings{more}:")
        numbered = enumerate(answer.findings, 1)
        blocks.append("\n".join(f"{i}. {plain(finding.text)}" for i, finding in numbered))
    return blocks


def _parts(parts: Sequence[Part]) -> str:
    heads = ["study", "algorithm", "variant", "requested", "completed", "used", "seeds"]
    heads += ["frameworks", "hyperparameters", "tasks", "evaluations (episodes)"]
    rows = [
        [
            *(part.study, label(part.algorithm), part.variant or "-"),
            *(part.requested, part.completed, part.used, part.seeds),
            ", ".join(label(name) for name in part.frameworks),
            *(", ".join(part.hps), ", ".join(part.tasks), part.evaluations or "-"),
        ]
        for part in parts
    ]
    cells = [[plain(str(value)) for value in row] for row in rows]
    return tabulate(cells, heads, tablefmt="pipe", disable_numparse=True)


def _missing(content: Content) -> list[str]:
    loaded = content.material.loaded
    if not loaded.excluded:
        return ["Every run found is used."]
    kinds = ", ".join(f"{count} {plain(kind)}" for kind, count in content.reasons)
    return [f"Not used: {len(loaded.excluded)}: {kinds}."]


def _picture(picture: Picture, folder: str) -> list[str]:
    image = f"![{plain(picture.title)}]({folder}/{picture.name}.png)"
    return [f"### {plain(picture.title)}", image, f"{plain(picture.caption)}"]
