from parallax.harness.conformance import AdapterConformance


class TestCleanRL(AdapterConformance):
    framework = "cleanrl"
