"""What a reader may set about the verdicts."""

import dataclasses

FAMILIES = ("algorithm", "setting", "all")


@dataclasses.dataclass(frozen=True)
class Options:
    """Settings of the verdicts, stated beside them.

    Attributes:
        alpha: Level of all tests, corrected within families.
        margin_share: Margin of equivalence as a share of the reference score's size.
        family: What Holm's correction runs over: all pairs of an `algorithm` in a study, the
            pairs of one `setting`, or `all` pairs.
        power: Power asked for when seeds are planned.
        resamples: Bootstrap resamples for the ranking.
        seed: Seed of resamples and permutations: equal inputs give equal results.
    """

    alpha: float = 0.05
    margin_share: float = 0.1
    family: str = "algorithm"
    power: float = 0.8
    resamples: int = 10_000
    seed: int = 0
