"""The batch system's job that a process is part of, as its parent process told it.

It is told by environment variables, the one way that reaches whatever a job starts, through
interpreters and forks; only this module knows their names.
"""

import dataclasses
import math
import os

_ID, _RESTART, _LIMIT = "PARALLAX_JOB", "PARALLAX_RESTART", "PARALLAX_LIMIT"
_NOTICE = "PARALLAX_NOTICE"


@dataclasses.dataclass(frozen=True)
class BatchJob:
    """A job under way.

    Attributes:
        id: The batch system's name of it, such as `77_3`.
        restart: How often the batch system had started it again.
        limit_from: When a warning can be about its time limit at the earliest, in seconds since
            1970; one that comes before is about a preemption.
        notice: Seconds from a warning to the end.
    """

    id: str
    restart: int = 0
    limit_from: float = math.inf
    notice: float = 60.0

    @classmethod
    def current(cls) -> "BatchJob | None":
        """The job that this process is part of; None outside a job."""
        if _ID not in os.environ:
            return None
        return cls(
            id=os.environ[_ID],
            restart=int(os.environ.get(_RESTART, "0")),
            limit_from=float(os.environ.get(_LIMIT, "inf")),
            notice=float(os.environ.get(_NOTICE, "60")),
        )

    def announce(self) -> None:
        """Tells this process and all that it starts from now on."""
        os.environ[_ID] = self.id
        os.environ[_RESTART] = str(self.restart)
        os.environ[_LIMIT] = str(self.limit_from)
        os.environ[_NOTICE] = str(self.notice)
