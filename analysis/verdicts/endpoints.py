"""The endpoint of a study: as its configuration fixed it, unless a command names another."""

import collections
import dataclasses

from parallax.analysis.data.runs import LoadedRuns
from parallax.analysis.stats.endpoints import FINAL
from parallax.analysis.verdicts.options import VerdictOptions


def get_recorded_endpoints(loaded: LoadedRuns) -> dict[str, int]:
    """Return the endpoints that runs were started with, and their numbers of runs.

    Runs recorded before there was a choice have `final`.
    """
    return dict(collections.Counter(str(run.spec.get("endpoint") or FINAL) for run in loaded.runs))


def settle_endpoint(loaded: LoadedRuns, options: VerdictOptions) -> VerdictOptions:
    """Return options with an endpoint, and the reason why it is this one.

    An endpoint fixed before the runs is a plan; one that is chosen when results are known is a
    look for what is significant, and every page says which of the two it is.

    Args:
        loaded: Runs of studies.
        options: Its `endpoint` is used where it is not empty.

    Raises:
        ValueError: There is no endpoint of that name.
    """
    if options.endpoint_source:
        return options
    found = get_recorded_endpoints(loaded)
    recorded = next(iter(found)) if len(found) == 1 else FINAL
    if options.endpoint and (options.endpoint != recorded or len(found) > 1):
        fixed = " and ".join(sorted(found)) or FINAL
        source = f"chosen for this report; the study's configuration has {fixed}"
    elif len(found) > 1:
        source = f"runs were started with different endpoints: {', '.join(sorted(found))}"
    else:
        source = "fixed in the study's configuration"
    chosen = dataclasses.replace(
        options, endpoint=options.endpoint or recorded, endpoint_source=source
    )
    _ = chosen.chosen_endpoint  # a name that is not known is an error here, not later
    return chosen
