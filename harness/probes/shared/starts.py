"""Probes of what else is there at the start: learned numbers and target networks."""

import numpy as np

from harness.probes import words
from harness.probes.lab import Lab
from harness.probes.probe import Measurement, Probe
from harness.probes.shared.initial import Own


def constant(
    probe_name: str, question: str, source: str, own: Own, name: str, expected: float
) -> Probe:
    """A probe of a number that is learned and starts at a constant, on a log scale."""

    def measure(lab: Lab) -> Measurement:
        value = np.exp(own(lab, 0).record.created[name].ravel())
        return Measurement(value, np.full_like(value, expected))

    return Probe(probe_name, question, source, "1", measure, words.relation("start"))


def targets(algorithm: str, own: Own, source: str) -> Probe:
    """A probe of what target networks start from."""
    copied = ("critic1", "critic2") + (("policy",) if algorithm == "td3" else ())

    def measure(lab: Lab) -> Measurement:
        weights = own(lab, 0).record.created
        differ = float(not np.array_equal(weights["critic1.0.weight"], weights["critic2.0.weight"]))
        same = [
            float(all(np.array_equal(a, weights[k.replace(n, f"{n}_target", 1)]) for k, a in pairs))
            for n in copied
            for pairs in [[(k, a) for k, a in weights.items() if k.split(".")[0] == n]]
        ]
        return Measurement(np.array([differ, *same]), np.ones(1 + len(same)))

    names = ("critics differ", *(f"target of the {name} is a copy" for name in copied))
    return Probe(
        f"{algorithm}.initial_targets",
        "Do the critics differ at the start, and are targets copies of their networks?",
        source,
        "0 no, 1 yes: " + ", ".join(names),
        measure,
        words.listed(names),
        counts=True,
    )
