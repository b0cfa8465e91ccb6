"""The page as Markdown with its main figures, for who reads it in a repository.

The same answers, tables of scores and counts as on the page; single verdicts and runs stand only
there.
"""

from collections.abc import Sequence

from parallax.analysis.escaping import finish_markdown, format_table
from parallax.analysis.labels import (
    INTERVAL_FORMULAS,
    escape_markdown,
    format_run_counts,
    get_label,
)
from parallax.analysis.report.phrases import QuestionAnswer
from parallax.analysis.report.sections.runs import StudyPart
from parallax.analysis.report.sections.scores import score_table_to_markdown
from parallax.analysis.report.study_report import ReportContent, ReportPicture

MAIN_FAMILIES = (
    "reproduction",
    "verdicts",
    "intervals",
    "consistency",
    "ranks",
    "aggregates",
    "efficiency",
)
"""Families of figures that are shown."""


def list_main_pictures(content: ReportContent) -> list[ReportPicture]:
    """Return the figures that the text shows, in its order."""
    return [picture for family in MAIN_FAMILIES for picture in content.pictures[family]]


def render_markdown(content: ReportContent, folder: str) -> str:
    """Return the text.

    Args:
        content: What is on the page.
        folder: Where figures lie, seen from the text, as `<name>.png`.
    """
    blocks = [
        f"# {content.title}",
        format_run_counts(content.material.loaded),
        f"Made by\n\n    {content.command}\n\nwith {content.versions}.",
        "## Answers in words",
        *(block for answer in content.answers for block in _render_answer(answer)),
        "## What was run",
        _render_study_parts(content.parts),
        *_render_missing_runs(content),
        "## Figures",
        *(
            block
            for picture in list_main_pictures(content)
            for block in _render_picture(picture, folder)
        ),
        "## Final scores",
        f"Intervals: 95%, {INTERVAL_FORMULAS[content.material.method]}.",
        *(
            block
            for table in content.scores
            for block in (f"### {table.title}", score_table_to_markdown(table))
        ),
        "## Other looks at the same pairs",
        "They change no verdict.",
        *(block for answer in content.other_answers for block in _render_answer(answer)),
    ]
    return finish_markdown("\n\n".join(block.rstrip("\n") for block in blocks) + "\n")


def _render_answer(answer: QuestionAnswer) -> list[str]:
    blocks = [f"### {answer.question}", f"**{escape_markdown(answer.headline.text)}**"]
    if answer.parts:
        blocks.append("\n".join(f"- {escape_markdown(part.text)}" for part in answer.parts))
    if answer.findings:
        more = f"; {answer.more} more are on the page" if answer.more else ""
        blocks.append(f"The clearest findings{more}:")
        numbered = enumerate(answer.findings, 1)
        blocks.append("\n".join(f"{i}. {escape_markdown(finding.text)}" for i, finding in numbered))
    return blocks


def _render_study_parts(parts: Sequence[StudyPart]) -> str:
    heads = ["study", "algorithm", "variant", "requested", "completed", "used", "seeds"]
    heads += ["frameworks", "hyperparameters", "tasks", "evaluations (episodes)"]
    rows = [
        [
            *(part.study, get_label(part.algorithm), part.variant or "-"),
            *(part.requested, part.completed, part.used, part.seeds),
            ", ".join(get_label(name) for name in part.frameworks),
            *(", ".join(part.hps), ", ".join(part.tasks), part.evaluations or "-"),
        ]
        for part in parts
    ]
    cells = [[escape_markdown(str(value)) for value in row] for row in rows]
    return format_table(cells, heads)


def _render_missing_runs(content: ReportContent) -> list[str]:
    loaded = content.material.loaded
    if not loaded.excluded:
        return ["Every run found is used."]
    kinds = ", ".join(f"{count} {escape_markdown(kind)}" for kind, count in content.reasons)
    return [f"Not used: {len(loaded.excluded)}: {kinds}."]


def _render_picture(picture: ReportPicture, folder: str) -> list[str]:
    image = f"![{escape_markdown(picture.title)}]({folder}/{picture.name}.png)"
    return [f"### {escape_markdown(picture.title)}", image, f"{escape_markdown(picture.caption)}"]
