import pytest

from parallax.harness.conformance import AdapterConformance

pytest.importorskip("tianshou")


class TestTianshou(AdapterConformance):
    framework = "tianshou"
