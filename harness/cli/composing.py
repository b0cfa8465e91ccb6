"""From a sweep's overrides to its runs, with few compositions by Hydra, each 50 ms of CPU.

Most runs of a sweep differ in framework, task and seed only. Where it is certain that Hydra would
do nothing else with these words than write the name or number into the configuration, that is
done here; in doubt Hydra composes the run. What certain means is in `Shared`.
"""

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.progress import track

from harness.cli.app import spec_from_values
from harness.cli.config_groups import group_names, option
from harness.contract.fields import SpecError
from harness.contract.run_spec import RunSpec

GROUPS = ("framework", "env")
SEED = "seed"
# What is written without Hydra: all of it, else seeds only, else nothing.
_LEVELS = ((*GROUPS, SEED), (SEED,), ())
_NUMBER = re.compile(r"0|[1-9]\d*")
_REFERENCE = re.compile(r"\$\{\.*(?!hydra\b)[A-Za-z_]\w*(\.[\w?]+)*\}")

Choices = Mapping[str, str]
Job = Sequence[str]


class Doubt(Exception):  # noqa: N818
    """Hydra may do more with a word than to write it down."""


class Composer:
    """The values of runs by their overrides, as Hydra would compose each of them."""

    def __init__(self, loader: ConfigLoader, config: DictConfig, jobs: Iterable[Job]) -> None:
        """Notes which runs can share a composition.

        Args:
            loader: Hydra's.
            config: Configuration of the sweep itself.
            jobs: Overrides of every run.
        """
        self._hydra = Hydra(loader, config)
        self._names = {group: set(group_names()[group]) for group in GROUPS}
        self._alike: list[dict[Any, list[Choices]]] = []
        self._shared: list[dict[Any, Shared | None]] = [{} for _ in _LEVELS]
        jobs = list(jobs)
        for words in _LEVELS:
            alike: dict[Any, list[Choices]] = {}
            for job in jobs:
                rest, choices = self._split(job, words)
                alike.setdefault((rest, tuple(choices)), []).append(choices)
            self._alike.append(alike)

    def values(self, job: Job) -> Mapping[str, Any]:
        """The resolved configuration of one run, perhaps without Hydra's own part.

        Raises:
            HydraException: A configuration does not exist.
        """
        for level, words in enumerate(_LEVELS):
            rest, choices = self._split(job, words)
            key = rest, tuple(choices)
            alike, shared = self._alike[level][key], self._shared[level]
            if len(alike) < 2:
                continue
            if key not in shared:
                try:
                    shared[key] = Shared(self._hydra, rest, alike)
                except Doubt:
                    shared[key] = None
            found = shared[key]
            if found is not None:
                return found.values(choices)
        return _resolved(self._hydra.compose(job))

    def _split(self, job: Job, words: Sequence[str]) -> tuple[tuple[str, ...], Choices]:
        """What is left to Hydra, and what is written here by name."""
        named: dict[str, list[str]] = {}
        for override in job:
            named.setdefault(_root(override), []).append(override)
        choices = {}
        for word in words:
            if len(named.get(word, ())) == 1:
                name, _, value = named[word][0].partition("=")
                plain = _NUMBER.fullmatch(value) if word == SEED else value in self._names[word]
                if name == word and plain:
                    choices[word] = value
        return tuple(override for override in job if _root(override) not in choices), choices


class Shared:
    """One composition for runs that differ in plain choices only.

    Hydra merges a fixed list of files in a fixed order and applies overrides. A choice changes
    nothing but its own name if the option holds nothing else, no list of defaults refers to the
    choice, no other file and no override writes to the same place, and no value is taken from
    Hydra's record of the choices.
    """

    def __init__(self, hydra: "Hydra", rest: Job, alike: Sequence[Choices]) -> None:
        """Composes with the first choices.

        Raises:
            Doubt: One of these conditions may not hold.
            HydraException: A configuration does not exist.
        """
        first = alike[0]
        composed = hydra.compose([*rest, *_overrides(first)])
        for group in GROUPS:
            if group in first:
                hydra.check(composed, group, {choices[group] for choices in alike}, rest)
        self._config = _without_hydra(composed)
        references = list(_references(_raw(self._config)))
        if not all(map(_is_plain, references)):
            raise Doubt
        self._constant = not references
        self._values: Any = _resolved(self._config) if self._constant else None

    def values(self, choices: Choices) -> Mapping[str, Any]:
        """The resolved configuration with these choices."""
        if not self._constant:
            self._write(choices)
            return _resolved(self._config)
        values = dict(self._values)
        for word, choice in choices.items():
            values[word] = int(choice) if word == SEED else {**values[word], "name": choice}
        return values

    def _write(self, choices: Choices) -> None:
        for word, choice in choices.items():
            if word == SEED:
                self._config.seed = int(choice)
            else:
                self._config[word].name = choice


class Hydra:
    """What is asked of Hydra's loader in one sweep."""

    def __init__(self, loader: ConfigLoader, config: DictConfig) -> None:
        self._loader = loader
        self._config = config

    def compose(self, job: Job) -> DictConfig:
        """One run, Hydra's own part included."""
        return self._loader.load_sweep_config(self._config, list(job))

    def check(self, composed: DictConfig, group: str, names: Iterable[str], rest: Job) -> None:
        """Raises `Doubt` where a choice from a group may change more than its own name."""
        used = composed.hydra.runtime.config_sources
        known = [(source.provider, source.path) for source in self._loader.get_sources()]
        if [(source.provider, source.path) for source in used] != known:
            raise Doubt  # hydra.searchpath names files that are not looked at here
        if any(group in _words(override.partition("=")[0]) for override in rest):
            raise Doubt
        if any(self._options.get(f"{group}/{name}") != option(group, name) for name in names):
            raise Doubt
        if group in self._touched:
            raise Doubt

    @functools.cached_property
    def _options(self) -> dict[str, Any]:
        """What the options of the groups hold, where it goes below the group's own name."""
        return {
            path: _raw(found.config)
            for path, found in self._files.items()
            if (group := path.partition("/")[0]) in GROUPS
            and found.header.get("package") in (None, group)
        }

    @functools.cached_property
    def _touched(self) -> set[str]:
        """Groups whose place some other file writes to, or whose choice it refers to."""
        touched: set[str] = set()
        for path, found in self._files.items():
            package, content = found.header.get("package"), _raw(found.config)
            if not isinstance(content, dict) or path in self._options:
                continue
            place = (package or path.rpartition("/")[0].replace("/", ".")).split(".")
            place = place[place[0] == "_global_" :]
            touched |= set(place[:1]) if place[:1] not in ([], [""]) else set(content)
            for entry in content.get("defaults") or ():
                touched |= _named_in(entry)
        return touched

    @functools.cached_property
    def _files(self) -> dict[str, ConfigResult]:
        """Every file and stored configuration by its path; the first of each name counts."""
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


def _named_in(default: Any) -> set[str]:
    """The groups that an entry of a list of defaults mentions other than by choosing from it."""
    if not isinstance(default, dict):
        return _words(str(default))
    mentioned: set[str] = set()
    for key, value in default.items():
        group = str(key).rpartition(" ")[2].lstrip("/")
        mentioned |= set() if group in GROUPS else _words(group)
        mentioned |= _words(str(value)) if "${" in str(value) else set()
    return mentioned


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text))


def _root(override: str) -> str:
    """The first name that an override writes to, such as `env` in `+env@task.name=x`."""
    return re.split(r"[.@:/\[]", override.partition("=")[0].strip().lstrip("+~"))[0].strip()


def _overrides(choices: Choices) -> list[str]:
    return [f"{word}={choice}" for word, choice in choices.items()]


def _without_hydra(config: DictConfig) -> DictConfig:
    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def _raw(config: Any) -> Any:
    return OmegaConf.to_container(config, resolve=False)


def _resolved(config: DictConfig) -> dict[str, Any]:
    values: Any = OmegaConf.to_container(config, resolve=True)
    return dict(values)


def _references(raw: Any) -> Iterator[str]:
    """Every text that refers to other values."""
    if isinstance(raw, dict):
        for pair in raw.items():
            yield from _references(list(pair))
    elif isinstance(raw, list):
        for item in raw:
            yield from _references(item)
    elif isinstance(raw, str) and "${" in raw:
        yield raw


def _is_plain(text: str) -> bool:
    """Whether a text refers to places outside Hydra's own part only."""
    count = 1
    while count:
        text, count = _REFERENCE.subn("?", text)
    return "${" not in text


_MANY = 100


def specs_of_sweep(
    loader: ConfigLoader, config: DictConfig, job_overrides: Sequence[Sequence[str]]
) -> tuple[list[RunSpec], Path]:
    """The runs of a sweep, checked, and the folder for their results.

    Args:
        loader: Hydra's.
        config: Configuration of the sweep itself.
        job_overrides: Overrides of each run.

    Raises:
        SpecError: A value cannot be used.
        HydraException: A configuration does not exist.
    """
    composer = Composer(loader, config, job_overrides)
    pairs = [
        spec_from_values(composer.values(overrides))
        for overrides in track(
            job_overrides,
            "Reading the sweep",
            console=Console(stderr=True),
            transient=True,
            disable=len(job_overrides) < _MANY,
        )
    ]
    places = {str(place): place for _, place in pairs}
    if len(places) > 1:
        raise SpecError(
            f"results_dir={','.join(places)} cannot be swept: all runs of a sweep go below one "
            "folder. Give one value, and sweep study.name if runs must be kept apart."
        )
    return [spec for spec, _ in pairs], pairs[0][1]
