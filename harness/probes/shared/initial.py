"""Probes of what is there at the start: networks, learned numbers, target networks."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from harness.probes.lab import Lab, Run
from harness.probes.networks import NETWORKS
from harness.probes.probe import Measurement, Probe, listed, relation
from harness.probes.results import Array

SEEDS = 5
FLAT = 1e-3
"""Largest spread of singular values, as a share, that counts as orthogonal."""
Own = Callable[[Lab, int], Run]
Gains = Callable[[str, tuple[int, ...]], float]


@dataclasses.dataclass(frozen=True)
class Start:
    """What an algorithm's authors begin with.

    Attributes:
        gain: Root mean square weight of a layer, by its name and shape.
        bias: Root mean square bias times the root of the inputs; of all layers, or by name and
            inputs.
        source: Where both stand.
        orthogonal: Whether weights are orthogonal.
        sizes: Units: policy's two hidden layers, then value's or critics'; empty where there are
            none of such layers.
        size_source: Where they stand.
    """

    gain: Gains
    bias: float | Callable[[str, int], float]
    source: str
    orthogonal: bool = False
    sizes: tuple[int, ...] = ()
    size_source: str = ""


def probes(algorithm: str, own: Own, start: Start) -> Sequence[Probe]:
    """The probes of one algorithm.

    Args:
        algorithm: Name.
        own: Short trainings with the framework's own settings, by number.
        start: The authors'.
    """
    second = "value" if algorithm == "ppo" else "critic1"
    first = ("policy",) if "policy" in NETWORKS[algorithm] else ()
    layers = _layers(algorithm, second)

    def created(lab: Lab) -> list[Mapping[str, Array]]:
        return [own(lab, number).record.created for number in range(SEEDS)]

    def shapes(lab: Lab) -> Measurement:
        weights = created(lab)[0]
        names = [f"{n}.{i}.bias" for n in (*first, second) for i in (0, 1)]
        units = np.array([float(len(weights[name])) for name in names])
        return Measurement(units, np.array(start.sizes, float))

    def there(lab: Lab) -> list[str]:
        # A policy whose deviation is a parameter has no layer for it.
        return [name for name in layers if f"{name}.weight" in created(lab)[0]]

    def listing(found: Mapping[str, float]) -> Array:
        return np.array([found.get(name, np.nan) for name in layers])

    def gains(lab: Lab) -> Measurement:
        arrays = {name: [w[f"{name}.weight"] for w in created(lab)] for name in there(lab)}
        value = {name: float(np.sqrt(np.mean(np.square(a)))) for name, a in arrays.items()}
        expected = {name: start.gain(name, a[0].shape) for name, a in arrays.items()}
        return Measurement(listing(value), listing(expected))

    def biases(lab: Lab) -> Measurement:
        value = {
            name: float(np.sqrt(np.mean([_scaled_biases(w, name) ** 2 for w in created(lab)])))
            for name in there(lab)
        }
        inputs = {name: created(lab)[0][f"{name}.weight"].shape[1] for name in there(lab)}
        bias = start.bias
        due = {n: bias(n, size) if callable(bias) else bias for n, size in inputs.items()}
        return Measurement(listing(value), listing(due))

    def orthogonality(lab: Lab) -> Measurement:
        weights = {name: created(lab)[0][f"{name}.weight"] for name in there(lab)}
        found = [float(_is_orthogonal(array)) for array in weights.values() if len(array) > 1]
        return Measurement(np.array(found), np.full(len(found), float(start.orthogonal)))

    name = f"{algorithm}.{{}}".format
    hidden = [
        f"{n} layer {i}"
        for n in ("policy", "value" if second == "value" else "critic")
        for i in (1, 2)
    ]
    size = Probe(
        name("network_sizes"),
        "How many units have the hidden layers, by default?",
        start.size_source,
        "units: first and second layer of the policy, then of the "
        + ("value network" if second == "value" else "critics"),
        shapes,
        listed(hidden),
        counts=True,
    )
    return (
        *((size,) if start.sizes else ()),
        Probe(
            name("initial_weights"),
            "How large are weights at the start?",
            start.source,
            "root mean square per layer: " + ", ".join(layers),
            gains,
            listed(layers),
            tolerance=0.12,
            each=True,
        ),
        Probe(
            name("initial_biases"),
            "How large are biases at the start?",
            start.source,
            "root mean square per layer times the root of its inputs: " + ", ".join(layers),
            biases,
            listed(layers),
            # A last layer has few biases, so little is known of their spread.
            tolerance=0.7,
        ),
        Probe(
            name("initial_orthogonality"),
            "Are the weights of a layer orthogonal at the start?",
            start.source,
            "0 no, 1 yes, per layer with more than one output",
            orthogonality,
            _orthogonal_words,
            counts=True,
        ),
    )


def _layers(algorithm: str, second: str) -> list[str]:
    heads = ("mean", "std") if algorithm == "sac" else ("out",)
    policy = [f"policy.{layer}" for layer in ("0", "1", *heads)]
    return policy * ("policy" in NETWORKS[algorithm]) + [
        f"{second}.{layer}" for layer in ("0", "1", "out")
    ]


def _scaled_biases(weights: Mapping[str, Array], layer: str) -> Array:
    # Both critics are made alike, and one has but one bias in its last layer.
    twins = (f"{name}.bias" for name in (layer, layer.replace("critic1", "critic2")))
    biases = np.concatenate([weights[name] for name in twins if name in weights])
    return np.asarray(biases * np.sqrt(weights[f"{layer}.weight"].shape[1]))


def _is_orthogonal(weights: Array) -> bool:
    values = np.linalg.svd(weights, compute_uv=False)
    return bool(np.ptp(values) < FLAT * values.max())


def _orthogonal_words(comparison: object, measurement: Measurement) -> str:
    count, all_of = int(measurement.value.sum()), len(measurement.value)
    return f"{count} of {all_of} layers have orthogonal weights"


def constant_start(
    probe_name: str, question: str, source: str, own: Own, name: str, expected: float
) -> Probe:
    """A probe of a number that is learned and starts at a constant, on a log scale."""

    def measure(lab: Lab) -> Measurement:
        value = np.exp(own(lab, 0).record.created[name].ravel())
        return Measurement(value, np.full_like(value, expected))

    return Probe(probe_name, question, source, "1", measure, relation("start"))


QUESTION, START = "Do the critics differ at the start, and are", " at the start"


def _differ(weights: Mapping[str, Array]) -> float:
    return float(not np.array_equal(weights["critic1.0.weight"], weights["critic2.0.weight"]))


def target_starts(algorithm: str, own: Own, source: str) -> Probe:
    """A probe of what target networks start from."""
    there = NETWORKS[algorithm]
    copied = sorted(name for name in there if f"{name}_target" in there)
    twins = "critic2" in there

    def measure(lab: Lab) -> Measurement:
        weights = own(lab, 0).record.created
        differ = [_differ(weights)] if twins else []
        same = [
            float(all(np.array_equal(a, weights[k.replace(n, f"{n}_target", 1)]) for k, a in pairs))
            for n in copied
            for pairs in [[(k, a) for k, a in weights.items() if k.split(".")[0] == n]]
        ]
        return Measurement(np.array([*differ, *same]), np.ones(len(differ) + len(same)))

    names = tuple(f"target of the {name} is a copy" for name in copied)
    names = ("critics differ", *names) if twins else names
    return Probe(
        f"{algorithm}.initial_targets",
        f"{QUESTION if twins else 'Are'} targets copies of their networks{'' if twins else START}?",
        source,
        "0 no, 1 yes: " + ", ".join(names),
        measure,
        listed(names),
        counts=True,
    )
