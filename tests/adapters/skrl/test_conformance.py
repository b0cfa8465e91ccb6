import pytest

from harness.conformance import AdapterConformance

pytest.importorskip("skrl")


class TestSkrl(AdapterConformance):
    framework = "skrl"
