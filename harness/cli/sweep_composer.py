"""Composition of a sweep's runs from its overrides, with few calls of Hydra (50 ms of CPU each).

Most runs of a sweep differ only in framework, task and seed. If Hydra would only write such a name
or number into the configuration, this module writes it instead; in doubt, Hydra composes the run.
`SharedComposition` lists the conditions.
"""

import functools
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.config_source import ConfigResult
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from parallax.harness.cli.config_groups import list_group_options
from parallax.harness.cli.hydra_app import (
    check_composed_keys,
    iterate_references,
    read_group_option,
    spec_from_values,
)
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.record.files import write_files_atomically

SUBSTITUTED_GROUPS = ("framework", "env")
SEED_KEY = "seed"
# Keys written without Hydra: all of them, else only seeds, else none.
_SUBSTITUTION_LEVELS = ((*SUBSTITUTED_GROUPS, SEED_KEY), (SEED_KEY,), ())
_NUMBER_PATTERN = re.compile(r"0|[1-9]\d*")
_PLAIN_REFERENCE_PATTERN = re.compile(r"\$\{\.*(?!hydra\b)[A-Za-z_]\w*(\.[\w?]+)*\}")

PlainChoices = Mapping[str, str]
JobOverrides = Sequence[str]


class NeedsHydraError(Exception):
    """Hydra may do more with a choice than write it into the configuration."""


class _RunGroup(NamedTuple):
    """What the overrides of runs that can share a composition have in common.

    Attributes:
        level: Keys that are written without Hydra; one of `_SUBSTITUTION_LEVELS`.
        rest: Overrides for Hydra.
        chosen: Keys of the other overrides, whose values differ between the runs.
    """

    level: Sequence[str]
    rest: tuple[str, ...]
    chosen: tuple[str, ...]


class SweepComposer:
    """Composer of runs' values from their overrides, with the results that Hydra would give."""

    def __init__(
        self, loader: ConfigLoader, config: DictConfig, jobs: Iterable[JobOverrides]
    ) -> None:
        """Find the runs that can share a composition."""
        self._hydra = HydraLoader(loader, config)
        self._names = {group: set(list_group_options()[group]) for group in SUBSTITUTED_GROUPS}
        self._choices: dict[_RunGroup, list[PlainChoices]] = {}
        self._shared: dict[_RunGroup, SharedComposition | None] = {}
        for job in jobs:
            for level in _SUBSTITUTION_LEVELS:
                group, choices = self._split_job(job, level)
                self._choices.setdefault(group, []).append(choices)

    def compose_values(self, job: JobOverrides) -> Mapping[str, Any]:
        """Return the resolved configuration of one run, perhaps without Hydra's own part.

        Raises:
            HydraException: A configuration does not exist.
            SpecError: A configuration has an unused key.
        """
        for level in _SUBSTITUTION_LEVELS:
            group, choices = self._split_job(job, level)
            shared = self._share_composition(group) if len(self._choices[group]) > 1 else None
            if shared is not None:
                return shared.compose_values(choices)
        composed = self._hydra.compose(job)
        check_composed_keys(composed)
        return _resolve_values(composed)

    def _share_composition(self, group: _RunGroup) -> "SharedComposition | None":
        """Return the composition of a group of runs; None if Hydra has to compose each run."""
        if group not in self._shared:
            try:
                shared = SharedComposition(self._hydra, group.rest, self._choices[group])
            except NeedsHydraError:
                shared = None
            self._shared[group] = shared
        return self._shared[group]

    def _split_job(self, job: JobOverrides, level: Sequence[str]) -> tuple[_RunGroup, PlainChoices]:
        """Return the group of a run, and the choices that this module writes, by key."""
        named: dict[str, list[str]] = {}
        for override in job:
            named.setdefault(_get_root_name(override), []).append(override)
        choices = {}
        for key in level:
            if len(named.get(key, ())) == 1:
                name, _, value = named[key][0].partition("=")
                if name == key and self._is_plain_choice(key, value):
                    choices[key] = value
        rest = tuple(override for override in job if _get_root_name(override) not in choices)
        return _RunGroup(level, rest, tuple(choices)), choices

    def _is_plain_choice(self, key: str, value: str) -> bool:
        if key == SEED_KEY:
            return _NUMBER_PATTERN.fullmatch(value) is not None
        return value in self._names[key]


class SharedComposition:
    """One composition for runs that differ in plain choices only.

    Hydra merges a fixed list of files in a fixed order and applies overrides. A choice changes
    nothing but its own name if the option holds nothing else, no list of defaults refers to the
    choice, no other file and no override writes to the same place, and no value is taken from
    Hydra's record of the choices.
    """

    def __init__(
        self, hydra: "HydraLoader", rest: JobOverrides, alike: Sequence[PlainChoices]
    ) -> None:
        """Compose with the first choices.

        Raises:
            NeedsHydraError: One of these conditions may not hold.
            HydraException: A configuration does not exist.
        """
        first = alike[0]
        composed = hydra.compose([*rest, *format_overrides(first)])
        for group in SUBSTITUTED_GROUPS:
            if group in first:
                hydra.check_choices(composed, group, {one[group] for one in alike}, rest)
        check_composed_keys(composed)
        self._config = OmegaConf.masked_copy(composed, [str(k) for k in composed if k != "hydra"])
        references = list(iterate_references(_to_unresolved_values(self._config)))
        if not all(map(_is_plain, references)):
            raise NeedsHydraError
        self._constant = not references
        self._values: Any = _resolve_values(self._config) if self._constant else None

    def compose_values(self, choices: PlainChoices) -> Mapping[str, Any]:
        """Return the resolved configuration with these choices."""
        if not self._constant:
            self._write_choices(choices)
            return _resolve_values(self._config)
        values = dict(self._values)
        for key, choice in choices.items():
            values[key] = int(choice) if key == SEED_KEY else {**values[key], "name": choice}
        return values

    def _write_choices(self, choices: PlainChoices) -> None:
        for key, choice in choices.items():
            if key == SEED_KEY:
                self._config.seed = int(choice)
            else:
                self._config[key].name = choice


class HydraLoader:
    """Access to Hydra's configuration loader during one sweep."""

    def __init__(self, loader: ConfigLoader, config: DictConfig) -> None:
        self._loader = loader
        self._config = config

    def compose(self, job: JobOverrides) -> DictConfig:
        """Return the configuration of one run, Hydra's own part included."""
        return self._loader.load_sweep_config(self._config, list(job))

    def check_choices(
        self, composed: DictConfig, group: str, names: Iterable[str], rest: JobOverrides
    ) -> None:
        """Raise `NeedsHydraError` if a choice from a group may change more than its name."""
        used = composed.hydra.runtime.config_sources
        known = [(source.provider, source.path) for source in self._loader.get_sources()]
        if [(source.provider, source.path) for source in used] != known:
            raise NeedsHydraError  # hydra.searchpath names files that are not checked here
        if any(group in _split_words(override.partition("=")[0]) for override in rest):
            raise NeedsHydraError
        for name in names:
            if self._options.get(f"{group}/{name}") != read_group_option(group, name):
                raise NeedsHydraError
        if group in self._groups_written_elsewhere:
            raise NeedsHydraError

    @functools.cached_property
    def _options(self) -> dict[str, Any]:
        """Return the contents of the group options that go below the group's own name."""
        return {
            path: _to_unresolved_values(found.config)
            for path, found in self._files.items()
            if (group := path.partition("/")[0]) in SUBSTITUTED_GROUPS
            and found.header.get("package") in (None, group)
        }

    @functools.cached_property
    def _groups_written_elsewhere(self) -> set[str]:
        """Return groups whose keys another file writes to, or whose choice it refers to."""
        touched: set[str] = set()
        for path, found in self._files.items():
            content = _to_unresolved_values(found.config)
            if not isinstance(content, dict) or path in self._options:
                continue
            package = found.header.get("package") or path.rpartition("/")[0].replace("/", ".")
            parts = [part for part in package.split(".") if part not in ("", "_global_")]
            touched |= {parts[0]} if parts else set(content)
            for entry in content.get("defaults") or ():
                touched |= _find_mentioned_groups(entry)
        return touched

    @functools.cached_property
    def _files(self) -> dict[str, ConfigResult]:
        """Return every file and stored configuration by path; the first of each name counts."""
        files: dict[str, ConfigResult] = {}
        for source in self._loader.get_sources():
            folders = [""]
            for folder in folders:
                if source.is_group(folder) or not folder:
                    inside = f"{folder}/" if folder else ""
                    groups = source.list(folder, ObjectType.GROUP)
                    folders += [f"{inside}{name}" for name in groups]
                    for name in source.list(folder, ObjectType.CONFIG):
                        if f"{inside}{name}" not in files:
                            files[f"{inside}{name}"] = source.load_config(f"{inside}{name}")
        return files


def _find_mentioned_groups(default: Any) -> set[str]:
    """Return the groups that an entry of a defaults list mentions without choosing from them."""
    if not isinstance(default, dict):
        return _split_words(str(default))
    mentioned: set[str] = set()
    for key, value in default.items():
        group = str(key).rpartition(" ")[2].lstrip("/")
        mentioned |= set() if group in SUBSTITUTED_GROUPS else _split_words(group)
        mentioned |= _split_words(str(value)) if "${" in str(value) else set()
    return mentioned


def _split_words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _get_root_name(override: str) -> str:
    """Return the first name that an override writes to, such as `env` in `+env@task.name=x`."""
    return re.split(r"[.@:/\[]", override.partition("=")[0].strip().lstrip("+~"))[0].strip()


def format_overrides(choices: Mapping[str, Any]) -> list[str]:
    """Return values by name as words of a command line."""
    return [f"{key}={choice}" for key, choice in choices.items()]


def _to_unresolved_values(config: Any) -> Any:
    return OmegaConf.to_container(config, resolve=False)


def _resolve_values(config: DictConfig) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(config, resolve=True)
    return dict(values)


def _is_plain(text: str) -> bool:
    """Return whether a text refers only to values outside Hydra's own part."""
    count = 1
    while count:
        text, count = _PLAIN_REFERENCE_PATTERN.subn("?", text)
    return "${" not in text


_MIN_JOBS_FOR_PROGRESS = 100


def compose_sweep_specs(
    loader: ConfigLoader, config: DictConfig, job_overrides: Sequence[Sequence[str]]
) -> tuple[list[RunSpec], Path]:
    """Return the checked runs of a sweep, and the folder for their results.

    Raises:
        SpecError: A value cannot be used.
        HydraException: A configuration does not exist.
    """
    composer = SweepComposer(loader, config, job_overrides)
    console, few = Console(stderr=True), len(job_overrides) < _MIN_JOBS_FOR_PROGRESS
    jobs = track(job_overrides, "Reading the sweep", console=console, transient=True, disable=few)
    pairs = [spec_from_values(composer.compose_values(overrides)) for overrides in jobs]
    places = {str(place): place for _, place in pairs}
    if len(places) > 1:
        raise SpecError(
            f"results_dir={','.join(places)} cannot be swept: all runs of a sweep share one "
            "results folder. Give one value, and sweep study.name to separate runs."
        )
    return [spec for spec, _ in pairs], pairs[0][1]


class SweepLauncher(Launcher):
    """Hydra launcher that starts all runs of a sweep with one call."""

    def __init__(self) -> None:
        self._context: HydraContext | None = None
        self._config: DictConfig | None = None

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Store what `launch` needs; the task function is not used."""
        self._context = hydra_context
        self._config = config

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Compose every run and launch them all.

        Raises:
            SpecError: A run cannot be carried out as requested; nothing was started.
            RunsFailedError: Some runs did not complete, or were not queued.
        """
        assert self._context is not None and self._config is not None
        specs, results_dir = compose_sweep_specs(
            self._context.config_loader, self._config, job_overrides
        )
        if folder := self._config.hydra.sweep.dir:
            text = OmegaConf.to_yaml(self._config)
            write_files_atomically({Path(folder) / "multirun.yaml": text})
        self.launch_runs(specs, results_dir)
        return [
            JobReturn(overrides=list(overrides), status=JobStatus.COMPLETED)
            for overrides in job_overrides
        ]

    @abstractmethod
    def launch_runs(self, specs: Sequence[RunSpec], results_dir: Path) -> None:
        """Run or queue them."""
