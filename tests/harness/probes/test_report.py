import html.parser
import json
from pathlib import Path

import numpy as np
import pytest

from parallax.harness.probes import figures
from parallax.harness.probes import report as page
from parallax.harness.probes.figures import make_curve_drawer, render_svg
from parallax.harness.probes.report import format_report
from parallax.harness.probes.results import (
    AnswerAxis,
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    has_difference,
    make_missing_answer,
    report_from_dict,
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
    return report_from_dict(json.loads(ANSWERS.read_text()))


@pytest.fixture(scope="module")
def structure(report):
    found = Structure()
    found.feed(page.render_html_page(report))
    return found


def a_result(answers, groups, axis=None, probe="ppo.x"):
    return ProbeResult(probe, "ppo", "What & why?", "paper", "unit", axis, answers, groups)


def test_page_is_complete_and_self_contained(structure):
    assert structure.open == []
    outside = [link for link in structure.links if not link.startswith("#")]
    assert outside == []


def test_overview_links_to_a_section_of_every_differing_probe(structure, report):
    expected = [result.probe for result in report.results if has_difference(result)]
    assert structure.ids == expected
    assert {f"#{name}" for name in expected} <= set(structure.links)


def test_functions_that_differ_are_drawn(structure, report):
    assert structure.count["figure"] == structure.count["figcaption"] >= 8
    by_name = {result.probe: result for result in report.results}
    for name in ("sac.std_map", "ppo.learning_rate_annealing", "td3.exploration"):
        assert make_curve_drawer(by_name[name]) is not None
    assert figures.make_density_drawer(by_name[figures.ACTION_PROBE]) is not None
    assert figures.make_surface_drawer(by_name[figures.VALUE_CLIPPING_PROBE]) is not None


def test_page_fits_a_phone():
    style = page.STYLE_SHEET.read_text()
    assert "overflow-x: auto" in style
    assert "width=device-width" in page.render_html_page(ProbeReport((), {}, {}, 0.0))


def test_texts_are_escaped():
    answers = {"<b>": make_missing_answer("a < b & c", failed=True)}
    text = page.render_html_page(ProbeReport((a_result(answers, ()),), {"<b>": ("x 1",)}, {}, 1.0))
    assert "a &lt; b &amp; c" in text
    assert "<b>" not in text
    assert "What &amp; why?" in text


def test_agreeing_answers_are_not_drawn():
    x = np.arange(6.0)
    axis = AnswerAxis("x", x)
    same = ProbeAnswer(x, x, AnswerComparison("agrees"))
    other = ProbeAnswer(x**2, x, AnswerComparison("function", 20.0), "squared")
    assert make_curve_drawer(a_result({"a": same}, (("a",),), axis)) is None
    assert make_curve_drawer(a_result({"a": same, "b": other}, (("a",), ("b",)))) is None
    drawn = make_curve_drawer(a_result({"a": same, "b": other}, (("a",), ("b",)), axis))
    assert "as the paper: a" in render_svg(drawn, "x")


def test_a_figure_is_the_same_each_time():
    x = np.arange(6.0)
    other = ProbeAnswer(x**2, x, AnswerComparison("function", 20.0), "squared")
    drawn = make_curve_drawer(a_result({"b": other}, (("b",),), AnswerAxis("x", x)))
    assert render_svg(drawn, "x") == render_svg(drawn, "x")


def test_markdown_names_existing_figures(report, tmp_path):
    contents = page.render_markdown_pages(tmp_path / "found.md", report)
    text = contents.pop(tmp_path / "found.md")
    assert len(contents) >= 8
    for path in contents:
        assert f"](found/{path.name})" in text
    assert text.count("\n## ") == sum(has_difference(result) for result in report.results)


def test_terminal_names_every_probe_and_fits_its_width(report):
    text = format_report(report)
    named = {line.split()[0] for line in text if line and not line.startswith(" ")}
    assert {result.probe for result in report.results} <= named
    assert max(len(line) for line in text) <= 100
