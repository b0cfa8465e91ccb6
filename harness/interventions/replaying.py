"""What in upstream's text has to be another for a way of replaying, from `replay.yaml`."""

from harness.interventions.catalogue import Intervention, check_installed, from_file

FILE = "replay.yaml"


def carried_by(framework: str, algorithm: str) -> tuple[Intervention, ...]:
    """The changes with which a framework's algorithm replays otherwise than uniformly.

    They are recorded with the run as interventions are, and made as they are; nobody names them.

    Raises:
        SpecError: The file holds what is no intervention, or the installed version is another.
    """
    found = tuple(
        item for item in from_file(framework, FILE).values() if algorithm in item.algorithms
    )
    for item in found:
        check_installed(item)
    return found
