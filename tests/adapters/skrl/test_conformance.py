import pytest

from parallax.harness.conformance import AdapterConformance

pytest.importorskip("skrl")


class TestSkrl(AdapterConformance):
    framework = "skrl"
