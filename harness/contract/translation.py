"""Translation to native settings, and a note on how each unified field was honoured."""

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any

from parallax.envs.tasks import Task
from parallax.harness.contract.algorithms.base import ActionKind, Hyperparameters, UpdateSchedule
from parallax.harness.contract.fields import REQUIRED, SpecError, format_value

NativeSettings = Mapping[str, Any]
"""What upstream receives, by upstream's names."""


def select_options(settings: NativeSettings, component: str) -> dict[str, Any]:
    """Return the arguments of one of upstream's components, by name, from `component.name`."""
    prefix = f"{component}."
    return {n.removeprefix(prefix): v for n, v in settings.items() if n.startswith(prefix)}


@dataclasses.dataclass(frozen=True)
class TranslatedSetting:
    """Translation of one unified hyperparameter.

    Attributes:
        field: Name in the unified schema.
        value: Value in the unified schema.
        kind: `aligned` (a public option), `tied` (it follows from another option), `constant`
            (the framework fixes it), `emulated` (set around upstream), `patched` (upstream fixes
            it at another value, and a declared patch of its source changes that), `converted`
            (upstream uses the value in another way, and an intervention changes that) or `rounded`.
        native_name: The framework's name for it; empty where it is fixed.
        native_value: What was passed, in the framework's own unit.
        note: Short explanation for readers.
        conversion: Intervention after which upstream uses the value as the schema says; empty
            where it does so anyway.
    """

    field: str
    value: Any
    kind: str
    native_name: str
    native_value: Any
    note: str = ""
    conversion: str = ""

    @property
    def is_fixed(self) -> bool:
        """Return whether only one value is possible."""
        return self.kind in ("constant", "tied") or (
            self.kind == "converted" and not self.native_name
        )


RUN_OPTIONS = frozenset({"seed", "device", "cuda", "env-id", "total-timesteps"})
"""Names under which upstream takes what every run states: seed, device, task and length."""


@dataclasses.dataclass(frozen=True)
class UpstreamOption:
    """One of upstream's options that no hyperparameter covers."""

    name: str
    default: Any
    value: Any

    @property
    def is_overridden(self) -> bool:
        """Return whether a run has another value than upstream's users get."""
        return bool(self.value != self.default)


@dataclasses.dataclass(frozen=True)
class NativeConfig:
    """One run in the framework's own terms.

    Attributes:
        total_steps: Environment transitions upstream will take, after its rounding.
        framework_steps: Final value of the framework's own step counter.
        update_schedule: How often upstream will update on one environment, its deviations from
            the hyperparameters' own `compute_update_schedule` included.
    """

    settings: Mapping[str, Any]
    alignment: tuple[TranslatedSetting, ...]
    total_steps: int
    framework_steps: int
    update_schedule: UpdateSchedule

    @property
    def patched_fields(self) -> tuple[str, ...]:
        """Hyperparameters whose values are set by a patch of upstream's source."""
        return tuple(row.field for row in self.alignment if row.kind == "patched")

    @property
    def conversions(self) -> Mapping[str, str]:
        """By hyperparameter, the interventions that give it the schema's meaning under `exact`."""
        return {row.field: row.conversion for row in self.alignment if row.conversion}

    def list_upstream_options(self, declared: Mapping[str, Any] | None) -> list[UpstreamOption]:
        """List the options that no hyperparameter covers, overridden ones first.

        An adapter gives some of them one value for all runs, for example to make frameworks
        comparable; users of the framework without Parallax get upstream's default.

        Args:
            declared: Upstream's defaults by name (`Adapter.upstream_defaults`); None if it
                declares none, as Tianshou does.
        """
        covered = {setting.native_name for setting in self.alignment} | RUN_OPTIONS
        options = [
            UpstreamOption(name, default, self.settings.get(name, default))
            for name, default in (declared or {}).items()
            if name not in covered and not name.startswith("_")
        ]
        return sorted(options, key=lambda option: not option.is_overridden)

    def restore_upstream_options(self, declared: Mapping[str, Any] | None) -> "NativeConfig":
        """Return a run with upstream's defaults in place of options that the adapter overrides."""
        options = self.list_upstream_options(declared)
        restored = {option.name: option.default for option in options if option.is_overridden}
        return dataclasses.replace(self, settings={**self.settings, **restored})


@dataclasses.dataclass(frozen=True)
class AlgorithmSettings:
    """Translation of one algorithm by an adapter.

    Each adapter's `settings.py` has a table `ALGORITHMS` of them. An algorithm that another package
    brings has a module `<framework>_settings` there, with one of these named `SETTINGS`.

    Attributes:
        translate: Turns unified hyperparameters into native settings: takes a `ConfigTranslator`,
            the hyperparameters and the `RunContext`.
        couple_defaults: Changes a recipe's values where upstream couples some of them or counts
            them differently: takes the recipe and the `RunContext`. None where it does not.
        extra_action_spaces: Kinds of actions that upstream's algorithm takes besides those that
            the algorithm is known for.
    """

    translate: "Callable[[ConfigTranslator, Any, Any], NativeConfig]"
    couple_defaults: Callable[[Any, Any], Any] | None = None
    extra_action_spaces: frozenset[ActionKind] = frozenset()


_AS_IS: Any = object()


class ConfigTranslator:
    """Builds a `NativeConfig`; every hyperparameter must be claimed exactly once.

    Settings and the alignment table come from the same calls, so they cannot disagree.
    Refusals are collected, so that a user sees all of them at once.
    """

    def __init__(
        self,
        framework: str,
        hyperparameters: Hyperparameters,
        patchable: Collection[str] = (),
        converts_meanings: bool = False,
    ) -> None:
        """Create a translator that has claimed nothing yet.

        Args:
            framework: Name of the adapter, for messages.
            hyperparameters: In unified units.
            patchable: Fields for which a patch of upstream's source takes any value.
            converts_meanings: As in `RunContext`.
        """
        self._framework = framework
        self._patchable = patchable
        self._converts_meanings = converts_meanings
        self._patched: set[str] = set()
        self._conversions: dict[str, str] = {}
        self._hyperparameters = hyperparameters
        self._values = {
            field.name: getattr(hyperparameters, field.name)
            for field in dataclasses.fields(hyperparameters)
        }
        self._settings: dict[str, Any] = {}
        self._rows: dict[str, TranslatedSetting] = {}
        self._refusals: dict[str, str] = {}

    def value(self, field: str) -> Any:
        """Return the requested unified value."""
        return self._values[field]

    def set_option(self, field: str, name: str, native: Any = _AS_IS, note: str = "") -> None:
        """Set the framework's public option `name`, to the unified value unless given."""
        self._claim_field(field, "aligned", name, native, note)

    def declare_rounded(self, field: str, value: Any) -> None:
        """Declare which value of `field`, set before, upstream uses: another one is rounded."""
        if value != self._values[field]:
            self._rows[field] = dataclasses.replace(self._rows[field], value=value, kind="rounded")

    def share_option(self, field: str, name: str, note: str = "") -> None:
        """Declare that the public option `name`, set before, also determines `field`."""
        self._rows[field] = TranslatedSetting(
            field, self._values[field], "aligned", name, self._settings[name], note
        )

    def emulate_option(self, field: str, name: str, native: Any = _AS_IS, note: str = "") -> None:
        """Set an option that the adapter implements around upstream; `note` says how."""
        self._claim_field(field, "emulated", name, native, note)

    def emulate_other_values(
        self,
        field: str,
        constant: Any,
        name: str,
        *,
        allowed: bool,
        native: Any = _AS_IS,
        note: str = "",
    ) -> None:
        """Declare that the framework fixes `field`; other values are set around upstream.

        Args:
            field: The hyperparameter.
            constant: Upstream's value.
            name: Setting that another value is passed as.
            allowed: Whether the run may have values that upstream does not have: see
                `patch_constants` of `RunContext`.
            native: Native form of another value; the unified value unless given.
            note: How it is done.
        """
        if allowed and self._values[field] != constant:
            self.emulate_option(field, name, native, note)
        else:
            self.declare_constant(field, constant)

    def is_patchable(self, field: str) -> bool:
        """Return whether a patch of upstream's source takes any value of `field`."""
        return field in self._patchable

    def declare_constant(self, field: str, constant: Any, note: str = "") -> None:
        """Declare that the framework fixes `field`; any other value is patched or refused."""
        self._declare_fixed(field, constant, "constant", note)

    def declare_tied(self, field: str, value: Any, note: str) -> None:
        """Declare that the option in `note` fixes `field`; other values are patched or refused."""
        self._declare_fixed(field, value, "tied", note)

    def convert_meaning(self, field: str, intervention: str, unless: Any = None) -> None:
        """Declare that upstream uses the value of `field` in another way than the schema says.

        Args:
            field: The hyperparameter.
            intervention: Name of the intervention that changes that, as the reference form does.
            unless: Value at which both are the same.
        """
        if self._converts_meanings and self._values[field] != unless:
            self._conversions[field] = intervention

    def convert_entropy_unit(self, task: Task) -> None:
        """Declare that upstream's log-probabilities are those of actions in their own range."""
        name = "log-probability-of-the-scaled-action"
        ranges = {high - low for low, high in zip(task.action_low, task.action_high, strict=True)}
        # Actions from -1 to 1 need no scaling, so the densities are the same.
        if ranges != {2.0}:
            self.convert_meaning("target_entropy", name, unless=())

    def set_conv_filters(self, name: str, task: Task, note: str = "") -> None:
        """Set the public option `name` to `conv_filters` if observations are images.

        Otherwise there are no filters.
        """
        if task.image:
            self.set_option("conv_filters", name, list(self.value("conv_filters")), note)
        else:
            self.declare_constant("conv_filters", None, "observations are not images")

    def reject_images(self, task: Task) -> None:
        """Refuse a task that shows images.

        Raises:
            SpecError: It does.
        """
        if task.image:
            raise SpecError(
                f"env={task.env_id} shows images, and framework={self._framework} does not train "
                "this algorithm on images: use a task with flat observations, or another framework "
                "(docs/reference/frameworks.md)."
            )

    def reject_value(self, field: str, reason: str) -> None:
        """Note that no upstream option can honour the requested value of `field`.

        If a patch of upstream's source can, the field is patched. A later reason replaces an
        earlier one.
        """
        if field in self._patchable:
            self._patched.add(field)
            return
        self._refusals[field] = (
            f"hyperparameters.{field}={format_value(self._values[field])}: "
            f"in {self._framework} it is {reason}"
        )

    def set_extra_options(self, **settings: Any) -> None:
        """Set native options that correspond to no unified field."""
        self._settings.update(settings)

    def finish(
        self,
        total_steps: int,
        framework_steps: int | None = None,
        update_schedule: UpdateSchedule | None = None,
    ) -> NativeConfig:
        """Return the native settings.

        Args:
            total_steps: Environment transitions upstream will take.
            framework_steps: Final value of upstream's own counter, if it differs.
            update_schedule: Upstream's schedule, if it differs from the hyperparameters'.

        Raises:
            SpecError: Lists every value that cannot be honoured.
        """
        self._fill_legacy_fields()
        if self._refusals:
            raise SpecError("; ".join(self._refusals.values()) + ".")
        unclaimed = set(self._values) - set(self._rows)
        if unclaimed:
            raise AssertionError(f"{self._framework} declares nothing for {sorted(unclaimed)}")
        rows = tuple(self._make_row(name) for name in self._values)
        counted = total_steps if framework_steps is None else framework_steps
        if update_schedule is None:
            update_schedule = self._hyperparameters.compute_update_schedule(total_steps)
        return NativeConfig(self._settings, rows, total_steps, counted, update_schedule)

    def _make_row(self, field: str) -> TranslatedSetting:
        row, value = self._rows[field], self._values[field]
        if conversion := self._conversions.get(field, ""):
            row = dataclasses.replace(row, kind="converted", conversion=conversion)
        if field not in self._patched:
            return row
        return dataclasses.replace(row, value=value, kind="patched", native_value=value)

    def _fill_legacy_fields(self) -> None:
        # An adapter that predates a field behaves as before the field existed.
        for field in dataclasses.fields(self._hyperparameters):
            before = field.metadata.get("before", REQUIRED)
            if field.name not in self._rows and before is not REQUIRED:
                self.declare_constant(field.name, before)

    def _declare_fixed(self, field: str, value: Any, kind: str, note: str) -> None:
        self._rows[field] = TranslatedSetting(field, value, kind, "", value, note)
        if self._values[field] != value:
            self.reject_value(
                field, f"fixed at {format_value(value)}{f' ({note})' if note else ''}"
            )

    def _claim_field(self, field: str, kind: str, name: str, native: Any, note: str) -> None:
        value = self._values[field]
        native = value if native is _AS_IS else native
        self._settings[name] = native
        self._rows[field] = TranslatedSetting(field, value, kind, name, native, note)
