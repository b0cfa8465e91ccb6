"""Where settings come from: a profile's file, and what was set by hand."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from harness.fields import SpecError, unknown
from harness.record.files import visible
from slurm.settings import MAPPINGS, Settings, settings_from_dict

PROFILES = Path(__file__).parent / "profiles"


def load_settings(profile: str, overrides: Mapping[str, Any]) -> Settings:
    """Settings of a profile with what was set by hand.

    Args:
        profile: Name of a file in `slurm/profiles`, or the path of another one.
        overrides: Settings by name; what is None stays as the profile has it.

    Raises:
        SpecError: Names the file or the setting and what is allowed.
    """
    return override(_merge(_read("default"), _read(profile), profile), overrides)


def override(values: Mapping[str, Any], overrides: Mapping[str, Any]) -> Settings:
    """Settings with some of them changed.

    Args:
        values: All settings by name.
        overrides: Those to change; what is None stays.

    Raises:
        SpecError: Names the setting and what is allowed.
    """
    return settings_from_dict(_merge(values, overrides, "setting"))


def recorded(values: Mapping[str, Any], overrides: Mapping[str, Any], where: str) -> Settings:
    """Settings as they were kept with an earlier submission, with some of them changed.

    Args:
        values: What was kept; settings that did not exist yet have their defaults.
        overrides: Those to change; what is None stays.
        where: Whose they are, for messages.

    Raises:
        SpecError: Names the setting and what is allowed.
    """
    return override(_merge(_read("default"), values, where), overrides)


def _merge(values: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> dict[str, Any]:
    merged = dict(values)
    for name, value in changes.items():
        if name not in values:
            raise SpecError(unknown(f"{where}: {visible(str(name))}", str(name), list(values)))
        if name in MAPPINGS:
            merged[name] = values[name] | _without_none(value, f"{where}: {name}")
        elif value is not None:
            merged[name] = value
    return merged


def _read(profile: str) -> dict[str, Any]:
    path = Path(profile)
    if "/" not in profile and not profile.endswith(".yaml"):
        path = PROFILES / f"{profile}.yaml"
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except OSError as error:
        names = sorted(file.stem for file in PROFILES.glob("*.yaml"))
        raise SpecError(
            f"profile={profile}: {path} cannot be read ({error.strerror}). Known: "
            f"{', '.join(names)}; a file of your own is given by its path."
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SpecError(f"profile={profile}: {path} is not YAML: {error}") from error
    if not isinstance(content, dict):
        raise SpecError(f"profile={profile}: {path} must hold settings as `name: value`.")
    return content


def _without_none(value: Any, what: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise SpecError(f"{what}={value!r} must hold settings as `name: value`.")
    return {str(key): item for key, item in value.items() if item is not None}
