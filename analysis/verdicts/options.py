"""Options of the verdicts that a user may set."""

import dataclasses
import functools
from collections.abc import Mapping

from parallax.analysis.stats.learning_curves import FINAL, Endpoint

FAMILIES = ("algorithm", "setting", "all")
MARGINS = ("scale", "score")


@dataclasses.dataclass(frozen=True)
class VerdictOptions:
    """Options of the verdicts; reports state them beside the results.

    Attributes:
        alpha: Level of all tests, corrected within families.
        margin_share: Equivalence margin as a share of the scale of `compute_margin`.
        family: Family of Holm's correction: all pairs of an `algorithm` in a study, the pairs of
            one `setting`, or `all` pairs; always of one variant.
        power: Power that plans of further seeds should reach.
        resamples: Bootstrap resamples for the ranking.
        seed: Seed of resamples and permutations: equal inputs give equal results.
        margin_of: `scale`: the margin is a share of the distance from the score of random actions
            to the published score; `score`: a share of the absolute published score.
        failed_share: A run that ends below this share of the same distance has failed.
        ranges: Task, least and largest score that a run can end with, for tasks without published
            scores, or to replace these.
        endpoint: Name of a `stats.endpoints.Endpoint`; empty for the one that the study's
            configuration fixed, or `final` if it fixed none.
        endpoint_source: Who chose the endpoint, in words.
        references: Task, policy without training, mean return and source, measured with the runs
            of tasks that have no published references.
    """

    alpha: float = 0.05
    margin_share: float = 0.1
    family: str = "algorithm"
    power: float = 0.8
    resamples: int = 10_000
    seed: int = 0
    margin_of: str = "scale"
    failed_share: float = 0.25
    ranges: tuple[tuple[str, float, float], ...] = ()
    endpoint: str = ""
    endpoint_source: str = ""
    references: tuple[tuple[str, str, float, str], ...] = ()

    def __post_init__(self) -> None:
        Endpoint(self.endpoint or FINAL)  # raises a ValueError here, not later

    @functools.cached_property
    def chosen_endpoint(self) -> Endpoint:
        """The endpoint that scores are of."""
        return Endpoint(self.endpoint or FINAL)

    @functools.cached_property
    def range_by_env(self) -> Mapping[str, tuple[float, float]]:
        """`ranges` by task; the first of several counts."""
        return {env: (low, high) for env, low, high in reversed(self.ranges)}

    @property
    def margin_description(self) -> str:
        """Phrase that says what margins are a share of, for the end of a sentence."""
        if self.chosen_endpoint.is_steps:
            return f"{self.margin_share:.0%} of the length of training"
        given = "the range given for a task, elsewhere of " if self.ranges else ""
        way = "" if self.margin_of == "score" else "the way from random actions to "
        return f"{self.margin_share:.0%} of {given}{way}the published or solved score"

    @property
    def zero_description(self) -> str:
        """Phrase that says what scores 0 after normalization."""
        tasks = ", ".join(sorted({env for env, *_ in self.references}))
        measured = f" (on {tasks}: or untrained policies, all as measured with the runs)"
        lowest = "doing nothing or random actions, whichever scores higher"
        return lowest + measured if tasks else lowest

    @property
    def difference_test(self) -> str:
        """Name of the test of a difference, with its article where it has one."""
        return "the log-rank test" if self.chosen_endpoint.is_steps else "Welch's test"
