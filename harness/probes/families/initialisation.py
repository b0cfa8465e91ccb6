"""Probes of initial networks, initial learned constants and initial target networks."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from parallax.harness.contract.adapter import Array
from parallax.harness.probes.experiment_setups import OffPolicyRuns
from parallax.harness.probes.experiments import ExperimentCache, ProbeRun
from parallax.harness.probes.probe import (
    NETWORKS,
    Probe,
    ProbeMeasurement,
    make_entry_description,
    make_relation_description,
)
from parallax.harness.probes.reference_networks import NETWORK_NAMES, POLICY_HEADS

N_SEEDS = 5
ORTHOGONALITY_TOLERANCE = 1e-3
"""Largest spread of singular values, as a share, that counts as orthogonal."""
RunDefaults = Callable[[ExperimentCache, int], ProbeRun]
ComputeGain = Callable[[str, tuple[int, ...]], float]


@dataclasses.dataclass(frozen=True)
class InitialNetworks:
    """Initial networks of an algorithm's authors.

    Attributes:
        gain: Root mean square weight of a layer, by its name and shape.
        bias: Root mean square bias times the root of the inputs; of all layers, or by name and
            inputs.
        source: Citation of both.
        orthogonal: Whether weights are orthogonal.
        sizes: Units of the policy's two hidden layers, then of the value network's or critics';
            empty if there are no such layers.
        size_source: Citation of the sizes.
    """

    gain: ComputeGain
    bias: float | Callable[[str, int], float]
    source: str
    orthogonal: bool = False
    sizes: tuple[int, ...] = ()
    size_source: str = ""


def make_initialization_probes(
    algorithm: str, own: RunDefaults, start: InitialNetworks
) -> Sequence[Probe]:
    """Return the probes of one algorithm's initial networks.

    Args:
        algorithm: Name of the algorithm.
        own: Short trainings with the framework's own settings, by number.
        start: The authors' initial networks.
    """
    second = "value" if "value" in NETWORK_NAMES[algorithm] else "critic1"
    first = ("policy",) if "policy" in NETWORK_NAMES[algorithm] else ()
    layers = _list_layers(algorithm, second)

    def list_weights(cache: ExperimentCache) -> list[Mapping[str, Array]]:
        return [own(cache, number).record.created for number in range(N_SEEDS)]

    def measure_sizes(cache: ExperimentCache) -> ProbeMeasurement:
        weights = list_weights(cache)[0]
        names = [f"{n}.{i}.bias" for n in (*first, second) for i in (0, 1)]
        units = np.array([float(len(weights[name])) for name in names])
        return ProbeMeasurement(units, np.array(start.sizes, float))

    def list_layers(cache: ExperimentCache) -> list[str]:
        # A policy whose standard deviation is a parameter has no layer for it.
        return [name for name in layers if f"{name}.weight" in list_weights(cache)[0]]

    def to_array(found: Mapping[str, float]) -> Array:
        return np.array([found.get(name, np.nan) for name in layers])

    def measure_gains(cache: ExperimentCache) -> ProbeMeasurement:
        arrays = {
            name: [w[f"{name}.weight"] for w in list_weights(cache)] for name in list_layers(cache)
        }
        value = {name: float(np.sqrt(np.mean(np.square(a)))) for name, a in arrays.items()}
        expected = {name: start.gain(name, a[0].shape) for name, a in arrays.items()}
        return ProbeMeasurement(to_array(value), to_array(expected))

    def measure_biases(cache: ExperimentCache) -> ProbeMeasurement:
        value = {
            name: float(
                np.sqrt(np.mean([_scale_biases(w, name) ** 2 for w in list_weights(cache)]))
            )
            for name in list_layers(cache)
        }
        inputs = {
            name: list_weights(cache)[0][f"{name}.weight"].shape[1] for name in list_layers(cache)
        }
        bias = start.bias
        due = {n: bias(n, size) if callable(bias) else bias for n, size in inputs.items()}
        return ProbeMeasurement(to_array(value), to_array(due))

    def measure_orthogonality(cache: ExperimentCache) -> ProbeMeasurement:
        weights = {name: list_weights(cache)[0][f"{name}.weight"] for name in list_layers(cache)}
        found = [float(_is_orthogonal(array)) for array in weights.values() if len(array) > 1]
        return ProbeMeasurement(np.array(found), np.full(len(found), float(start.orthogonal)))

    name = f"{algorithm}.{{}}".format
    hidden = [
        f"{n} layer {i}"
        for n in ("policy", "value" if second == "value" else "critic")
        for i in (1, 2)
    ]
    size = Probe(
        name("network_sizes"),
        "How many units do the hidden layers have by default?",
        start.size_source,
        "units: first and second layer of the policy, then of the "
        + ("value network" if second == "value" else "critics"),
        measure_sizes,
        make_entry_description(hidden),
        counts=True,
        part=NETWORKS,
    )
    return (
        *((size,) if start.sizes else ()),
        Probe(
            name("initial_weights"),
            "How large are weights at the start?",
            start.source,
            "root mean square per layer: " + ", ".join(layers),
            measure_gains,
            make_entry_description(layers),
            tolerance=0.12,
            has_own_units=True,
            part=NETWORKS,
        ),
        Probe(
            name("initial_biases"),
            "How large are biases at the start?",
            start.source,
            "root mean square per layer times the root of its inputs: " + ", ".join(layers),
            measure_biases,
            make_entry_description(layers),
            tolerance=0.2,
            # A last layer has few biases, so their spread is uncertain.
            tolerances=tuple(0.2 if layer.split(".")[1] in "01" else 0.7 for layer in layers),
            part=NETWORKS,
        ),
        Probe(
            name("initial_orthogonality"),
            "Are the weights of a layer orthogonal at the start?",
            start.source,
            "0 no, 1 yes, per layer with more than one output",
            measure_orthogonality,
            _describe_orthogonality,
            counts=True,
            part=NETWORKS,
        ),
    )


def _list_layers(algorithm: str, second: str) -> list[str]:
    heads = POLICY_HEADS.get(algorithm, ("out",))
    policy = [f"policy.{layer}" for layer in ("0", "1", *heads)]
    others = [f"{second}.{layer}" for layer in ("0", "1", "out")]
    return policy + others if "policy" in NETWORK_NAMES[algorithm] else others


def _scale_biases(weights: Mapping[str, Array], layer: str) -> Array:
    # Both critics are initialised alike, and each has only one bias in its last layer.
    twins = (f"{name}.bias" for name in (layer, layer.replace("critic1", "critic2")))
    biases = np.concatenate([weights[name] for name in twins if name in weights])
    return np.asarray(biases * np.sqrt(weights[f"{layer}.weight"].shape[1]))


def _is_orthogonal(weights: Array) -> bool:
    values = np.linalg.svd(weights, compute_uv=False)
    return bool(np.ptp(values) < ORTHOGONALITY_TOLERANCE * values.max())


def _describe_orthogonality(comparison: object, measurement: ProbeMeasurement) -> str:
    count, all_of = int(measurement.value.sum()), len(measurement.value)
    return f"{count} of {all_of} layers have orthogonal weights"


def make_initial_constant_probe(
    probe_name: str, question: str, source: str, own: RunDefaults, name: str
) -> Probe:
    """Return the probe of a learned number that starts at 1 and is learned on a log scale."""

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        value = np.exp(own(cache, 0).record.created[name].ravel())
        return ProbeMeasurement(value, np.ones_like(value))

    return Probe(
        probe_name,
        question,
        source,
        "1",
        measure,
        make_relation_description("start"),
        part=NETWORKS,
    )


def _is_target_copy(weights: Mapping[str, Array], network: str) -> bool:
    own = {name: array for name, array in weights.items() if name.split(".")[0] == network}
    return all(
        np.array_equal(array, weights[name.replace(network, f"{network}_target", 1)])
        for name, array in own.items()
    )


def make_initial_target_probe(runs: OffPolicyRuns, source: str) -> Probe:
    """Return the probe of initial target networks."""
    there = NETWORK_NAMES[runs.algorithm]
    copied = sorted(name for name in there if f"{name}_target" in there)
    twins = "critic2" in there

    def measure(cache: ExperimentCache) -> ProbeMeasurement:
        weights = runs.run_library_defaults(cache).record.created
        critics = [weights[f"critic{i}.0.weight"] for i in (1, 2)] if twins else []
        differ = [float(not np.array_equal(critics[0], critics[1]))] if twins else []
        same = [float(_is_target_copy(weights, network)) for network in copied]
        return ProbeMeasurement(np.array([*differ, *same]), np.ones(len(differ) + len(same)))

    names = tuple(f"target of the {name} is a copy" for name in copied)
    names = ("critics differ", *names) if twins else names
    return Probe(
        f"{runs.algorithm}.initial_targets",
        "Do the critics differ at the start, and are targets copies of their networks?"
        if twins
        else "Are targets copies of their networks at the start?",
        source,
        "0 no, 1 yes: " + ", ".join(names),
        measure,
        make_entry_description(names),
        counts=True,
        part=NETWORKS,
    )
