"""Run by an interpreter that has d3rlpy: the suite trains in the process that tests."""

import pytest

from parallax.harness.conformance import AdapterConformance

pytest.importorskip("d3rlpy")


class TestD3rlpyAdapter(AdapterConformance):
    framework = "d3rlpy"
