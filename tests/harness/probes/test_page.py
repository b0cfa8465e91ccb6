import html.parser
import json
from pathlib import Path

import numpy as np
import pytest

from harness.probes.pages import figures, page
from harness.probes.pages.figures import curves, svg
from harness.probes.pages.terminal import lines
from harness.probes.results import (
    Answer,
    Axis,
    Comparison,
    Report,
    Result,
    differs,
    from_json,
    no_answer,
)

ANSWERS = Path(__file__).parents[3] / "docs" / "differences.json"
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Structure(html.parser.HTMLParser):
    """Checks that elements are closed in order; keeps ids, links and counts."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.count = [], [], [], {}

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.count[tag] = self.count.get(tag, 0) + 1
        self.ids += [found["id"]] if tag == "article" else []
        self.links += [found[name] for name in ("href", "src") if name in found]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def report():
    return from_json(json.loads(ANSWERS.read_text()))


@pytest.fixture(scope="module")
def structure(report):
    found = Structure()
    found.feed(page.html_page(report))
    return found


def a_result(answers, groups, axis=None, probe="ppo.x"):
    return Result(probe, "ppo", "What & why?", "paper", "unit", axis, answers, groups)


def test_page_is_whole_and_needs_nothing_else(structure):
    assert structure.open == []
    outside = [link for link in structure.links if not link.startswith("#")]
    assert outside == []


def test_every_probe_that_differs_has_a_part_that_the_overview_leads_to(structure, report):
    expected = [result.probe for result in report.results if differs(result)]
    assert structure.ids == expected
    assert {f"#{name}" for name in expected} <= set(structure.links)


def test_functions_that_differ_are_drawn(structure, report):
    assert structure.count["figure"] == structure.count["figcaption"] >= 8
    by_name = {result.probe: result for result in report.results}
    for name in ("sac.std_map", "ppo.learning_rate_annealing", "td3.exploration"):
        assert curves(by_name[name]) is not None
    assert figures.densities(by_name[figures.ACTION]) is not None
    assert figures.surfaces(by_name[figures.VALUE_CLIPPING]) is not None


def test_page_fits_a_phone():
    style = page.STYLE.read_text()
    assert "overflow-x: auto" in style
    assert "width=device-width" in page.html_page(Report((), {}, {}, 0.0))


def test_texts_are_escaped():
    answers = {"<b>": no_answer("a < b & c", failed=True)}
    text = page.html_page(Report((a_result(answers, ()),), {"<b>": ("x 1",)}, {}, 1.0))
    assert "a &lt; b &amp; c" in text
    assert "<b>" not in text
    assert "What &amp; why?" in text


def test_what_agrees_is_not_drawn():
    x = np.arange(6.0)
    axis = Axis("x", x)
    same = Answer(x, x, Comparison("agrees"))
    other = Answer(x**2, x, Comparison("function", 20.0), "squared")
    assert curves(a_result({"a": same}, (("a",),), axis)) is None
    assert curves(a_result({"a": same, "b": other}, (("a",), ("b",)))) is None
    drawn = curves(a_result({"a": same, "b": other}, (("a",), ("b",)), axis))
    assert "as the paper: a" in svg(drawn, "x")


def test_a_figure_is_the_same_each_time():
    x = np.arange(6.0)
    other = Answer(x**2, x, Comparison("function", 20.0), "squared")
    drawn = curves(a_result({"b": other}, (("b",),), Axis("x", x)))
    assert svg(drawn, "x") == svg(drawn, "x")


def test_markdown_names_figures_that_it_brings(report, tmp_path):
    contents = page.markdown_pages(tmp_path / "found.md", report)
    text = contents.pop(tmp_path / "found.md")
    assert len(contents) >= 8
    for path in contents:
        assert f"](found/{path.name})" in text
    assert text.count("\n## ") == sum(differs(result) for result in report.results)


def test_terminal_names_every_probe_and_fits_its_width(report):
    text = lines(report)
    named = {line.split()[0] for line in text if line and not line.startswith(" ")}
    assert {result.probe for result in report.results} <= named
    assert max(len(line) for line in text) <= 100
