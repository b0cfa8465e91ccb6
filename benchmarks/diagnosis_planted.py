"""Faults in the frameworks' own code, and which check should find each.

A mutant is named by its operator and a part of the text that it changes, since its number depends
on upstream's version; `parallax intervention list --kind mutants --frameworks F --algorithms A
--all` shows them all.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Planted:
    """One fault.

    Attributes:
        framework: Framework whose code it changes.
        algorithm: Algorithm that uses this code.
        words: Description of the fault.
        check: Check that should find it; several are joined by `|`, and any of them counts.
        operator: Operator of the mutant; empty if `piece` is an intervention of the catalogue.
        piece: Part of the text that is replaced, or the intervention's name.
        nth: Which of the matching mutants, from 0.
        task: Task, if not the algorithm's first one.
    """

    framework: str
    algorithm: str
    words: str
    check: str
    operator: str
    piece: str
    nth: int = 0
    task: str = ""


_MASK, _SWAP, _ZERO, _OUT = "drop-mask", "swap-networks", "drop-zero-grad", "drop-statement"
_ENDS = "targets do not mind ends"
_ONLINE = "the trained network in targets"
_LEFT = "no zero_grad"
_NO_TARGET = "the target network is not updated"
_NO_STEP = "the optimiser does not step"
_LARGER = "the larger of two critics in targets"
_HALF = "half of gamma"
T, L, S, A = (
    "wrong-targets-matched",
    "uncleared-gradients",
    "weights-not-updated",
    "target-not-updated",
)

PLANTED = tuple(
    Planted(*entry)
    for entry in (
        ("sb3", "dqn", _ENDS, T, _MASK, "(1 - replay_data.dones)"),
        ("sb3", "dqn", _ONLINE, T, _SWAP, "q_net_target"),
        ("sb3", "dqn", _LEFT, L, _ZERO, "zero_grad"),
        ("sb3", "dqn", _NO_STEP, S, _OUT, "optimizer.step()"),
        ("sb3", "dqn", _NO_TARGET, A, _OUT, "polyak_update(self.q_net.parameters"),
        ("sb3", "td3", _LARGER, T, "swap-min-max", "min"),
        ("sb3", "td3", "the actor's optimiser does not step", S, _OUT, "actor.optimizer.step()"),
        (
            "sb3",
            "td3",
            "the critics' targets are not updated",
            A,
            _OUT,
            "polyak_update(self.critic",
        ),
        ("sb3", "sac", _ENDS, T, _MASK, "(1 - replay_data.dones)"),
        (
            "sb3",
            "ppo",
            "gamma is half in the sum of deltas",
            "wrong-returns-matched",
            "scale-constant",
            "self.gamma",
        ),
        ("sb3", "ppo", _LEFT, L, _ZERO, "zero_grad"),
        (
            "sb3",
            "ppo",
            "no returns are stored",
            "wrong-advantages-matched",
            _OUT,
            "self.returns = self.adv",
        ),
        ("cleanrl", "dqn", _ENDS, T, _MASK, "args.gamma * target_max"),
        ("cleanrl", "dqn", _LEFT, L, _ZERO, "zero_grad"),
        (
            "cleanrl",
            "dqn",
            "no gradients are computed",
            "unreached-parameters",
            _OUT,
            "loss.backward()",
        ),
        ("cleanrl", "td3", _ENDS, T, _MASK, "(1 - data.dones"),
        ("cleanrl", "td3", _LARGER, T, "swap-min-max", "min"),
        ("cleanrl", "ddpg", _ONLINE, T, _SWAP, "qf1_target"),
        ("cleanrl", "sac", _ENDS, T, _MASK, "(1 - data.dones"),
        (
            "cleanrl",
            "ppo",
            "deltas do not mind ends",
            "wrong-returns-matched",
            _MASK,
            "args.gamma * nextvalues",
        ),
        (
            "cleanrl",
            "ppo",
            "half of lambda",
            "wrong-returns-matched",
            "scale-constant",
            "args.gae_lambda",
        ),
        (
            "cleanrl",
            "ppo",
            "no advantages are stored",
            "wrong-returns-matched",
            _OUT,
            "advantages[t] =",
        ),
        ("tianshou", "dqn", _ENDS, T, _MASK, "target_q_IA"),
        ("tianshou", "ddpg", _ONLINE, T, _SWAP, "critic_old"),
        ("tianshou", "ddpg", _NO_TARGET, A, _OUT, "self._update_lagged_network_weights()"),
        ("tianshou", "ddpg", _HALF, T, "scale-constant", "gamma"),
        ("tianshou", "ppo", "estimates do not mind ends", "wrong-returns-matched", _MASK, "v_s_"),
        ("torchrl", "dqn", _ENDS, T, _MASK, "gamma * not_terminated"),
        ("torchrl", "dqn", _NO_TARGET, A, _OUT, "components.targets.step()"),
        ("torchrl", "td3", _ENDS, T, _MASK, "gamma * not_terminated"),
        ("torchrl", "sac", _LEFT, L, _ZERO, "zero_grad"),
        ("torchrl", "ppo", _HALF, "wrong-returns-matched", "scale-constant", "gamma", 3),
        ("sb3", "ddpg", "reward-times-10", T, "", "reward-times-10"),
        ("sb3", "ddpg", "no-timeout-bootstrap", T, "", "no-timeout-bootstrap", 0, "Pendulum-v1"),
    )
)


def intervention(one: Planted) -> str:
    """Return its name on the command line."""
    if not one.operator:
        return one.piece
    from parallax.harness.contract.adapter import load_adapter
    from parallax.harness.interventions.mutants import load_mutants

    fitting = [
        mutant
        for mutant in load_mutants(load_adapter(one.framework), one.algorithm)
        if mutant.operator == one.operator and one.piece in mutant.before
    ]
    return fitting[one.nth].name
