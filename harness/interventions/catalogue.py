"""Interventions: changes of exactly one thing, as data, and where they are found.

They stand in files `interventions.yaml`: this project's own beside this module, for what every
framework has, and one in the package of each adapter, for that framework's own code.
"""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from parallax.harness.contract.adapter import (
    find_adapter_entry_point,
    find_adapter_entry_points,
    find_adapter_folder,
)
from parallax.harness.contract.algorithms import ALGORITHMS, describe_owning_algorithms
from parallax.harness.contract.fields import SpecError, build_dataclass, format_unknown_name
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR, NO_INTERVENTION
from parallax.harness.interventions import user_faults
from parallax.harness.interventions.mutants import (
    MUTANT_PREFIX,
    CodeMutant,
    find_mutant,
    is_mutant_name,
)
from parallax.harness.interventions.source import (
    SourceReplacement,
    SourceSegment,
    describe_overlap,
    find_module_file,
    locate_segment,
)
from parallax.harness.interventions.user_faults import FaultInstance, is_fault_name, parse_fault

INTERVENTIONS_FILE = "interventions.yaml"
_ENTRY_KEYS = {"does", "algorithms", "frameworks", "set", "wrap", "source", "answers"}
_SEGMENT_KEYS = {"module", "function", "find", "replace"}


@dataclasses.dataclass(frozen=True)
class Intervention:
    """One change.

    Attributes:
        name: Its name on the command line.
        does: What it does, in a sentence.
        frameworks: That it is for.
        algorithms: That it is for.
        set: Hyperparameters that it sets, in the unified schema.
        wrap: Layers around the training task, from the inside: `module:Class` and keyword
            arguments of each.
        source: Pieces of upstream's text that it replaces.
        answers: What probes answer then: `as in the paper`, `as in FRAMEWORK`, other words that
            the answer is told in, or a number or list of numbers.
        file: Where it stands.
    """

    name: str
    does: str
    frameworks: tuple[str, ...]
    algorithms: tuple[str, ...]
    set: Mapping[str, Any]
    wrap: tuple[tuple[str, Mapping[str, Any]], ...]
    source: tuple[SourceSegment, ...]
    answers: Mapping[str, Any]
    file: Path

    @property
    def kind(self) -> str:
        """`source`, `environment` or `hyperparameter`, by the deepest thing that it changes."""
        if self.source:
            return "source"
        return "environment" if self.wrap else "hyperparameter"

    def told(self) -> dict[str, Any]:
        """Its full text as plain data, for `run.json`."""
        return {
            "does": self.does,
            "set": dict(self.set),
            "wrap": [{"layer": layer, **arguments} for layer, arguments in self.wrap],
            "source": [dataclasses.asdict(piece) for piece in self.source],
        }


def resolve_interventions(text: str, framework: str, algorithm: str) -> tuple[Intervention, ...]:
    """The interventions that a run names.

    Args:
        text: `none`, or names with `+` between them.
        framework: Of the run.
        algorithm: Of the run.

    Raises:
        SpecError: One is not known, not for this framework or algorithm, not in the installed
            version, or touches what another one touches.
    """
    if text == NO_INTERVENTION:
        return ()
    named = [
        _find_for_run(name, framework, algorithm) for name in text.split(INTERVENTION_SEPARATOR)
    ]
    twice = [item.name for item in named if named.count(item) > 1]
    if twice:
        raise SpecError(f"intervention={text} names {twice[0]} twice.")
    fields = [(field, item.name) for item in named for field in item.set]
    for number, (field, name) in enumerate(fields):
        for other, second in fields[:number]:
            if field == other:
                raise SpecError(f"intervention={text}: {second} and {name} both set {field}.")
    return combine_interventions(named)


def combine_interventions(made: Sequence[Intervention]) -> tuple[Intervention, ...]:
    """Interventions that are made in one run.

    Raises:
        SpecError: Two of them change the same piece.
    """
    if clash := describe_overlap([(item.name, piece) for item in made for piece in item.source]):
        raise SpecError(
            f"intervention={INTERVENTION_SEPARATOR.join(item.name for item in made)}: {clash}."
        )
    return tuple(made)


def load_interventions_from(framework: str, file: str) -> tuple[Intervention, ...]:
    """Load another file of the same form beside an adapter; empty where there is none."""
    path = _find_package_folder(framework) / file
    if not path.is_file():
        return ()
    return _load_intervention_files(framework, ((path, path.stat().st_mtime_ns),))


def check_segments_installed(item: Intervention) -> None:
    """Makes sure that what an intervention replaces is in the installed version.

    Raises:
        SpecError: A piece is not there.
    """
    for piece in item.source:
        try:
            locate_segment(piece)
        except SpecError as error:
            raise SpecError(f"intervention={item.name} cannot be made: {error}") from error


def _find_for_run(name: str, framework: str, algorithm: str) -> Intervention:
    if is_mutant_name(name):
        return intervention_from_mutant(find_mutant(name, framework, algorithm))
    if is_fault_name(name):
        return _intervention_from_fault(parse_fault(name, algorithm), framework, algorithm)
    known = list_interventions(framework)
    named = [item for item in known if item.name == name]
    if not named:
        elsewhere = [
            other
            for other in find_adapter_entry_points()
            if any(item.name == name for item in list_interventions(other))
        ]
        if elsewhere:
            raise SpecError(
                f"intervention={name} is for framework={' or '.join(elsewhere)}, "
                f"not for {framework}."
            )
        raise SpecError(
            format_unknown_name(
                f"intervention={name}", name, [NO_INTERVENTION, *(item.name for item in known)]
            )
            + " parallax intervention list tells what each does."
        )
    for item in named:
        if algorithm in item.algorithms:
            check_segments_installed(item)
            return item
    algorithms = [known for item in named for known in item.algorithms]
    raise SpecError(
        f"intervention={name} is for algorithm={' or '.join(algorithms)}, not for {algorithm}."
    )


def intervention_from_mutant(item: CodeMutant) -> Intervention:
    """A mutant in the form of an entry; it promises no answer."""
    return Intervention(
        name=item.name,
        does=item.does,
        frameworks=(item.framework,),
        algorithms=(item.algorithm,),
        set={},
        wrap=(),
        source=(item.piece,),
        answers={},
        file=find_module_file(item.piece.module),
    )


def _intervention_from_fault(item: FaultInstance, framework: str, algorithm: str) -> Intervention:
    return Intervention(
        name=item.name,
        does=item.does,
        frameworks=(framework,),
        algorithms=(algorithm,),
        set=item.set,
        wrap=item.wrap,
        source=(),
        answers={},
        file=Path(user_faults.__file__),
    )


def find_intervention(name: str, framework: str, algorithms: Sequence[str]) -> Intervention | None:
    """An entry of a framework, or a mutant of its only algorithm; None where there is no such.

    Args:
        name: Of one intervention.
        framework: Whose code is changed.
        algorithms: That are asked about.

    Raises:
        SpecError: A mutant of several algorithms is asked for, or there is none of that number.
    """
    if not (is_mutant_name(name) or is_fault_name(name)):
        named = [item for item in list_interventions(framework) if item.name == name]
        fitting = [item for item in named if set(algorithms) & set(item.algorithms)]
        return next(iter(fitting or named), None)
    if len(algorithms) != 1:
        raise SpecError(
            f"intervention={name} differs from algorithm to algorithm: name one with --algorithms."
        )
    return _find_for_run(name, framework, algorithms[0])


def list_interventions(framework: str) -> tuple[Intervention, ...]:
    """Load all entries of a framework, those that every framework has first.

    A name stands for one change, which several entries may make: each for algorithms of its own.

    Raises:
        SpecError: A file holds what is no intervention; names file, entry and remedy.
    """
    files = (
        Path(__file__).with_name(INTERVENTIONS_FILE),
        _find_package_folder(framework) / INTERVENTIONS_FILE,
    )
    there = tuple((file, file.stat().st_mtime_ns) for file in files if file.is_file())
    return _load_intervention_files(framework, there)


@functools.lru_cache(maxsize=32)
def _load_intervention_files(
    framework: str, files: tuple[tuple[Path, int], ...]
) -> tuple[Intervention, ...]:
    # Cached by the files' times of change: every run of a sweep resolves its interventions.
    found: list[Intervention] = []
    for file, _ in files:
        for name, content in _parse_file(file).items():
            for entry in content if isinstance(content, list) else [content]:
                item = _parse_entry(name, entry, file, framework)
                if framework in item.frameworks:
                    _check_name_is_free(item, found)
                    found.append(item)
    return tuple(found)


def _check_name_is_free(item: Intervention, others: Sequence[Intervention]) -> None:
    for other in others:
        both = [name for name in item.algorithms if name in other.algorithms]
        if other.name == item.name and both:
            raise SpecError(
                f"{item.file}: {item.name} stands for {both[0]} in {other.file}, too: rename it."
            )


def _find_package_folder(framework: str) -> Path:
    return find_adapter_folder(framework)


def _parse_file(file: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(file.read_text())
    except yaml.YAMLError as error:
        raise SpecError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise SpecError(f"{file} must hold a mapping of names to interventions.")
    return content


def _parse_entry(name: str, entry: Any, file: Path, framework: str) -> Intervention:
    where = f"{file}: {name}"
    if not _is_valid_name(name):
        raise SpecError(f"{where} must be named by small letters, digits, dots and hyphens.")
    if name.startswith(MUTANT_PREFIX) or is_fault_name(name):
        raise SpecError(f"{where}: mutants and faults have names of that form: rename it.")
    if not isinstance(entry, Mapping):
        raise SpecError(f"{where} must be a mapping with {', '.join(sorted(_ENTRY_KEYS))}.")
    for key in entry:
        if key not in _ENTRY_KEYS:
            raise SpecError(f"{where}: {format_unknown_name(key, key, sorted(_ENTRY_KEYS))}")
    if not entry.get("does"):
        raise SpecError(f"{where}: `does` is missing: say in a sentence what it does.")
    algorithms = _parse_strings(where, "algorithms", entry.get("algorithms", list(ALGORITHMS)))
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise SpecError(
                f"{where}: {format_unknown_name(algorithm, algorithm, list(ALGORITHMS))}"
            )
    result = Intervention(
        name=name,
        does=" ".join(str(entry["does"]).split()),
        frameworks=_parse_strings(where, "frameworks", entry.get("frameworks", [framework])),
        algorithms=algorithms,
        set=_parse_settings(where, entry.get("set", {}), algorithms),
        wrap=tuple(
            _parse_layer(where, layer)
            for layer in _check_list(where, "wrap", entry.get("wrap", []))
        ),
        source=tuple(
            _parse_segment(where, piece, framework)
            for piece in _check_list(where, "source", entry.get("source", []))
        ),
        answers=_check_mapping(where, "answers", entry.get("answers", {})),
        file=file,
    )
    if not (result.set or result.wrap or result.source):
        raise SpecError(f"{where} changes nothing: give it `set`, `wrap` or `source`.")
    return result


def _is_valid_name(name: Any) -> bool:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.-"
    return isinstance(name, str) and bool(name) and set(name) <= set(letters)


def _parse_strings(where: str, key: str, value: Any) -> tuple[str, ...]:
    return tuple(str(item) for item in _check_list(where, key, value))


def _check_list(where: str, key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise SpecError(f"{where}: {key}={value!r} must be a list.")
    return value


def _check_mapping(where: str, key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{where}: {key}={value!r} must be a mapping.")
    return value


def _parse_settings(where: str, value: Any, algorithms: Sequence[str]) -> Mapping[str, Any]:
    settings = _check_mapping(where, "set", value)
    for field in settings:
        for algorithm in algorithms:
            known = [known.name for known in dataclasses.fields(ALGORITHMS[algorithm])]
            if field not in known:
                hint = describe_owning_algorithms(field) or format_unknown_name(field, field, known)
                raise SpecError(f"{where}: set.{field} is no field of {algorithm}: {hint}")
    return {field: tuple(v) if isinstance(v, list) else v for field, v in settings.items()}


def _parse_layer(where: str, value: Any) -> tuple[str, Mapping[str, Any]]:
    arguments = dict(_check_mapping(where, "wrap", value))
    layer = arguments.pop("layer", None)
    if not isinstance(layer, str) or layer.count(":") != 1:
        raise SpecError(f"{where}: wrap needs `layer`, as module:Class, not {layer!r}.")
    return layer, arguments


def _parse_segment(where: str, value: Any, framework: str) -> SourceSegment:
    content = _check_mapping(where, "source", value)
    for key in content:
        if key not in _SEGMENT_KEYS:
            raise SpecError(
                f"{where}: source: {format_unknown_name(str(key), str(key), sorted(_SEGMENT_KEYS))}"
            )
    lacking = [key for key in ("module", "find", "replace") if key not in content]
    if lacking:
        raise SpecError(f"{where}: source lacks {', '.join(lacking)}.")
    piece = SourceSegment(**{"function": ""} | {key: str(text) for key, text in content.items()})
    ours = find_adapter_entry_point(framework)
    allowed = list_upstream_modules(framework)
    if not any(piece.module == name or piece.module.startswith(f"{name}.") for name in allowed):
        raise SpecError(
            f"{where}: {piece.module} is none of {ours.name}'s own modules: name one below "
            f"{', '.join(allowed)}."
        )
    if not piece.find.strip():
        raise SpecError(f"{where}: source.find is empty: give the exact piece to look for.")
    return piece


def list_upstream_modules(framework: str) -> tuple[str, ...]:
    """Modules whose text an intervention may change: upstream's, and what stands for its scripts.

    They are those of the adapter's `packages`, but for PyTorch, and its `rebuilt` modules.
    """
    adapter = find_adapter_entry_point(framework).load()
    names = adapter.packages
    packages = [name.replace("-", "_") for name in names if name != "torch"]
    return (*packages, *adapter.rebuilt_packages)


def make_replacement(made: Sequence[Intervention]) -> SourceReplacement:
    """What interventions replace in upstream's code, together."""
    return SourceReplacement([piece for item in made for piece in item.source])


def collect_layers(made: Sequence[Intervention]) -> list[tuple[str, Mapping[str, Any]]]:
    """What interventions put around the training task, from the inside."""
    return [layer for item in made for layer in item.wrap]


def apply_settings(requested: Any, made: Sequence[Intervention]) -> Any:
    """Hyperparameters with what interventions set, converted and checked as others are.

    Raises:
        SpecError: A value cannot be used.
    """
    values = {field: value for item in made for field, value in item.set.items()}
    if not values:
        return requested
    content = {f.name: getattr(requested, f.name) for f in dataclasses.fields(requested)}
    return build_dataclass(type(requested), content | values, "intervention")


REPLAY_FILE = "replay.yaml"


def load_replay_interventions(framework: str, algorithm: str) -> tuple[Intervention, ...]:
    """The changes with which a framework's algorithm replays otherwise than uniformly.

    They are recorded with the run as interventions are, and made as they are; nobody names them.

    Raises:
        SpecError: The file holds what is no intervention, or the installed version is another.
    """
    found = tuple(
        item
        for item in load_interventions_from(framework, REPLAY_FILE)
        if algorithm in item.algorithms
    )
    for item in found:
        check_segments_installed(item)
    return found
