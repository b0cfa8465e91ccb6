"""Names of frameworks, algorithms and recipes as people spell them."""

FRAMEWORK_LABELS = {
    "cleanrl": "CleanRL",
    "sb3": "SB3",
    "torchrl": "TorchRL",
    "tianshou": "Tianshou",
    "skrl": "skrl",
    "sbx": "sbx",
}
"""Labels of the frameworks with an adapter here, by name."""
_ALGORITHM_LABELS = {
    "ppo": "PPO",
    "td3": "TD3",
    "sac": "SAC",
    "dqn": "DQN",
    "r2d2": "R2D2",
    "ddpg": "DDPG",
}
LIBRARY_DEFAULTS = "library defaults"
"""Label of the own recipes of all frameworks together, which no recipe can have as its name."""


def get_label(name: str) -> str:
    """Return the label of a framework, of an own script in its place, or of an algorithm.

    Names without a label, such as those of other packages' adapters, are returned unchanged.
    """
    framework, _, script = name.partition("@")
    label = (FRAMEWORK_LABELS | _ALGORITHM_LABELS).get(framework, framework)
    return f"{label} ({script})" if script else label
