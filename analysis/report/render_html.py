"""Renders a document as one HTML file that loads no other file; all text is escaped."""

import base64
import dataclasses
import io
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2
import PIL.Image
from markupsafe import Markup, escape

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.figure_spec import FigureSpec
from parallax.analysis.labels import MISSING, format_count, get_label, get_recipe_label, make_anchor
from parallax.analysis.report.document import (
    MAX_FINDINGS,
    Block,
    Code,
    CodeBlock,
    Document,
    Grid,
    Inline,
    LinkedSentence,
    Listing,
    QuestionAnswer,
    Remark,
    ReportSection,
    ScoreTable,
    Strong,
    Words,
)
from parallax.analysis.report.tables import RUNS_TABLE, Table, TableCell
from parallax.analysis.verdicts.groups import ScoreGroup

PAGE_DPI = 130  # pixels per inch of a figure on the page
_ASSETS_FOLDER = Path(__file__).parent
_LONG_CELL = 40  # characters; longer cells of small tables may break
_OPEN_ROWS = 12  # tables with more rows are folded
_OPEN_ITEMS = 8


@dataclasses.dataclass(frozen=True)
class PageContext:
    """Data for the links and figures of a page.

    Attributes:
        numbers: Number of each group of runs, by setting and framework.
        images: Each figure's image as WebP, by its name.
    """

    numbers: Mapping[tuple[StudyCell, str], int]
    page_folder: Path
    images: Mapping[str, bytes]

    def number_groups(self, groups: Iterable[ScoreGroup]) -> list[int]:
        """Return the numbers of groups, each once, in order."""
        return sorted({self.numbers[group.cell, group.framework] for group in groups})

    def get_address(self, path: Path) -> str:
        """Return the address of a file or folder from the page; empty where there is none."""
        if not path.exists():
            return ""
        address = urllib.parse.quote(os.fsencode(os.path.relpath(path, self.page_folder)))
        return f"{address}/" if path.is_dir() else address


def make_page_context(
    groups: Iterable[ScoreGroup], page_folder: Path, images: Mapping[str, bytes]
) -> PageContext:
    """Number the groups, in their order; the folder of the page need not exist."""
    keys = ((group.cell, group.framework) for group in groups)
    numbers = {key: number for number, key in enumerate(keys)}
    return PageContext(numbers, page_folder.resolve(), images)


def render_page(document: Document, context: PageContext) -> str:
    """Return the whole page, which loads no other files."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("template.html").render(
        title=document.title,
        introduction=_render_blocks(
            [block for block in document.blocks if not isinstance(block, ReportSection)], context, 2
        ),
        sections=[block for block in document.blocks if isinstance(block, ReportSection)],
        render=lambda block: _render_block(block, context, 2),
        style=Markup(_read_asset("style.css")),
        script=Markup(_read_asset("script.js")),
    )


def _read_asset(name: str) -> str:
    return (_ASSETS_FOLDER / name).read_text(encoding="utf-8")


def _render_blocks(blocks: Iterable[Block], context: PageContext, level: int) -> Markup:
    return Markup("\n").join(_render_block(block, context, level) for block in blocks if block)


def _render_block(block: Block, context: PageContext, level: int) -> Markup:
    """Render one block; headings of sections are of this level."""
    match block:
        case ReportSection():
            anchor = Markup(' id="{}"').format(block.anchor) if block.anchor else ""
            body = _render_blocks(block.blocks, context, level + 1)
            head = Markup("<h{0}>{1}</h{0}>").format(level, block.heading)
            return Markup("<section{}>{}\n{}\n</section>").format(anchor, head, body)
        case Listing():
            return _render_listing(block, context)
        case Grid():
            return _render_grid(block, context)
        case Table():
            return _render_table(block, context, level)
        case QuestionAnswer():
            return _render_answer(block, context, level)
        case ScoreTable():
            return _render_score_table(block, context, level)
        case FigureSpec():
            return _render_figure(block, context)
        case CodeBlock():
            text = "\n".join(block.lines)
            return Markup('<pre class="command"><code>{}</code></pre>').format(text)
        case Remark():
            return Markup('<p class="remark">{}</p>').format(_render_words(block.words, context))
        case _:
            return Markup("<p>{}</p>").format(_render_words(block, context))


def _render_words(words: Words, context: PageContext) -> Markup:
    parts = [words] if isinstance(words, str) else words
    return Markup("").join(_render_inline(part, context) for part in parts)


def _render_inline(part: Inline, context: PageContext) -> Markup:
    if isinstance(part, str):
        return escape(_insert_nonbreaking_spaces(part))
    if isinstance(part, Code):
        return Markup("<code>{}</code>").format(part.text)
    if isinstance(part, Strong):
        return Markup("<b>{}</b>").format(_render_words(part.words, context))
    target = context.get_address(part.target) if isinstance(part.target, Path) else part.target
    if not target:
        return escape(part.text)
    kind = Markup(' class="{}"').format(part.kind) if part.kind else ""
    return Markup('<a{} href="{}">{}</a>').format(kind, target, part.text)


def _insert_nonbreaking_spaces(text: str) -> str:
    """Keep numbers such as n = 5 on one line."""
    for sign in "=<>":
        text = text.replace(f" {sign} ", f"\N{NO-BREAK SPACE}{sign}\N{NO-BREAK SPACE}")
    return text


def _render_listing(block: Listing, context: PageContext) -> Markup:
    lead = _render_words(block.lead, context)
    if not block.items:
        return Markup("<p>{}.</p>").format(lead)
    items = Markup("").join(
        Markup("<li>{}</li>").format(_render_words(item, context)) for item in block.items
    )
    tag = "ol" if block.is_numbered else "ul"
    listed = Markup("<{0}>{1}</{0}>").format(tag, items)
    if block.summary:
        return _fold_details(block.summary, listed, len(block.items) <= _OPEN_ITEMS)
    return (Markup("<p>{}:</p>").format(lead) if lead else Markup("")) + listed


def _fold_details(summary: str, content: Markup, is_open: bool = False) -> Markup:
    state = Markup(" open") if is_open else ""
    return Markup("<details{}><summary>{}</summary>{}</details>").format(state, summary, content)


def _render_grid(block: Grid, context: PageContext) -> Markup:
    number = Markup(' class="number"')
    heads = Markup("").join(
        Markup("<th{}>{}</th>").format(number if i in block.numeric else "", head)
        for i, head in enumerate(block.heads)
    )
    rows = Markup("\n").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                _render_grid_cell(_render_words(cell, context), i in block.numeric)
                for i, cell in enumerate(row)
            )
        )
        for row in block.rows
    )
    table = Markup(
        '<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>\n{}\n</tbody></table></div>'
    ).format(heads, rows)
    return _fold_details(block.summary, table) if block.summary else table


def _render_grid_cell(text: Markup, is_number: bool) -> Markup:
    if is_number:
        return Markup('<td class="number">{}</td>').format(text)
    return Markup("<td{}>{}</td>").format(
        Markup(' class="wrap"') if len(text) > _LONG_CELL else "", text
    )


def _render_answer(item: QuestionAnswer, context: PageContext, level: int) -> Markup:
    def render_items(tag: str, sentences: Iterable[LinkedSentence]) -> Markup:
        items = [Markup("<li>{}</li>").format(_render_sentence(one, context)) for one in sentences]
        return Markup("<{0}>{1}</{0}>").format(tag, Markup("").join(items)) if items else Markup("")

    lead = Markup("")
    if item.findings:
        more = Markup("")
        if len(item.findings) > MAX_FINDINGS:
            more = Markup(
                '; {} more are in the <a class="rows" href="#{}" data-filter="" '
                'data-groups="">table</a>'
            ).format(len(item.findings) - MAX_FINDINGS, item.findings[0].table)
        lead = Markup("<p>The clearest findings{}:</p>").format(more)
    return Markup(
        '<article class="answer"><h{0} id="{1}">{2}</h{0}>\n<p class="headline">{3}</p>\n'
        "{4}{5}{6}</article>"
    ).format(
        level,
        make_anchor(item.question),
        item.question,
        _render_sentence(item.headline, context),
        render_items("ul", item.parts),
        lead,
        render_items("ol", item.findings[:MAX_FINDINGS]),
    )


def _render_sentence(item: LinkedSentence, context: PageContext) -> Markup:
    groups = context.number_groups(item.groups)
    rows = Markup("")
    if item.table:
        rows = Markup(
            '<a class="rows" href="#{}" data-filter="{}" data-groups="{}">rows</a> '
        ).format(item.table, item.words, " ".join(map(str, groups)))
    return Markup('{} <span class="links">{}{}</span>').format(
        _render_words(item.text, context), rows, _link_groups(groups)
    )


def _link_groups(groups: list[int]) -> Markup:
    if not groups:
        return Markup("")
    return Markup('<a class="runs" href="#g{}" data-groups="{}">runs</a>').format(
        groups[0], " ".join(map(str, groups))
    )


def _render_figure(spec: FigureSpec, context: PageContext) -> Markup:
    content = context.images[spec.name]
    with PIL.Image.open(io.BytesIO(content)) as image:
        width = image.width
    cells = set(spec.cells)
    groups = [number for (cell, _), number in context.numbers.items() if cell in cells]
    return Markup(
        '<figure id="figure-{0}">\n<label class="picture"><input type="checkbox" '
        'aria-label="full size"><img src="data:image/webp;base64,{1}" '
        'alt="{2}" width="{3}" style="--inches: {4}"></label>\n<figcaption>{5} {6}'
        "</figcaption>\n</figure>"
    ).format(
        spec.name,
        base64.b64encode(content).decode("ascii"),
        spec.title,
        width,
        round(width / PAGE_DPI, 2),
        spec.caption,
        _link_groups(groups),
    )


def _render_score_table(table: ScoreTable, context: PageContext, level: int) -> Markup:
    heads = Markup("").join(
        Markup('<th class="number">{}</th>').format(task) for task in table.tasks
    )
    rows, before = [], table.rows[0][0] if table.rows else ""
    for hps, framework, cells in table.rows:
        texts = Markup("").join(
            Markup('<td class="number">{}').format(MISSING)
            if cell is None
            else Markup(
                '<td class="number {0}"><a class="runs plain" href="#g{1}" data-groups="{1}">{2}'
                "</a>"
            ).format(cell.mark, context.numbers[cell.key], cell.text)
            for cell in cells
        )
        block = Markup(' class="block"') if hps != before else ""
        before = hps
        rows.append(
            Markup("<tr{}><td>{}<td>{}{}").format(
                block, get_recipe_label(hps), get_label(framework), texts
            )
        )
    return Markup(
        '<section class="table" id="{0}"><h{1}>{2}</h{1}>\n<div class="scroll"><table '
        'class="scores"><thead><tr><th>hyperparameters</th><th>framework</th>{3}</tr></thead>'
        '<tbody>\n{4}\n</tbody></table></div>\n<p class="caption">{5}</p></section>'
    ).format(table.name, level, table.title, heads, Markup("\n").join(rows), table.caption)


def _render_table(table: Table[Any], context: PageContext, level: int) -> Markup:
    """Render a table that can be sorted and filtered."""
    head = Markup("<h{0}>{1}</h{0}>").format(level, table.title) if table.title else ""
    body = _render_table_body(table, context)
    return Markup('<section class="table" id="{}">{}\n{}</section>').format(table.name, head, body)


def _render_table_body(table: Table[Any], context: PageContext) -> Markup:
    count = format_count(len(table.items), "row")
    heads = Markup("").join(
        Markup('<th scope="col"{}><button type="button">{}</button></th>').format(
            Markup(' class="number"') if column.is_numeric else "", column.heading
        )
        for column in table.page_columns
    )
    is_runs = table.name == RUNS_TABLE
    rows = _render_run_rows(table, context) if is_runs else _render_rows(table, context)
    return Markup(
        '<details class="table"{0}><summary>{1}</summary>\n<p class="tools"><label>Show rows with '
        '<input type="search" placeholder="words" aria-label="words that rows of {2} must hold">'
        '</label> <output>{1}</output> <button type="button" class="all">show all</button></p>\n'
        '<div class="scroll"><table class="sortable"><thead><tr>{3}{4}</tr></thead><tbody>\n{5}\n'
        "</tbody></table></div>\n</details>"
    ).format(
        Markup(" open") if len(table.items) <= _OPEN_ROWS and not is_runs else "",
        count,
        table.title or table.name,
        heads,
        Markup('<th scope="col">runs</th>') if 'class="runs"' in rows else "",
        rows,
    )


def _render_rows(table: Table[Any], context: PageContext) -> Markup:
    columns = table.page_columns
    return Markup("\n").join(
        Markup("<tr>")
        + Markup("").join(
            _render_cell(cell, column.is_numeric, context)
            for cell, column in zip(cells, columns, strict=True)
        )
        + Markup("<td>")
        + _link_groups(context.number_groups(groups))
        for cells, groups in table.make_page_rows()
    )


def _render_run_rows(table: Table[Any], context: PageContext) -> Markup:
    """Render rows of runs; the first row of each group has an anchor for links."""
    rows, before = [], -1
    for cells, groups in table.make_page_rows():
        (group,) = context.number_groups(groups)
        anchor = f' id="g{group}"' if group != before else ""
        before = group
        texts = "".join(
            _render_cell(cell, column.is_numeric, context)
            for cell, column in zip(cells, table.page_columns, strict=True)
        )
        rows.append(f"<tr data-g={group}{anchor}>{texts}")
    return Markup("\n".join(rows))


def _render_cell(cell: TableCell, is_numeric: bool, context: PageContext) -> Markup:
    """Return a cell as HTML, with its sort key if that differs from its text.

    A page has some 20,000 cells: `Markup.format` would take seconds for them.
    """
    text = escape(cell.text)
    if is_numeric and cell.sort in (cell.text.replace(",", ""), ""):
        return Markup(f"<td class=n>{text}")
    if is_numeric:
        return Markup(f'<td class=n data-v="{escape(cell.sort)}">{text}')
    if cell.style:
        return Markup(f'<td class="{escape(cell.style)}">{text}')
    if cell.path is not None:
        address = context.get_address(cell.path)
        link = f'<a href="{escape(address)}">{text}</a>' if address else text
        return Markup(f"<td class=path>{link}")
    return Markup(f"<td>{text}")
