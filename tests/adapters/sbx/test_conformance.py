import pytest

from parallax.harness.conformance import AdapterConformance

pytest.importorskip("sbx")


@pytest.mark.long  # JAX compiles each training again, which takes seconds each time
class TestSbx(AdapterConformance):
    framework = "sbx"
