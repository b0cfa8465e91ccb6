"""Settings of Slurm jobs: built-in defaults, then a profile's file, then the command line."""

import dataclasses
import os
import re
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parallax.harness.contract.fields import (
    SpecError,
    bounded_field,
    check_value,
    format_unknown_name,
)
from parallax.harness.record.files import escape_unprintable

_TIME_LIMIT = re.compile(r"(?:(\d{1,6})-)?(\d{1,6}):(\d\d):(\d\d)")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_TEXT_SETTINGS = ("partition", "account", "qos", "constraint", "python", "malloc")
MAPPING_SETTINGS = ("time", "sbatch")
"""Settings that are merged key by key."""


@dataclasses.dataclass(frozen=True)
class SlurmSettings:
    """Settings of submissions.

    Attributes:
        time: Time limit of one run by algorithm, as `HH:MM:SS` or `D-HH:MM:SS`; `default`
            applies to algorithms that are not named.
        sbatch: Further options of sbatch by their long names, such as `mail-type`.
        setup: Shell lines before the run, such as `module load` or activating an environment.
        mem_gb: Memory of a job in GB.
        cpus: Processors of a job; a run with more threads gets as many as it has threads.
        partition: Slurm's partition; null is the cluster's default.
        python: Interpreter on the nodes; null is the one that submits.
        parallelism: Jobs at a time; 0 for the cluster's own limit.
        runs_per_job: Runs that share a job, one after another, each with its time.
        signal_seconds: Seconds between the warning and a job's end.
        timeout_restarts: Restarts of a run that used its whole time and saved no checkpoint.
        preemption_restarts: Number of times that a preempted job is queued again.
        malloc: Memory allocator of the runs: `none`, `tcmalloc`, or the path of a library.
    """

    time: Mapping[str, str]
    sbatch: Mapping[str, Any]
    setup: tuple[str, ...] = bounded_field()
    mem_gb: float = bounded_field(above=0)
    cpus: int = bounded_field(minimum=1)
    partition: str | None = bounded_field()
    account: str | None = bounded_field()
    qos: str | None = bounded_field()
    constraint: str | None = bounded_field()
    python: str | None = bounded_field()
    parallelism: int = bounded_field(minimum=0)
    runs_per_job: int = bounded_field(minimum=1)
    signal_seconds: int = bounded_field(minimum=1)
    timeout_restarts: int = bounded_field(minimum=0)
    preemption_restarts: int = bounded_field(minimum=0)
    malloc: str = bounded_field()

    def get_time_limit(self, algorithm: str) -> str:
        """Time limit of one run, as it was written."""
        return self.time.get(algorithm, self.time["default"])

    def get_minutes(self, algorithm: str) -> int:
        """Time limit of one run, in whole minutes, which are Slurm's unit."""
        return -(-parse_time(self.get_time_limit(algorithm)) // 60)


def settings_from_dict(values: Mapping[str, Any]) -> SlurmSettings:
    """Check values and make `SlurmSettings` of them.

    Raises:
        SpecError: Names the setting, its value and what is allowed.
    """
    hints = typing.get_type_hints(SlurmSettings)
    fields = {field.name: field for field in dataclasses.fields(SlurmSettings)}
    checked: dict[str, Any] = {
        name: _check_mapping(name, values[name])
        if name in MAPPING_SETTINGS
        else check_value(name, values[name], hints[name], field.metadata)
        for name, field in fields.items()
    }
    settings = SlurmSettings(**checked)
    for text in settings.time.values():
        parse_time(text)
    for name in _TEXT_SETTINGS:
        _check_shown(name, getattr(settings, name) or "")
    for line in settings.setup:
        _check_shown("setup", line)
    for option, value in settings.sbatch.items():
        _check_option(option, value)
    return settings


def _check_mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise SpecError(f"{name}={value!r} must hold settings as `name: value`.")
    return {str(key): item for key, item in value.items()}


def _check_option(option: str, value: Any) -> None:
    if not _OPTION.fullmatch(option):
        raise SpecError(
            f"sbatch: {option!r} must be a long option of sbatch without its dashes, such as "
            "mail-type."
        )
    if not isinstance(value, str | int | float):
        raise SpecError(f"sbatch.{option}={value!r} must be a text, a number, or true.")
    _check_shown(f"sbatch.{option}", str(value))


def _check_shown(name: str, value: str) -> None:
    # A line break would begin another line of the script that is shown and queued.
    if not value.isprintable():
        raise SpecError(
            f"{name}={value!r} holds characters that cannot be shown, such as a tab or a line's "
            "end: leave them out, and give each shell line an entry of its own."
        )


def parse_time(text: Any) -> int:
    """Return the seconds of a time limit.

    Raises:
        SpecError: It is not a time.
    """
    match = _TIME_LIMIT.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise SpecError(
            f"time: {text!r} must be 'HH:MM:SS' or 'D-HH:MM:SS', in quotes where it is in a file."
        )
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    if not total:
        raise SpecError(f"time: {text!r} must be more than nothing.")
    return total


PROFILES = Path(__file__).parent / "profiles"


def load_settings(profile: str, overrides: Mapping[str, Any]) -> SlurmSettings:
    """Return the settings of a profile with those set on the command line.

    Args:
        profile: Name of a file in `slurm/profiles`, or the path of another one.
        overrides: Settings by name; what is None stays as the profile has it.

    Raises:
        SpecError: Names the file or the setting and what is allowed.
    """
    return override_settings(
        _merge_settings(_read_profile("default"), _read_profile(profile), profile), overrides
    )


def override_settings(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> SlurmSettings:
    """Return settings with some of them changed.

    Args:
        values: All settings by name.
        overrides: Those to change; what is None stays.

    Raises:
        SpecError: Names the setting and what is allowed.
    """
    return settings_from_dict(_merge_settings(values, overrides, "setting"))


def settings_from_record(
    values: Mapping[str, Any], overrides: Mapping[str, Any], where: str
) -> SlurmSettings:
    """Return the settings saved with an earlier submission, with some of them changed.

    Args:
        values: Saved values; settings that did not exist yet have their defaults.
        overrides: Those to change; what is None stays.
        where: Name of their source, for messages.

    Raises:
        SpecError: Names the setting and what is allowed.
    """
    return override_settings(_merge_settings(_read_profile("default"), values, where), overrides)


def _merge_settings(
    values: Mapping[str, Any], changes: Mapping[str, Any], where: str
) -> dict[str, Any]:
    merged = dict(values)
    for name, value in changes.items():
        if name not in values:
            shown = f"{where}: {escape_unprintable(str(name))}"
            raise SpecError(format_unknown_name(shown, str(name), list(values)))
        if name in MAPPING_SETTINGS:
            merged[name] = values[name] | _drop_none(value, f"{where}: {name}")
        elif value is not None:
            merged[name] = value
    return merged


def _read_profile(profile: str) -> dict[str, Any]:
    # Importing YAML takes as long as reading a hundred runs.
    from parallax.harness.contract.data_files import load_yaml

    path = Path(profile)
    if "/" not in profile and not profile.endswith(".yaml"):
        path = PROFILES / f"{profile}.yaml"
    if not os.path.lexists(path):  # also for a name that is too long
        names = ", ".join(sorted(file.stem for file in PROFILES.glob("*.yaml")))
        raise SpecError(
            f"profile={profile}: {path} does not exist. Known: {names}. For a file of "
            "your own, give its path."
        )
    content = load_yaml(path, "profile") or {}
    if not isinstance(content, dict):
        raise SpecError(f"profile={profile}: {path} must hold settings as `name: value`.")
    return content


def _drop_none(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SpecError(f"{what}={value!r} must hold settings as `name: value`.")
    return {str(key): item for key, item in value.items() if item is not None}
