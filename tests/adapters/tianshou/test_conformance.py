import pytest

from harness.conformance import AdapterConformance

pytest.importorskip("tianshou")


class TestTianshou(AdapterConformance):
    framework = "tianshou"
