"""Which ways of replaying Tianshou's own prioritised buffer has; needs no Tianshou."""

from harness.contract.replay import Per, Replay

_PROPORTIONAL = "its prioritised buffer draws in proportion to errors only"
_OTHERS = {
    "atdc": f"{_PROPORTIONAL}, and asks its networks for nothing between minibatches",
    "imp": "its buffer gives a minibatch its weights before the errors are known that correct them",
}


def refusal(algorithm: str, replay: Replay) -> str:
    """Why Tianshou's buffer cannot replay so, as the end of a sentence; empty where it can."""
    if not isinstance(replay, Per) or replay.name != "per":
        return f"{_OTHERS.get(replay.name, _PROPORTIONAL)}; replay=per is carried by that buffer"
    if replay.draws != "independent":
        return "its buffer draws independently, which is replay.draws=independent"
    if replay.normalize != "batch":
        return (
            "its weights are then in units of the smallest priority there has been; use "
            "replay.normalize=batch"
        )
    if replay.alpha == 0:
        return "its buffer takes no replay.alpha=0, which is replay=uniform"
    if algorithm in ("td3", "sac") and replay.critics != "net":
        return (
            "its critics' errors are averaged before their absolute value is taken, which is "
            "replay.critics=net"
        )
    return ""
