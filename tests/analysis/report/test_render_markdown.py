"""The page as Markdown says what the page says, and shows figures that are there."""

import html
import re

import pytest


@pytest.fixture(scope="module")
def text(report):
    return report.with_name("report.md").read_text(encoding="utf-8")


def plain(source):
    """Words of a page, without what marks them up."""
    return " ".join(html.unescape(re.sub(r"<[^>]*>|\\\\|\*\*", " ", source)).split())


def test_markdown_has_every_answer_of_the_page(report, text):
    page = plain(report.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " "))
    lines = [line for line in text.splitlines() if re.match(r"\*\*|- |\d+\. ", line)]
    assert len(lines) > 20
    for line in lines:
        words = plain(re.sub(r"^(- |\d+\. )", "", line).replace("\\", ""))
        assert words in page, words


def test_markdown_shows_every_figure_once(report, text):
    shown = re.findall(r"!\[[^\]]*\]\((figures/[^)]+)\)", text)
    there = {f"figures/{path.name}" for path in (report.parent / "figures").iterdir()}
    assert len(shown) > 5 and sorted(shown) == sorted(there)


def test_special_characters_are_not_interpreted_as_markup(text):
    rows = [line for line in text.splitlines() if line.startswith("|")]
    blocks = re.split(r"\n\n", text)
    tables = [block.splitlines() for block in blocks if block.startswith("|")]
    assert rows and tables
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1, table[0]
