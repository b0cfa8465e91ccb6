"""Replay strategies and their hyperparameters.

Each choice that the papers leave open is a field with a default; docs/reference/replay.md names
the source of each default.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from parallax.harness.contract.fields import (
    SpecError,
    bounded_field,
    build_dataclass,
    format_unknown_name,
    format_value,
)

CRITIC_REDUCTIONS = ("mean", "max", "first", "net")
"""Ways to compute a transition's error from those of several critics."""
SAMPLING_MODES = ("independent", "stratified")
WEIGHT_NORMALIZATIONS = ("batch", "none")
SMALLEST_PROBABILITIES = ("memory", "batch")
TIMESTAMP_MODES = ("stored", "replayed")


def compute_default_interval(steps: int) -> int:
    """Return the default number of environment transitions between two sweeps, or predictions.

    10,000 as in Imp-PER for DDPG, or a fiftieth of the run if that is less.
    """
    return max(1, min(10_000, steps // 50))


@dataclasses.dataclass(frozen=True)
class ReplayConfig:
    """A replay strategy.

    Attributes:
        name: Name on the command line, as `replay=<name>`.
        is_uniform: Whether it is every framework's own strategy, so that nothing is changed.
    """

    name: ClassVar[str]
    does: ClassVar[str]
    is_uniform: ClassVar[bool] = False

    def to_dict(self) -> dict[str, Any]:
        """Name and all fields as plain data, for `run.json`."""
        return {"name": self.name, **dataclasses.asdict(self)}

    @property
    def parts(self) -> list[str]:
        """Return its parts of the variant's name: name and changed values, or none if uniform."""
        if self.is_uniform:
            return []
        usual = REPLAY_CONFIGS[self.name]()
        changed = [
            f"replay.{field.name}={format_value(getattr(self, field.name)).replace(' ', '')}"
            for field in dataclasses.fields(self)
            if getattr(self, field.name) != getattr(usual, field.name)
        ]
        return [f"replay={self.name}", *changed]


@dataclasses.dataclass(frozen=True)
class UniformReplay(ReplayConfig):
    """Every transition is as likely as any other: upstream's own buffer, untouched."""

    name = "uniform"
    does = "every transition is as likely as any other"
    is_uniform = True


@dataclasses.dataclass(frozen=True)
class PrioritizedReplay(ReplayConfig):
    """Proportional prioritised replay (Schaul et al., 2016).

    Attributes:
        alpha: Exponent of priorities; 0 is uniform.
        beta: Exponent of importance weights at the start.
        beta_final: Exponent at the end of the schedule, which is linear.
        beta_steps: Environment transitions that the schedule takes; null is the whole run.
        epsilon: Added to absolute errors, in units of return.
        critics: A transition's error if there are several critics: `mean` or `max` of the absolute
            errors, that of the `first`, or the absolute value of the mean error (`net`).
        draws: `independent`, or `stratified`: one draw from each of equal segments of the sum.
        normalize: `batch` divides weights by the largest of the batch, `none` does not.
    """

    name = "per"
    does = "in proportion to the last absolute error, with importance weights"

    alpha: float = bounded_field(minimum=0, maximum=10, default=0.6)
    beta: float = bounded_field(minimum=0, maximum=1, default=0.4)
    beta_final: float = bounded_field(minimum=0, maximum=1, default=1.0)
    beta_steps: int | None = bounded_field(minimum=1, default=None)
    epsilon: float = bounded_field(minimum=0, default=1e-6)
    critics: str = bounded_field(choices=CRITIC_REDUCTIONS, default="mean")
    draws: str = bounded_field(choices=SAMPLING_MODES, default="independent")
    normalize: str = bounded_field(choices=WEIGHT_NORMALIZATIONS, default="batch")


@dataclasses.dataclass(frozen=True)
class RankReplay(PrioritizedReplay):
    """Rank-based prioritised replay (Schaul et al., 2016).

    Attributes:
        sort_every: Minibatches between two sortings of the whole memory. In between, a transition
            that was replayed has the rank that its new error would have had at the last one.
    """

    name = "rank"
    does = "by the rank of the last absolute error, with importance weights"

    alpha: float = bounded_field(minimum=0, maximum=10, default=0.7)
    beta: float = bounded_field(minimum=0, maximum=1, default=0.5)
    sort_every: int = bounded_field(minimum=1, default=100)


@dataclasses.dataclass(frozen=True)
class AtdcReplay(PrioritizedReplay):
    """Priorities corrected by a model of how errors age (ATDC-PER, Bai et al., 2019).

    Attributes:
        sweep_every: Environment transitions between two sweeps of the whole memory with the
            current networks, which the model is fitted to; null: `compute_default_interval(steps)`.
        correct_every: Minibatches between two corrections of all priorities.
    """

    name = "atdc"
    does = "as per, with all priorities predicted from the last error and its age"

    sweep_every: int | None = bounded_field(minimum=1, default=None)
    correct_every: int = bounded_field(minimum=1, default=1)


@dataclasses.dataclass(frozen=True)
class ImpReplay(PrioritizedReplay):
    """Weights corrected by the predicted sum of all real priorities (Imp-PER).

    Attributes:
        sweep_every: K: environment transitions between two sweeps of the whole memory with the
            current networks, each of which adds data for fitting the model; null is
            `compute_default_interval(steps)`.
        predict_every: D: environment transitions between two predictions of sum and minimum;
            null is the same.
        rho_sum: rho1: share of the sum that stays as it was at a prediction.
        rho_minimum: rho2: the same for the minimum.
        fragments: M: segments that the memory is cut into at the first sweeps, a pair from each.
        fragment_sweeps: Number of these first sweeps.
        stamp: The time of a transition, in environment transitions: when it was `stored`, or
            `replayed` last.
        smallest: The smallest probability, for which v is 1: the predicted one of the whole
            `memory`, as in the paper, or that of the `batch`. Until the first sweep `normalize`
            decides.
        weight_low: Smallest importance weight.
        weight_high: Largest one; null is the square root of the minibatch's size.
    """

    name = "imp"
    does = "as per, with weights corrected by the predicted sum of the real priorities"

    sweep_every: int | None = bounded_field(minimum=1, default=None)
    predict_every: int | None = bounded_field(minimum=1, default=None)
    rho_sum: float = bounded_field(minimum=0, maximum=1, default=0.3)
    rho_minimum: float = bounded_field(minimum=0, maximum=1, default=0.3)
    fragments: int = bounded_field(minimum=1, default=10)
    fragment_sweeps: int = bounded_field(minimum=0, default=3)
    stamp: str = bounded_field(choices=TIMESTAMP_MODES, default="stored")
    smallest: str = bounded_field(choices=SMALLEST_PROBABILITIES, default="memory")
    weight_low: float = bounded_field(minimum=0, default=0.0)
    weight_high: float | None = bounded_field(above=0, default=None)


REPLAY_CONFIGS: Mapping[str, type[ReplayConfig]] = {
    strategy.name: strategy
    for strategy in (UniformReplay, PrioritizedReplay, RankReplay, AtdcReplay, ImpReplay)
}
UNIFORM_REPLAY = UniformReplay()


def make_replay_config(values: Any) -> ReplayConfig:
    """Return a checked replay strategy from its name and fields; absent fields have defaults.

    Args:
        values: The name, a mapping with `name` and fields as on the command line, or one that was
            made before.

    Raises:
        SpecError: Names the field, its value and what is allowed.
    """
    if isinstance(values, ReplayConfig):
        return values
    given = {"name": values} if isinstance(values, str) else values
    if not isinstance(given, Mapping) or not isinstance(given.get("name"), str):
        raise SpecError(
            f"replay={format_value(values)} must be one of: {', '.join(REPLAY_CONFIGS)}."
        )
    name = given["name"]
    if name not in REPLAY_CONFIGS:
        raise SpecError(format_unknown_name(f"replay={name}", name, list(REPLAY_CONFIGS)))
    fields = {str(key): value for key, value in given.items() if key != "name"}
    if name == UNIFORM_REPLAY.name and fields:
        raise SpecError(
            f"replay.{next(iter(fields))} has no effect with replay=uniform, which has nothing to "
            f"set: choose replay={' or '.join(other for other in REPLAY_CONFIGS if other != name)}."
        )
    made: ReplayConfig = build_dataclass(REPLAY_CONFIGS[name], fields, "replay")
    if isinstance(made, ImpReplay) and (made.weight_high or made.weight_low) < made.weight_low:
        raise SpecError(
            f"replay.weight_high={format_value(made.weight_high)} must be at least "
            f"replay.weight_low={format_value(made.weight_low)}."
        )
    return made
