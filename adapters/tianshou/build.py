"""Tianshou's algorithms with networks as in its examples."""

from typing import Any

from tianshou.algorithm import Algorithm

from adapters.tianshou.components import Settings
from envs.tasks import Task
from harness.contract.parts import load_part


def build(algorithm: str, settings: Settings, task: Task) -> Algorithm[Any, Any]:
    """The algorithm that settings describe; draws its weights from torch's generator."""
    model: Algorithm[Any, Any] = load_part("adapters.tianshou", algorithm).build(settings, task)
    return model
