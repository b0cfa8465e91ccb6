"""Installed packages: entry points, modified files, and the releases that adapters support.

Entry points are searched once per process. An adapter states its releases as `supported_versions`;
they are read without importing the framework, so that an unsupported version is refused at once.
"""

import base64
import dataclasses
import functools
import hashlib
import importlib.metadata
import re
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from parallax.harness.contract.fields import SpecError

NumberedVersion = tuple[int, ...]

# The rest may be part of a folder's name and of a requirement: no slash, space or semicolon.
# Python converts at most 4,300 digits.
_VERSION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9}){0,9})[0-9A-Za-z.+_-]{0,100}")


def find_entry_points(group: str) -> importlib.metadata.EntryPoints:
    """Return all entry points of a group that name an object, without importing them."""
    found = _load_entry_points(tuple(sys.path)).select(group=group)
    return importlib.metadata.EntryPoints(e for e in found if e.pattern.match(e.value))


@functools.lru_cache(maxsize=8)
def _load_entry_points(path: tuple[str, ...]) -> Any:
    # Cached: a search of `sys.path` takes 15 ms, and a run looks up adapters, algorithms, watchers
    # and checks, a study thousands of times.
    return importlib.metadata.entry_points()


def list_changed_modules(package: str) -> list[str]:
    """Return the modules of a distribution that differ from its wheel; none of a checkout.

    Returns:
        Paths relative to site-packages.
    """
    files = importlib.metadata.files(package) or []
    return [str(f) for f in files if f.suffix == ".py" and f.hash and not _has_hash(f, f.hash)]


def _has_hash(file: importlib.metadata.PackagePath, due: importlib.metadata.FileHash) -> bool:
    try:
        content = Path(str(file.locate())).read_bytes()
    except OSError:
        return False
    # RECORD has hashes as PEP 427 writes them: URL-safe base64 without padding.
    found = base64.urlsafe_b64encode(hashlib.new(due.mode, content).digest())
    return found.rstrip(b"=").decode() == due.value


@dataclasses.dataclass(frozen=True)
class VersionRange:
    """Versions of a package that an adapter supports, and their companion packages.

    Attributes:
        package: Name of the distribution.
        oldest: The first version.
        before: The first version that is too new.
        companions: By an upper version bound, packages `name==version` that versions below it need
            in place of the current ones; the smallest bound above a version applies.
        update_modules: By algorithm, the modules whose code turns transitions into new weights.
        why_not_older: Sentence that says why releases before `oldest` are not supported.
        broken: By unsupported version between the bounds, a sentence that says why.
    """

    package: str
    oldest: str
    before: str
    companions: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    update_modules: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    why_not_older: str = ""
    broken: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        """Return the range as a requirement."""
        others = "".join(f",!={version}" for version in self.broken)
        return f"{self.package}>={self.oldest},<{self.before}{others}"

    def contains(self, text: str) -> bool:
        """Return whether a version is in the range."""
        oldest, before = parse_version(self.oldest), parse_version(self.before)
        return oldest <= parse_version(text) < before and text not in self.broken

    def list_requirements(self, text: str) -> tuple[str, ...]:
        """Return the packages to install for one version, with exact versions.

        Raises:
            SpecError: The version is not in the range.
        """
        if not self.contains(text):
            is_older = parse_version(text) < parse_version(self.oldest)
            reason = self.why_not_older if is_older else self.broken.get(text, "")
            words = f"{self.package}=={text} is not supported. Use {self}. {reason}"
            raise SpecError(words.strip())
        number = parse_version(text)
        bounds = sorted(self.companions, key=parse_version)
        beside = next((self.companions[b] for b in bounds if number < parse_version(b)), ())
        return (f"{self.package}=={text}", *beside)

    def check_installed(self) -> None:
        """Check the installed version without importing the package.

        Raises:
            SpecError: It is outside the range.
        """
        try:
            installed = version(self.package)
        except PackageNotFoundError:  # a source tree on the path: there is nothing to compare
            return
        if not self.contains(installed):
            raise SpecError(
                f"{self.package}=={installed} is not supported. Use {self}: pip install '{self}'"
            )


def parse_version(text: str) -> NumberedVersion:
    """Return the numbers at the start of a version, such as (2, 2, 1) of 2.2.1rc1."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise SpecError(f"{text[:40]!r} is not a version. Write numbers such as 2.2.1.")
    return tuple(map(int, found[1].split(".")))
