import io
import os

import chromium
import pytest
from matplotlib.image import imread

REQUIRED = os.environ.get("PARALLAX_REQUIRE_CHROMIUM") == "1"
WIDTHS = {"desktop": 1280, "phone": 390}

pytestmark = pytest.mark.skipif(
    chromium.find() is None and not REQUIRED,
    reason="Chromium is not installed; PARALLAX_REQUIRE_CHROMIUM=1 makes this a failure",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium.browser(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(params=WIDTHS.values(), ids=WIDTHS)
def shown(request, browser, report):
    browser.open(report, request.param)
    return browser


def test_the_body_is_no_wider_than_the_screen(shown):
    page, screen = shown.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert page <= screen
    widest = shown.evaluate(
        "Math.max(...[...document.querySelectorAll('h1, h2, h3, p, li, figure, nav, .scroll')]"
        ".map((item) => item.getBoundingClientRect().right))"
    )
    assert widest <= screen


def test_page_has_no_browser_errors_and_no_external_requests(shown, report):
    assert shown.complaints() == []
    assert shown.requests() == [report.as_uri()]


def test_page_is_not_blank(shown):
    pixels = imread(io.BytesIO(shown.screenshot()))[:, :, :3]
    assert pixels.std() > 0.05
    assert shown.evaluate("document.images.length") > 20
    assert shown.evaluate("[...document.images].every((image) => image.naturalWidth > 100)")


def test_page_follows_the_dark_color_scheme(browser, report):
    brightness = []
    for dark in (False, True):
        browser.open(report, 1280, dark=dark)
        brightness.append(imread(io.BytesIO(browser.screenshot()))[:, :, :3].mean())
    assert brightness[0] > 0.85
    assert brightness[1] < 0.3


COLUMN = """[...document.querySelectorAll('#t-consistency tbody tr')].map((row) =>
    row.cells[[...document.querySelectorAll('#t-consistency th')].findIndex((head) =>
    head.textContent === 'difference')]).map((cell) => cell.dataset.v ?? cell.textContent)"""
CLICK = """[...document.querySelectorAll('#t-consistency th button')].find((button) =>
    button.textContent === 'difference').click()"""


def test_clicks_on_a_heading_sort_ascending_then_descending(browser, report):
    browser.open(report, 1280)
    browser.evaluate(CLICK)
    values = [float(text) for text in browser.evaluate(COLUMN)]
    assert values == sorted(values)
    browser.evaluate(CLICK)
    turned = [float(text) for text in browser.evaluate(COLUMN)]
    assert turned == sorted(values, reverse=True)


def visible(browser, section):
    return browser.evaluate(f"document.querySelectorAll('{section} tbody tr:not([hidden])').length")


def test_tables_fit_a_desktop_and_answers_come_first(browser, report):
    browser.open(report, 1280)
    folded = "document.querySelectorAll('details.table:not([open])').length"
    assert browser.evaluate(folded) >= 3
    first = browser.evaluate("document.querySelector('main section').id")
    assert first == "answers"
    assert browser.evaluate(
        "!!document.querySelector('#answers a[href^=\"#do-frameworks-score\"]')"
    )
    browser.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    cut = browser.evaluate(
        "[...document.querySelectorAll('.scroll')].filter((item) => item.scrollWidth > "
        "item.clientWidth + 1).map((item) => item.closest('section').id)"
    )
    assert cut == []


def test_statements_link_to_their_rows_and_runs(browser, report):
    browser.open(report, 1280)
    every = visible(browser, "#runs"), visible(browser, "#t-consistency")
    finding = "document.querySelector('.answer:nth-of-type(2) ol li')"
    groups = browser.evaluate(f"{finding}.querySelector('a.runs').dataset.groups").split()
    assert len(groups) >= 2
    browser.evaluate(f"{finding}.querySelector('a.rows').click()")
    assert 1 <= visible(browser, "#t-consistency") < every[1]
    browser.evaluate(f"{finding}.querySelector('a.runs').click()")
    shown = browser.evaluate(
        "[...document.querySelectorAll('#runs tbody tr:not([hidden])')].map((r) => r.dataset.g)"
    )
    assert set(shown) == set(groups)
    for section, number in zip(("#runs", "#t-consistency"), every, strict=True):
        browser.evaluate(f"document.querySelector('{section} button.all').click()")
        assert visible(browser, section) == number


def test_figures_fit_a_phone_and_a_tap_enlarges_them(browser, report):
    browser.open(report, 390)
    wide = "[...document.querySelectorAll('.picture')].filter((p) => p.scrollWidth > p.clientWidth)"
    assert browser.evaluate("document.querySelectorAll('.picture img').length") > 3
    assert browser.evaluate(f"{wide}.length") == 0
    browser.evaluate("document.querySelector('.picture').click()")
    assert browser.evaluate(f"{wide}.length") == 1
    browser.evaluate("document.querySelector('.picture').click()")
    assert browser.evaluate(f"{wide}.length") == 0


def test_typed_words_filter_a_table(browser, report):
    browser.open(report, 390)
    browser.evaluate(
        "(() => { const input = document.querySelector('#t-ranking input');"
        "input.value = 'hopper SB3'; input.dispatchEvent(new Event('input')); })()"
    )
    rows = browser.evaluate(
        "[...document.querySelectorAll('#t-ranking tbody tr:not([hidden])')]"
        ".map((row) => row.textContent.toLowerCase())"
    )
    assert rows
    assert all("hopper" in row and "sb3" in row for row in rows)
