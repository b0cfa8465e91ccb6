from parallax.harness.conformance import AdapterConformance


class TestSB3(AdapterConformance):
    framework = "sb3"
