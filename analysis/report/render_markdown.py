"""Renders a document as Markdown, for readers in a repository.

Of tables with typed columns only the title and number of rows appear: the HTML page and CSV files
have the rows.
"""

from collections.abc import Collection, Iterable, Iterator

from parallax.analysis.escaping import finish_markdown, format_table
from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.labels import MISSING, escape_markdown, format_count
from parallax.analysis.report.document import (
    MAX_FINDINGS,
    Block,
    Code,
    CodeBlock,
    Document,
    Grid,
    Inline,
    Listing,
    QuestionAnswer,
    Remark,
    ReportSection,
    ScoreCell,
    ScoreTable,
    Strong,
    Words,
)
from parallax.analysis.report.tables import Table
from parallax.harness.record.files import escape_unprintable

FIGURES = "figures"  # folder of figures, beside the page
_MARKS = {"best": "**", "tied": "*"}


def render_markdown(
    document: Document, figures: Collection[str] | None = None, folder: str = FIGURES
) -> str:
    """Return a document as Markdown.

    Args:
        document: The document.
        figures: Names of the figures that have files; None for all.
        folder: Folder of the figures, seen from the page, which are named `<name>.png`.
    """
    blocks = [f"# {escape_markdown(document.title)}"] if document.title else []
    blocks += render_blocks(document.blocks, 2, figures, folder)
    return finish_markdown("\n\n".join(blocks) + "\n")


def render_blocks(
    blocks: Iterable[Block],
    level: int = 2,
    figures: Collection[str] | None = None,
    folder: str = FIGURES,
) -> Iterator[str]:
    """Yield blocks as Markdown; headings of sections are of this level."""
    for block in blocks:
        match block:
            case ReportSection():
                yield f"{'#' * level} {escape_markdown(block.heading)}"
                yield from render_blocks(block.blocks, level + 1, figures, folder)
            case FigureSpec():
                if figures is None or block.name in figures:
                    yield f"![{escape_markdown(block.title)}]({folder}/{block.name}.png)"
                    yield escape_markdown(block.caption)
            case QuestionAnswer():
                yield from _render_answer(block, level)
            case ScoreTable():
                yield f"{'#' * level} {escape_markdown(block.title)}"
                yield score_table_to_markdown(block).rstrip("\n")
            case _ if block:
                yield _render_block(block)


def _render_block(block: Block) -> str:
    match block:
        case Listing():
            return _render_listing(block)
        case Grid():
            rows = [[render_words(cell).replace("\n", " ") for cell in row] for row in block.rows]
            table = format_table(rows, [escape_markdown(head) for head in block.heads])
            return _fold_details(block.summary, table) if block.summary else table
        case Table():
            return f"{escape_markdown(block.title)}: {format_count(len(block.items), 'row')}."
        case CodeBlock():
            return "\n".join(["```sh", *block.lines, "```"])
        case Remark():
            return f"> **Note.** {render_words(block.words)}"
        case _:
            return render_words(block)  # type: ignore[arg-type]


def render_words(words: Words) -> str:
    """Return text as Markdown, escaped."""
    return "".join(map(_render_inline, [words] if isinstance(words, str) else words))


def _render_inline(part: Inline) -> str:
    if isinstance(part, str):
        return escape_markdown(part)
    if isinstance(part, Code):
        return f"`{escape_unprintable(part.text).replace('`', '')}`"
    if isinstance(part, Strong):
        return f"**{render_words(part.words)}**"
    text = escape_markdown(part.text)
    return f"[{text}]({part.target})" if isinstance(part.target, str) else text


def _render_listing(block: Listing) -> str:
    lead = render_words(block.lead)
    if not block.items:
        return f"{lead}."
    items = [
        f"{f'{i}.' if block.is_numbered else '-'} {render_words(item)}"
        for i, item in enumerate(block.items, 1)
    ]
    if block.summary:
        return _fold_details(block.summary, "\n".join(items))
    return "\n".join([*([f"{lead}:", ""] if lead else []), *items])


def _fold_details(summary: str, content: str) -> str:
    return f"<details><summary>{escape_markdown(summary)}</summary>\n\n{content}\n\n</details>"


def _render_answer(answer: QuestionAnswer, level: int) -> Iterator[str]:
    yield f"{'#' * level} {escape_markdown(answer.question)}"
    yield f"**{escape_markdown(answer.headline.text)}**"
    if answer.parts:
        yield "\n".join(f"- {escape_markdown(part.text)}" for part in answer.parts)
    if answer.findings:
        left = len(answer.findings) - MAX_FINDINGS
        yield f"The clearest findings{f'; {left} more are on the page' if left > 0 else ''}:"
        yield "\n".join(
            f"{i}. {escape_markdown(finding.text)}"
            for i, finding in enumerate(answer.findings[:MAX_FINDINGS], 1)
        )


def score_table_to_markdown(table: ScoreTable) -> str:
    """Return a table of scores with its caption."""
    rows = [
        [escape_markdown(hps), escape_markdown(framework), *map(_render_score, cells)]
        for hps, framework, cells in table.rows
    ]
    heads = ["HPS", "FW", *map(escape_markdown, table.tasks)]
    return finish_markdown(f"{format_table(rows, heads)}\n\n{escape_markdown(table.caption)}\n")


def _render_score(cell: ScoreCell | None) -> str:
    if cell is None:
        return MISSING
    mark = _MARKS.get(cell.mark, "")
    return f"{mark}{escape_markdown(cell.text)}{mark}"
