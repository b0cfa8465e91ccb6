"""Which implementations are asked."""

import sys
from collections.abc import Sequence

from harness.adapter import find_adapter, installed_adapters, load_adapter
from harness.fields import SpecError, unknown
from harness.interpreter import check_interpreter
from harness.probes.contract import Probeable
from harness.probes.fleet import Party

OTHER, HERE = "other", "here"
"""Names of the two versions of one framework."""


def find(
    names: Sequence[str] | None, python: str | None = None
) -> tuple[list[Party], dict[str, str]]:
    """The frameworks that can be asked, and why others cannot.

    Args:
        names: Frameworks asked for; None is all that are installed.
        python: Another interpreter to ask in.

    Raises:
        SpecError: A framework asked for by name is not known or cannot be asked.
    """
    parties: list[Party] = []
    not_probed: dict[str, str] = {}
    for name in names if names is not None else sorted(installed_adapters()):
        try:
            parties.append(party(name, python))
        except SpecError as error:
            if names is not None:
                raise
            not_probed[name] = str(error)
    if not parties:
        why = "; ".join(f"{name}: {text}" for name, text in not_probed.items())
        raise SpecError(f"--frameworks: there is none to ask. {why}")
    return parties, not_probed


def drifting(name: str, python: str) -> tuple[list[Party], dict[str, str]]:
    """One framework twice, in another interpreter and in this one; nothing is left out."""
    return [party(name, python, OTHER), party(name, None, HERE)], {}


def party(name: str, python: str | None = None, label: str | None = None) -> Party:
    """One framework.

    Raises:
        SpecError: It is not known, not installed or has no probing part.
    """
    known = installed_adapters()
    if name not in known:
        raise SpecError(unknown(f"--frameworks {name}", name, list(known)))
    adapter = load_adapter(name)
    if not isinstance(adapter, Probeable):
        raise SpecError(f"framework={name}: its adapter has no probing part.")
    if python is None:
        adapter.check_installed()
    else:
        check_interpreter(python, name)
    return Party(label or name, find_adapter(name).value, python or sys.executable)
