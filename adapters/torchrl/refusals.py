"""Which ways of replaying TorchRL's losses allow; needs no TorchRL."""

from adapters.torch_common.sum_tree import missing_tree
from harness.contract.replay import Per, Replay


def refusal(algorithm: str, replay: Replay) -> str:
    """Why TorchRL cannot replay so, as the end of a sentence; empty where it can."""
    if algorithm == "r2d2":
        return (
            "it draws sequences by priorities of its own, which are "
            "hyperparameters.priority_exponent, .importance_exponent and .max_error_share"
        )
    critics = replay.critics if isinstance(replay, Per) else "mean"
    if algorithm == "sac" and critics != "max":
        return "its loss tells the larger error of its critics only, which is replay.critics=max"
    if algorithm == "td3" and critics == "net":
        return "its loss tells squared errors, which have no sign: use replay.critics=mean or max"
    return missing_tree()
