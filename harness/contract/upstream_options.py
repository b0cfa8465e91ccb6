"""Options of upstream that no hyperparameter covers: those that a run sets, and all others.

An adapter gives some of them one value for all runs, for example to make frameworks comparable.
Users of the framework without Parallax get upstream's default.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from parallax.harness.contract.adapter import Adapter
from parallax.harness.contract.translation import NativeConfig

RUN_OPTIONS = frozenset({"seed", "device", "cuda", "env-id", "total-timesteps"})
"""Names under which upstream takes what every run states: seed, device, task and length."""


@dataclasses.dataclass(frozen=True)
class UpstreamOption:
    """One option that no hyperparameter covers."""

    name: str
    default: Any
    value: Any

    @property
    def is_overridden(self) -> bool:
        """Return whether a run has another value than upstream's users get."""
        return bool(self.value != self.default)


def list_upstream_options(
    adapter: Adapter, algorithm: str, native: NativeConfig
) -> list[UpstreamOption]:
    """List the options that upstream declares and no hyperparameter covers, overridden ones first.

    The list is empty if upstream declares no defaults, as Tianshou does.
    """
    covered = {setting.native_name for setting in native.alignment} | RUN_OPTIONS
    options = [
        UpstreamOption(name, default, native.settings.get(name, default))
        for name, default in (adapter.upstream_defaults(algorithm) or {}).items()
        if name not in covered and not name.startswith("_")
    ]
    return sorted(options, key=lambda option: not option.is_overridden)


def restore_upstream_options(
    adapter: Adapter, algorithm: str, native: NativeConfig
) -> NativeConfig:
    """Return a translated run with upstream's defaults in place of what the adapter overrides."""
    restored: Mapping[str, Any] = {
        option.name: option.default
        for option in list_upstream_options(adapter, algorithm, native)
        if option.is_overridden
    }
    return dataclasses.replace(native, settings={**native.settings, **restored})
