"""Names of frameworks and algorithms as people spell them."""

from parallax.harness.contract.algorithms import ALGORITHMS

FRAMEWORK_LABELS = {
    "cleanrl": "CleanRL",
    "sb3": "SB3",
    "torchrl": "TorchRL",
    "tianshou": "Tianshou",
    "skrl": "skrl",
    "sbx": "sbx",
}
"""Labels of the frameworks with an adapter here, by name."""


def get_label(name: str) -> str:
    """Return the label of a framework, of an own script in its place, or of an algorithm.

    Names without a label, as those of other packages' adapters, stay as they are.
    """
    framework, _, script = name.partition("@")
    algorithm = ALGORITHMS.get(framework)
    label = FRAMEWORK_LABELS.get(framework, algorithm.label if algorithm else framework)
    return f"{label} ({script})" if script else label
