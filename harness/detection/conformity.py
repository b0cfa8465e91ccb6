"""Whether the checks that every adapter must pass notice a fault in upstream's code."""

import time
from collections.abc import Callable

from harness.conformance.cadence import CadenceConformance
from harness.contract.adapter import load_adapter
from harness.detection.verdicts import CONFORMANCE, Verdict
from harness.interventions.mutants import Mutant
from harness.interventions.source import Replacement
from harness.probes.lab import quiet

CHECKS = (
    "test_updates_are_as_many_as_announced",
    "test_steps_taken_are_the_steps_reported",
    "test_what_is_announced_is_what_the_schema_defines",
)
"""Those that train and count; the others ask what a hyperparameter means, or how a run ends."""


def conformity(mutant: Mutant) -> Verdict:
    """Makes a mutant in this process and asks until a check fails.

    Args:
        mutant: What is changed; the process has upstream's own code again afterwards.
    """
    started, by = time.process_time(), ""
    load_adapter(mutant.framework)
    with Replacement([mutant.piece]).made(), quiet():
        by = next((name for name in CHECKS if _fails(mutant, name)), "")
    return Verdict(mutant.whole_name, CONFORMANCE, bool(by), by, 0, time.process_time() - started)


def _fails(mutant: Mutant, name: str) -> bool:
    suite = CadenceConformance()
    suite.framework = mutant.framework
    check: Callable[[str], None] = getattr(suite, name)
    try:
        check(mutant.algorithm)
    except Exception:
        return True
    return False
