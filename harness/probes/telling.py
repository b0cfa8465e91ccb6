"""Which probes tell most, and which of them two implementations answer differently."""

from collections.abc import Callable, Sequence

from harness.probes.lab import Lab
from harness.probes.probe import Probe, put, same
from harness.probes.registry import PROBES
from harness.probes.results import Answer

FIRST = (
    *("critic_target", "gradient_source", "policy_terms", "target_update", "critic_loss_factor"),
    *("target_weights", "termination_target", "truncation_target", "counts", "gae"),
    *("policy_loss", "later_policy_loss", "value_loss_factor", "optimizer_step", "total_loss"),
    *("critic_loss", "loss_numbers", "temperature_gradient", "log_prob"),
)
"""Probes that are asked first, as they see most; the others follow in the registry's order."""
APART = (
    *FIRST,
    *("std_map", "squash_correction", "update_order", "truncation", "adam_settings"),
    *("advantages_recomputed", "critics_seen_by_policy", "target_action"),
)
"""Probes that are asked where two implementations part: of updates, and not of counts."""


def in_order(algorithm: str) -> Sequence[Probe]:
    """All probes of an algorithm, those that see most first."""
    probes = [probe for probe in PROBES if probe.algorithm == algorithm]
    last = len(FIRST)
    return sorted(probes, key=lambda p: FIRST.index(_part(p)) if _part(p) in FIRST else last)


def answer_of(lab: Lab, probe: Probe) -> Answer | None:
    """One implementation's answer; None where the probe fails."""
    try:
        return put(probe, {lab.adapter.name: lab}).answers.get(lab.adapter.name)
    except Exception:
        return None


Asked = Callable[[Probe], Answer | None]
"""Puts a probe to one implementation, with what is changed of it."""


def differing(one: Asked, other: Asked, algorithm: str) -> tuple[str, ...]:
    """Names of the probes among `APART` that two implementations answer differently.

    Args:
        one: Asks the first.
        other: Asks the second.
        algorithm: That both have.
    """
    found = []
    for probe in in_order(algorithm):
        if _part(probe) not in APART or _part(probe) == "counts":
            continue
        answers = [ask(probe) for ask in (one, other)]
        known = [a for a in answers if a is not None and not a.unmeasured]
        if len(known) == len(answers) and not same(probe, *known):
            found.append(probe.name)
    return tuple(found)


def _part(probe: Probe) -> str:
    return probe.name.split(".", 1)[1]
