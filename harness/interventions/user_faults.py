"""The fifteen operators of muPRL's Table II: mistakes that users make when they train an agent.

Each changes a hyperparameter of the unified schema, the training task, or an option of the run.
Ranges of values are those of the reference (testingautomated-usi/muPRL, `mutants/`), where it has
the operator; for the seven operators that it leaves out, this project chose the ranges.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError

DrawValue = Callable[[np.random.RandomState, int], float]
"""Draws a value as the reference does, from a generator, for a number of environment steps."""

_MAX_DRAWS = 1000


@dataclasses.dataclass(frozen=True)
class FaultOperator:
    """An operator of typical user mistakes.

    Attributes:
        id: Name from the paper, in lower case.
        does: Description, a sentence.
        field: Hyperparameter that it changes, or an empty string.
        layer: Wrapper that it puts around the training task, and its argument, or empty strings.
        option: Option of a run that it changes if it changes neither of these, or an empty string;
            its values are for the command line.
        why_not: Why it is not implemented here; empty if it is.
        draw: Draws a value from its range; None if it has no value.
        continuous: Whether the paper defines it for algorithms with continuous actions only.
        in_reference: Whether the reference's tool has it.
    """

    id: str
    does: str
    field: str = ""
    layer: tuple[str, str] = ("", "")
    option: str = ""
    why_not: str = ""
    draw: DrawValue | None = None
    continuous: bool = False
    in_reference: bool = True


def _draw_from(*values: float) -> DrawValue:
    return lambda generator, steps: values[int(generator.choice(len(values)))]


def _draw_step_share(*percents: float) -> DrawValue:
    shares = _draw_from(*percents)
    return lambda generator, steps: max(int(shares(generator, steps) * steps / 100), 1)


def _draw_share(generator: np.random.RandomState, steps: int) -> float:
    return round(float(generator.uniform(0, 1)), 2)


def _draw_entropy_coefficient(generator: np.random.RandomState, steps: int) -> float:
    # At least 0.01, so that it is not rounded to 0.
    return round(float(np.exp(generator.uniform(np.log(0.01), np.log(0.2)))), 2)


_STEP_PERCENTS = tuple(range(10, 100, 5))
_LEARNING_START_PERCENTS = (0.5, 1, *range(5, 55, 5))
FAULT_OPERATORS: Mapping[str, FaultOperator] = {
    fault.id: fault
    for fault in (
        FaultOperator(
            "sdf",
            "Changes the discount factor.",
            field="gamma",
            draw=_draw_from(0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999),
        ),
        FaultOperator(
            "spr",
            "Makes the training task's rewards sparse: it gives the sum of several steps at once.",
            layer=("parallax.envs.changed:SparseReward", "every"),
            draw=_draw_from(2, 5, 10, 20, 50, 100),
            in_reference=False,
        ),
        FaultOperator(
            "srs",
            "Changes the scale of the training task's rewards.",
            layer=("parallax.envs.changed:ScaledReward", "factor"),
            draw=_draw_from(0.001, 0.01, 0.1, 10, 100, 1000),
            in_reference=False,
        ),
        FaultOperator(
            "snr",
            "Changes the number of steps of a rollout.",
            field="rollout_steps",
            draw=_draw_from(*(2**power for power in range(1, 12)), 3072),
        ),
        FaultOperator(
            "sls",
            "Changes when learning starts.",
            field="learning_starts",
            draw=_draw_step_share(*_LEARNING_START_PERCENTS),
        ),
        FaultOperator(
            "nei", "Trains for fewer steps.", option="steps", draw=_draw_step_share(*_STEP_PERCENTS)
        ),
        FaultOperator(
            "nrs",
            "Starts every training episode from the same state.",
            layer=("parallax.envs.changed:FixedStart", ""),
            in_reference=False,
        ),
        FaultOperator(
            "mna",
            "Removes the normalization of actions.",
            why_not="every framework maps actions to the task's range in code that acts, learns "
            "and evaluates; without it, a policy cannot be evaluated on the unchanged task",
            in_reference=False,
        ),
        FaultOperator(
            "mno",
            "Removes the normalization of observations from originals with wrappers=normalized.",
            option="wrappers",
            in_reference=False,
        ),
        FaultOperator(
            "sec",
            "Changes the entropy coefficient.",
            field="ent_coef",
            draw=_draw_entropy_coefficient,
        ),
        FaultOperator(
            "snu",
            "Changes how often the target network is updated.",
            field="target_update_interval",
            draw=_draw_step_share(0.5, 1, 5, 10, 15, 20, 25, 30),
        ),
        FaultOperator(
            "spv",
            "Changes the weight of the online network in a target update.",
            field="tau",
            draw=_draw_from(0.0005, 0.0008, 0.001, 0.005, 0.01, 0.02, 0.05, 0.08, 0.1, 0.12),
            continuous=True,
        ),
        FaultOperator(
            "sbs",
            "Changes the size of the replay buffer.",
            field="buffer_size",
            draw=_draw_step_share(0.5, 1, 5, 10, 25, 50),
            in_reference=False,
        ),
        FaultOperator(
            "smr",
            "Changes the fraction of random actions at the end of exploration.",
            field="exploration_final",
            draw=_draw_share,
        ),
        FaultOperator(
            "ser",
            "Changes the fraction of random actions at the start of exploration.",
            field="exploration_initial",
            draw=_draw_share,
            in_reference=False,
        ),
    )
}
"""Operators by name, in the paper's order."""

_FAULT_NAME = re.compile(rf"({'|'.join(FAULT_OPERATORS)})(?:-([0-9]*\.?[0-9]+(?:e-?[0-9]+)?))?")


@dataclasses.dataclass(frozen=True)
class FaultInstance:
    """A fault with its value.

    Attributes:
        fault: The operator.
        value: Value that it sets; None if it has none.
    """

    fault: FaultOperator
    value: float | None

    @property
    def name(self) -> str:
        """Name on the command line: `sdf-0.9`, `nrs`."""
        return (
            self.fault.id
            if self.value is None
            else f"{self.fault.id}-{format_fault_value(self.value)}"
        )

    @property
    def does(self) -> str:
        """Return the description of the change, a sentence."""
        value = "" if self.value is None else f" with value {format_fault_value(self.value)}"
        return f"muPRL's {self.fault.id.upper()}{value}. {self.fault.does}"

    @property
    def set(self) -> dict[str, Any]:
        """Hyperparameters that it sets."""
        return {self.fault.field: _simplify_number(self.value)} if self.fault.field else {}

    @property
    def wrap(self) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """Wrappers that it puts around the training task."""
        layer, argument = self.fault.layer
        if not layer:
            return ()
        given = {argument: _simplify_number(self.value)} if argument else {"seed": 0}
        return ((layer, given),)


def format_fault_value(value: float) -> str:
    """Format a value for a name: whole numbers without a decimal point."""
    return str(_simplify_number(value))


def _simplify_number(value: float | None) -> Any:
    return int(value) if value is not None and float(value).is_integer() else value


def is_fault_name(name: str) -> bool:
    """Return whether a name has the form of a user fault's name."""
    return _FAULT_NAME.fullmatch(name) is not None


def parse_fault(name: str, algorithm: str) -> FaultInstance:
    """Return the fault with a name.

    Raises:
        SpecError: Its value is missing or superfluous, or it cannot be used with the algorithm.
    """
    match = _FAULT_NAME.fullmatch(name)
    assert match is not None, name
    fault, text = FAULT_OPERATORS[match[1]], match[2]
    if fault.option:
        raise SpecError(
            f"intervention={name}: {fault.id} is requested by {fault.option}=..., as its own run, "
            "and is not an intervention."
        )
    if fault.why_not:
        raise SpecError(f"intervention={name} is not available: {fault.why_not}.")
    if not supports_algorithm(fault, algorithm):
        fitting = [other for other in ALGORITHMS if supports_algorithm(fault, other)]
        raise SpecError(
            f"intervention={name} is for algorithm={' or '.join(fitting)}, not for {algorithm}."
        )
    if (text is None) != (fault.draw is None):
        hint = f"write {fault.id}-VALUE" if text is None else f"write {fault.id}"
        raise SpecError(f"intervention={name}: {hint}.")
    found = FaultInstance(fault, None if text is None else float(text))
    if found.name != name:
        raise SpecError(f"intervention={name}: write {found.name}.")
    return found


def supports_algorithm(fault: FaultOperator, algorithm: str) -> bool:
    """Return whether a fault can be used with an algorithm."""
    fields = {field.name for field in dataclasses.fields(ALGORITHMS[algorithm])}
    fits = not fault.continuous or ALGORITHMS[algorithm].actions == "continuous"
    return fits and (not fault.field or fault.field in fields)


def draw_values(
    fault: FaultOperator, original: float | None, steps: int, size: int, seed: int
) -> list[float]:
    """Draw distinct values from a fault's range that differ from the original's.

    Values are drawn as in the reference, from NumPy's legacy generator with this seed; with seed 0,
    the first values of the discount are 0.9, 0.45 and 0.7.

    Args:
        fault: The operator.
        original: Value of the original; None if it has no such number.
        steps: Environment steps of the original.
        size: Number of values; fewer are returned if the range has fewer.
        seed: Seed of the generator.
    """
    if fault.draw is None:
        return []
    generator, found = np.random.RandomState(seed), list[float]()
    for _ in range(_MAX_DRAWS):
        if len(found) == size:
            break
        value = fault.draw(generator, steps)
        if value != original and value not in found:
            found.append(value)
    return found


def list_fault_names(
    faults: Sequence[FaultOperator], original: Any, steps: int, size: int, seed: int
) -> list[str]:
    """List the interventions of a study: up to `size` values of each fault."""
    found: list[str] = []
    for fault in faults:
        if fault.draw is None:
            found.append(FaultInstance(fault, None).name)
        values = draw_values(fault, getattr(original, fault.field, None), steps, size, seed)
        found += [FaultInstance(fault, value).name for value in values]
    return found
