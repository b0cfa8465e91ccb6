"""The published study comes out of its packed runs again: page, tables, section of the README."""

import argparse
import re
import shlex
from pathlib import Path

import pytest

from parallax.analysis.commands import publish

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "ladder" / "README.md"
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")


@pytest.fixture(scope="module")
def texts():
    (command,) = re.findall(r"^parallax study publish .*", PAGE.read_text(), re.M)
    parser = argparse.ArgumentParser()
    publish.add_arguments(parser)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        options = parser.parse_args(shlex.split(command)[3:])
        return publish.list_output_texts(options, publish.prepare_publication(options))


def split_numbers(text):
    """Return the text without numbers, and the numbers."""
    return NUMBER.sub("#", text), [float(n.replace(",", "")) for n in NUMBER.findall(text)]


def test_every_number_comes_out_again(texts):
    assert len(texts) > 20
    for path, text in texts.items():
        words, numbers = split_numbers(text)
        stored_words, stored_numbers = split_numbers((ROOT / path).read_text())
        assert words == stored_words, path
        assert numbers == pytest.approx(stored_numbers, rel=1e-6, abs=1e-9), path


def test_no_table_is_left_from_before(texts):
    tables = {ROOT / path for path in texts if path.suffix == ".csv"}
    assert tables == set((PAGE.parent / "tables").iterdir())
