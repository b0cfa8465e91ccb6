"""Options of the verdicts that a user may set."""

import dataclasses

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
        margin_of: `scale`: the margin is a share of the way from the score of random actions to
            the published score; `score`: of the published score's size.
        failed_share: A run fails that ends below this share of the same way.
        ranges: Task, least and largest score that a run can end with, for tasks of which nothing
            is published, or in place of what is.
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

    def get_given_range(self, env: str) -> tuple[float, float] | None:
        """Return the range given for a task; None if there is none."""
        return next(((low, high) for name, low, high in self.ranges if name == env), None)

    @property
    def margin_description(self) -> str:
        """Phrase that says what margins are a share of, for the end of a sentence."""
        share = f"{self.margin_share:.0%} of "
        given = "the range given for a task, elsewhere of " if self.ranges else ""
        if self.margin_of == "score":
            return f"{share}{given}the published score"
        return f"{share}{given}the way from random actions to the published score"
