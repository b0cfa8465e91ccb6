from parallax.harness.conformance import AdapterConformance


class TestTorchRL(AdapterConformance):
    framework = "torchrl"
