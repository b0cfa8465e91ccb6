"""The catalogue of interventions: named changes of one thing in a run, as data.

An `Intervention` has one of three sources: a file `interventions.yaml` (the one beside this module
is for every framework, the one beside an adapter for that framework's code), muPRL's user faults,
and mutants of upstream's update code. A replay strategy also needs changes of upstream's source;
`replay.yaml` beside the adapter has them in the same form, and `patches.yaml` has patches of
constants by hyperparameter. If an entry is invalid or does not fit the installed version,
`SpecError` names file, entry and remedy.
"""

import ast
import dataclasses
import functools
import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from parallax.harness.contract.adapter import PATCHES_FILE, Adapter
from parallax.harness.contract.adapter_discovery import list_usable_frameworks, load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, describe_owning_algorithms
from parallax.harness.contract.algorithms.base import Hyperparameters, UpdateSchedule
from parallax.harness.contract.data_files import load_yaml
from parallax.harness.contract.fields import SpecError, build_dataclass, format_unknown_name
from parallax.harness.contract.own_script import OwnScript
from parallax.harness.contract.run_spec import INTERVENTION_SEPARATOR, NO_INTERVENTION
from parallax.harness.contract.translation import NativeConfig
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
    locate_in_text,
    locate_segment,
)
from parallax.harness.interventions.user_faults import FaultInstance, is_fault_name, parse_fault
from parallax.harness.record.old_names import translate_intervention

INTERVENTIONS_FILE = "interventions.yaml"
REPLAY_FILE = "replay.yaml"
RELEASED_BUGS_FILE = "released_bugs.yaml"
RELEASED_BUG_PREFIX = "bug."
LEAVE_OUT_PREFIX = "without."
# Arithmetic that is always fast; powers are excluded.
_FORMULA_NODES = (
    *(ast.Expression, ast.Load, ast.Constant, ast.BinOp, ast.UnaryOp),
    *(ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.USub),
)


@dataclasses.dataclass(frozen=True)
class BugRelease:
    """Facts about a bug in a release.

    Attributes:
        last_bad: Last release that has it.
        first_good: First release without it; empty if there is none yet.
        reference: Issue, pull request or commit.
        location: File and line of the old code, at `last_bad`.
        seen_by: Probes that should detect it.
        blind: Why no probe can detect it, or why it cannot be reintroduced; empty otherwise.
        control: Whether it is a negative control, which changes no update.
        first_bad: First release that has it; empty if it is not known.
    """

    last_bad: str
    first_good: str
    reference: str
    location: str
    seen_by: tuple[str, ...] = ()
    blind: str = ""
    control: bool = False
    first_bad: str = ""


@dataclasses.dataclass(frozen=True)
class Intervention:
    """One change.

    Attributes:
        does: What it does, in a sentence.
        set: Hyperparameters that it sets, in the unified schema.
        wrap: Wrappers around the training task, from the inside: `module:Class` and keyword
            arguments of each.
        source: Segments of upstream's source that it replaces.
        answers: Probe answers that are expected with it: `as in the paper`, `as in FRAMEWORK`,
            other words of the answer, or a number or list of numbers.
        reference_form: Whether it is part of the reference form of its algorithms, which
            `alignment=lockstep` trains.
        field: Hyperparameter whose constant it patches, or an empty string.
        released: Facts about the released bug that it reintroduces, or None.
        updates: Counts of the update schedule that it changes, each as a Python expression of the
            other counts and the hyperparameters.
    """

    name: str
    does: str
    frameworks: tuple[str, ...]
    algorithms: tuple[str, ...]
    file: Path
    set: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    wrap: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    source: tuple[SourceSegment, ...] = ()
    answers: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    reference_form: bool = False
    field: str = ""
    released: BugRelease | None = None
    updates: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def kind(self) -> str:
        """`source`, `environment` or `hyperparameter`: the deepest level that it changes."""
        if self.source:
            return "source"
        return "environment" if self.wrap else "hyperparameter"

    def to_dict(self) -> dict[str, Any]:
        """Return everything that it changes as plain data, for `run.json`."""
        return {
            "does": self.does,
            "set": dict(self.set),
            "wrap": [{"layer": layer, **arguments} for layer, arguments in self.wrap],
            "source": [dataclasses.asdict(segment) for segment in self.source],
        }


def list_interventions(adapter: Adapter) -> tuple[Intervention, ...]:
    """Load all entries for a framework; those shared by all frameworks come first.

    Several entries may have the same name: they make the same change for different algorithms.

    Raises:
        SpecError: A file has an invalid intervention; names file, entry and remedy.
    """
    own = Path(__file__).with_name(INTERVENTIONS_FILE)
    return _load_files(adapter, [own, adapter.folder / INTERVENTIONS_FILE])


def resolve_interventions(
    text: str,
    adapter: Adapter,
    algorithm: str,
    *,
    reference_form: bool = False,
    conversions_follow: bool = False,
    with_replay: bool = False,
) -> tuple[Intervention, ...]:
    """Resolve the names of a run's interventions.

    Args:
        text: `none`, or names with `+` between them. `without.NAME` leaves out an intervention
            of the reference form.
        adapter: Adapter of the run's framework.
        algorithm: Algorithm of the run.
        reference_form: Whether to add the interventions that bring the framework into the
            algorithm's reference form, as `alignment=lockstep` does.
        conversions_follow: Whether `list_conversions` will check the names that are left out.
        with_replay: Whether to add the changes that replay strategies need, which have no name on
            the command line.

    Raises:
        SpecError: A name is unknown or not for this framework or algorithm, its source is not in
            the installed version, or two interventions change the same thing.
    """
    names = [] if text == NO_INTERVENTION else text.split(INTERVENTION_SEPARATOR)
    if twice := [name for name in names if names.count(name) > 1]:
        raise SpecError(f"intervention={text} names {twice[0]} twice.")
    form = list_reference_form(adapter, algorithm) if reference_form else ()
    added = [name for name in names if not name.startswith(LEAVE_OUT_PREFIX)]
    found = _leave_out(form, added if conversions_follow else names)
    found += [_resolve_name(name, adapter, algorithm) for name in added]
    if with_replay:
        entries = _load_files(adapter, [adapter.folder / REPLAY_FILE])
        found += [item for item in entries if algorithm in item.algorithms]
    for item in found:
        _check_segments_installed(item)
    check_no_conflict(found)
    return tuple(found)


def list_reference_form(adapter: Adapter, algorithm: str) -> tuple[Intervention, ...]:
    """List the interventions that turn a framework's update into an algorithm's reference form.

    docs/explanation/alignment.md describes the forms.
    """
    return tuple(
        item
        for item in list_interventions(adapter)
        if item.reference_form and algorithm in item.algorithms
    )


def list_conversions(
    names: Sequence[str], native: NativeConfig, adapter: Adapter, algorithm: str
) -> tuple[Intervention, ...]:
    """List the interventions that give a run's hyperparameters one meaning in every framework.

    Only `alignment=exact` needs them: they are part of the reference form that `lockstep` has.

    Args:
        names: The run's interventions; `without.NAME` leaves out a conversion.
        native: Its translation.
        adapter: Adapter of its framework.
        algorithm: Its algorithm.

    Raises:
        SpecError: The run adds one of them or leaves out another one, or one does not fit the
            installed version.
    """
    form = [_resolve_name(name, adapter, algorithm) for name in native.conversions.values()]
    added = _leave_out(form, names, "exact")
    for item in added:
        _check_segments_installed(item)
    return tuple(added)


def _leave_out(
    form: Sequence[Intervention], names: Sequence[str], alignment: str = "lockstep"
) -> list[Intervention]:
    """Return the interventions of an alignment level, without those that `names` leaves out.

    Raises:
        SpecError: A name to leave out is not in the form, or a name to add already is.
    """
    there = [item.name for item in form]
    left_out = [
        name.removeprefix(LEAVE_OUT_PREFIX) for name in names if name.startswith(LEAVE_OUT_PREFIX)
    ]
    for name in left_out:
        if name not in there:
            renamed = translate_intervention(name)
            hint = f" {name} was renamed {renamed}." if renamed != name else ""
            raise SpecError(
                f"intervention={LEAVE_OUT_PREFIX}{name} leaves out what is not changed: under "
                f"alignment={alignment} that is {', '.join(there) or 'nothing'} here.{hint}"
            )
    for name in names:
        if name in there:
            raise SpecError(
                f"intervention={name}: alignment={alignment} already includes it: drop it."
            )
    return [item for item in form if item.name not in left_out]


def make_patches(
    adapter: Adapter, algorithm: str, hyperparameters: Hyperparameters, fields: Sequence[str]
) -> tuple[Intervention, ...]:
    """Return the patches that set hyperparameters which are constants in upstream's code.

    In the replacement text, `$name` stands for the value of a hyperparameter as a Python literal.

    Args:
        adapter: Adapter of the framework.
        algorithm: Name of the algorithm.
        hyperparameters: In unified units.
        fields: Names of the hyperparameters to patch.

    Raises:
        SpecError: A patch does not fit the installed version.
    """
    values = {
        field.name: repr(getattr(hyperparameters, field.name))
        for field in dataclasses.fields(hyperparameters)
    }
    found = []
    for item in list_patches(adapter):
        if item.field in fields and algorithm in item.algorithms:
            segments = tuple(
                dataclasses.replace(s, replace=string.Template(s.replace).safe_substitute(values))
                for s in item.source
            )
            found.append(dataclasses.replace(item, source=segments))
    for item in found:
        _check_segments_installed(item)
    return tuple(found)


def list_patches(adapter: Adapter) -> tuple[Intervention, ...]:
    """Load the patches of constants that an adapter declares, with `$name` for values.

    Raises:
        SpecError: The file has an invalid patch; names file, entry and remedy.
    """
    return _load_files(adapter, [adapter.folder / PATCHES_FILE])


def find_intervention(
    name: str, adapter: Adapter, algorithms: Sequence[str]
) -> Intervention | None:
    """Find an entry of a framework, or a mutant or fault if exactly one algorithm is given.

    Args:
        name: Name of one intervention.
        adapter: Adapter of the framework whose code is changed.
        algorithms: Algorithms in question.

    Returns:
        None if there is none.

    Raises:
        SpecError: A mutant or fault is named but not exactly one algorithm, or it does not exist.
    """
    if is_mutant_name(name) or is_fault_name(name):
        if len(algorithms) != 1:
            raise SpecError(
                f"intervention={name} differs from algorithm to algorithm: name one with "
                f"--algorithms."
            )
        return _resolve_name(name, adapter, algorithms[0])
    named = [item for item in _list_entries(name, adapter) if item.name == name]
    fitting = [item for item in named if set(algorithms) & set(item.algorithms)]
    return next(iter(fitting or named), None)


def list_released_bugs(adapter: Adapter) -> tuple[Intervention, ...]:
    """Load the released bugs of a framework; those without `source` or `set` are not driven.

    Raises:
        SpecError: The file has an invalid entry; names file, entry and remedy.
    """
    return _load_files(adapter, [adapter.folder / RELEASED_BUGS_FILE])


def _list_entries(name: str, adapter: Adapter) -> tuple[Intervention, ...]:
    if not name.startswith(RELEASED_BUG_PREFIX):
        return list_interventions(adapter)
    return tuple(item for item in list_released_bugs(adapter) if item.source or item.set)


def _resolve_name(name: str, adapter: Adapter, algorithm: str) -> Intervention:
    if is_mutant_name(name):
        return intervention_from_mutant(find_mutant(name, adapter, algorithm))
    if is_fault_name(name):
        return _intervention_from_fault(parse_fault(name, algorithm), adapter.name, algorithm)
    named = [item for item in _list_entries(name, adapter) if item.name == name]
    for item in named:
        if algorithm in item.algorithms:
            return item
    if named:
        algorithms = [known for item in named for known in item.algorithms]
        raise SpecError(
            f"intervention={name} is for algorithm={' or '.join(algorithms)}, not for {algorithm}."
        )
    raise SpecError(_explain_unknown_name(name, adapter))


def _explain_unknown_name(name: str, adapter: Adapter) -> str:
    if (renamed := translate_intervention(name)) != name:
        return f"intervention={name} was renamed: use intervention={renamed}."
    others = [load_adapter(other) for other in list_usable_frameworks()]
    elsewhere = [
        other.name
        for other in others
        if any(item.name == name for item in _list_entries(name, other))
    ]
    if elsewhere:
        return (
            f"intervention={name} is for framework={' or '.join(elsewhere)}, not for "
            f"{adapter.name}."
        )
    is_bug = name.startswith(RELEASED_BUG_PREFIX)
    command = "parallax bugs --list" if is_bug else "parallax intervention list"
    known = [item.name for item in _list_entries(name, adapter)]
    known += [] if is_bug else [NO_INTERVENTION]
    return format_unknown_name(f"intervention={name}", name, known, command)


def _check_segments_installed(item: Intervention) -> None:
    for segment in item.source:
        try:
            locate_segment(segment)
        except SpecError as error:
            raise SpecError(f"intervention={item.name} cannot be made: {error}") from error


def check_segments_in_script(items: Sequence[Intervention], script: OwnScript) -> None:
    """Check that a user's own script contains the upstream segments that are changed in it.

    Raises:
        SpecError: One is missing; names the hyperparameter or intervention and the remedy.
    """
    for item in items:
        for segment in item.source:
            if segment.function:
                continue  # of upstream's package, not of the script
            try:
                locate_in_text(segment, script.source, script.name)
            except SpecError as error:
                wanted = f"intervention={item.name} cannot be made"
                remedy = "Leave it out, or restore upstream's lines."
                if item.field:
                    wanted = (
                        f"hyperparameters.{item.field}, which alignment=exact sets by a patch of "
                        "the script, cannot be set"
                    )
                    remedy = (
                        "Use patches=false and the value that the script has, or alignment=common."
                    )
                text = f"{wanted} in script={script.name}: {error} {remedy}"
                raise SpecError(text) from error


def check_no_conflict(items: Sequence[Intervention]) -> None:
    """Check that no two interventions set the same hyperparameter or change the same source.

    Raises:
        SpecError: Two do; names both.
    """
    names = INTERVENTION_SEPARATOR.join(item.name for item in items if not item.field)
    owners: dict[str, str] = {}
    for item in items:
        for field in item.set:
            if field in owners:
                raise SpecError(
                    f"intervention={names}: {owners[field]} and {item.name} both set {field}."
                )
            owners[field] = item.name
    if clash := describe_overlap(
        [(item.name, segment) for item in items for segment in item.source]
    ):
        raise SpecError(
            f"intervention={names}: {clash}. Leave one out: what the level of alignment adds with "
            f"{LEAVE_OUT_PREFIX}NAME, a patch with upstream's own value of the hyperparameter."
        )


def intervention_from_mutant(item: CodeMutant) -> Intervention:
    """Return a mutant as an intervention; no probe answer is expected of it."""
    return Intervention(
        name=item.name,
        does=item.does,
        frameworks=(item.framework,),
        algorithms=(item.algorithm,),
        source=(item.piece,),
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
        file=Path(user_faults.__file__),
    )


class _SegmentEntry(msgspec.Struct, forbid_unknown_fields=True):
    """One item of `source` in a file."""

    module: str
    find: str
    replace: str
    function: str = ""


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of a file; docs/reference/interventions.md says what the fields mean."""

    does: Annotated[str, msgspec.Meta(min_length=1)]
    algorithms: list[str] | None = None
    frameworks: list[str] | None = None
    set: dict[str, Any] = {}
    wrap: list[dict[str, Any]] = []
    source: list[_SegmentEntry] = []
    answers: dict[str, Any] = {}
    reference_form: bool = False
    released: BugRelease | None = None
    updates: dict[str, str] = {}


def _load_files(adapter: Adapter, files: Sequence[Path]) -> tuple[Intervention, ...]:
    there = tuple((file, file.stat().st_mtime_ns) for file in files if file.is_file())
    return _parse_files(adapter.name, adapter.upstream_modules, there)


@functools.lru_cache(maxsize=32)
def _parse_files(
    framework: str, upstream_modules: tuple[str, ...], files: tuple[tuple[Path, int], ...]
) -> tuple[Intervention, ...]:
    # Cached by the files' modification times: every run of a sweep resolves its interventions.
    found: list[Intervention] = []
    for file, _ in files:
        for name, content in _read_file(file).items():
            for entry in content if isinstance(content, list) else [content]:
                item = _parse_entry(name, entry, file, framework, upstream_modules)
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


def _read_file(file: Path) -> Mapping[str, Any]:
    content = load_yaml(file, "list of interventions")
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise SpecError(f"{file} must hold a mapping of names to interventions.")
    return content


def _parse_entry(
    name: str, entry: Any, file: Path, framework: str, upstream_modules: Sequence[str]
) -> Intervention:
    where = f"{file}: {name}"
    field = ""
    if file.name == PATCHES_FILE:
        field, name = str(name), f"patch.{str(name).replace('_', '-')}"
    if not _is_valid_name(name):
        raise SpecError(f"{where} must be named by small letters, digits, dots and hyphens.")
    if name.startswith(MUTANT_PREFIX) or is_fault_name(name):
        raise SpecError(f"{where}: mutants and faults have names of that form: rename it.")
    try:
        parsed = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        raise SpecError(f"{where}: {error}.") from error
    is_undriven_bug = parsed.released is not None and parsed.released.blind
    if not (parsed.set or parsed.wrap or parsed.source or is_undriven_bug):
        raise SpecError(f"{where} changes nothing: give it `set`, `wrap` or `source`.")
    algorithms = list(ALGORITHMS) if parsed.algorithms is None else parsed.algorithms
    if field:
        _check_settings(where, {field: None}, algorithms)
    for algorithm in algorithms:
        if algorithm not in ALGORITHMS:
            raise SpecError(
                f"{where}: {format_unknown_name(algorithm, algorithm, list(ALGORITHMS))}"
            )
    return Intervention(
        name=name,
        does=" ".join(parsed.does.split()),
        frameworks=(framework,) if parsed.frameworks is None else tuple(parsed.frameworks),
        algorithms=tuple(algorithms),
        set=_check_settings(where, parsed.set, algorithms),
        wrap=tuple(_check_wrapper(where, wrapper) for wrapper in parsed.wrap),
        source=tuple(
            _check_segment(where, segment, framework, upstream_modules) for segment in parsed.source
        ),
        answers=parsed.answers,
        file=file,
        reference_form=parsed.reference_form,
        field=field,
        released=parsed.released,
        updates=_check_update_counts(where, parsed.updates, algorithms),
    )


def _is_valid_name(name: Any) -> bool:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.-"
    return isinstance(name, str) and bool(name) and set(name) <= set(letters)


def _check_settings(
    where: str, settings: Mapping[str, Any], algorithms: Sequence[str]
) -> Mapping[str, Any]:
    for field in settings:
        for algorithm in algorithms:
            known = [known.name for known in dataclasses.fields(ALGORITHMS[algorithm])]
            if field not in known:
                hint = describe_owning_algorithms(field) or format_unknown_name(field, field, known)
                raise SpecError(f"{where}: set.{field} is not a field of {algorithm}: {hint}")
    return {field: tuple(v) if isinstance(v, list) else v for field, v in settings.items()}


def _check_update_counts(
    where: str, updates: Mapping[str, str], algorithms: Sequence[str]
) -> Mapping[str, str]:
    counts = {field.name for field in dataclasses.fields(UpdateSchedule)}
    for algorithm in algorithms:
        known = counts | {field.name for field in dataclasses.fields(ALGORITHMS[algorithm])}
        for name, formula in updates.items():
            if name not in counts or not _is_count_formula(formula, known):
                raise SpecError(
                    f"{where}: updates.{name} must be a count of run.json's update_schedule, and "
                    f"{formula!r} an expression of such counts and hyperparameters of {algorithm}."
                )
    return updates


def _is_count_formula(formula: str, known: set[str]) -> bool:
    """Return whether a text is sums, products and quotients of whole numbers and known names."""
    try:
        tree = ast.parse(formula, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    nodes = [node for node in ast.walk(tree) if not isinstance(node, ast.Name)]
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    whole = all(type(node.value) is int for node in nodes if isinstance(node, ast.Constant))
    return names <= known and whole and all(isinstance(node, _FORMULA_NODES) for node in nodes)


def _check_wrapper(where: str, wrapper: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    arguments = dict(wrapper)
    layer = arguments.pop("layer", None)
    if not isinstance(layer, str) or layer.count(":") != 1:
        raise SpecError(f"{where}: wrap needs `layer`, as module:Class, not {layer!r}.")
    return layer, arguments


def _check_segment(
    where: str, segment: _SegmentEntry, framework: str, upstream_modules: Sequence[str]
) -> SourceSegment:
    allowed = upstream_modules
    if not any(segment.module == name or segment.module.startswith(f"{name}.") for name in allowed):
        raise SpecError(
            f"{where}: {segment.module} is none of {framework}'s own modules: name one below "
            f"{', '.join(allowed)}."
        )
    if not segment.find.strip():
        raise SpecError(f"{where}: source.find is empty: give the exact piece to look for.")
    return SourceSegment(**msgspec.structs.asdict(segment))


def make_replacement(items: Sequence[Intervention]) -> SourceReplacement:
    """Return one replacement with all source segments of the interventions."""
    return SourceReplacement([segment for item in items for segment in item.source])


def collect_layers(items: Sequence[Intervention]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the wrappers that interventions put around the training task, from the inside."""
    return [layer for item in items for layer in item.wrap]


def apply_update_counts(
    schedule: UpdateSchedule, hyperparameters: Hyperparameters, items: Sequence[Intervention]
) -> UpdateSchedule:
    """Return an update schedule with the counts that interventions change.

    Args:
        schedule: Of the framework without interventions.
        hyperparameters: In unified units.
        items: The interventions, each of which counts from `schedule`.
    """
    known = {
        field.name: getattr(source, field.name)
        for source in (hyperparameters, schedule)
        for field in dataclasses.fields(source)
    }
    changed = {
        name: eval(formula, {"__builtins__": {}}, known)  # arithmetic, as was checked
        for item in items
        for name, formula in item.updates.items()
    }
    return dataclasses.replace(schedule, **changed)


def apply_settings(requested: Any, items: Sequence[Intervention]) -> Any:
    """Return hyperparameters with the values that interventions set, converted and checked.

    Raises:
        SpecError: A value is invalid.
    """
    values = {field: value for item in items for field, value in item.set.items()}
    if not values:
        return requested
    content = {f.name: getattr(requested, f.name) for f in dataclasses.fields(requested)}
    return build_dataclass(type(requested), content | values, "intervention")
