"""A user's own copy of a single-file training script, which replaces the shipped one."""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parallax.harness.contract.data_files import read_user_file
from parallax.harness.contract.fields import SpecError, format_value
from parallax.harness.record.layout import format_implementation, format_script_label

_MAX_BYTES = 2**18
_FILE_NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,59}\.py", re.ASCII)


@dataclasses.dataclass(frozen=True)
class OwnScript:
    """A script with its text, so that a run can be repeated without the file.

    Attributes:
        name: Name of the file, without folders.
        sha256: Hash of its bytes.
        source: Its text.
    """

    name: str
    sha256: str
    source: str = dataclasses.field(repr=False)

    @property
    def label(self) -> str:
        """Return name and hash as they are appended to the framework's name."""
        return format_script_label(self.name, self.sha256)

    def name_implementation(self, framework: str) -> str:
        """Return the name of this implementation in place of its framework's."""
        return format_implementation(framework, self.label)


def read_own_script(path: Path) -> OwnScript:
    """Read a script from a file.

    Raises:
        SpecError: It cannot be read, is too large, or is not UTF-8 text.
    """
    try:
        content = read_user_file(path, _MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise SpecError(f"script={path} cannot be read: {reason}. Name one script.") from error
    try:
        source = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(f"script={path} is not text in UTF-8.") from error
    return _check_script(path.name, hashlib.sha256(content).hexdigest(), source)


def make_own_script(content: Any) -> OwnScript | None:
    """Return the script that a specification holds, or None if it has none.

    Raises:
        SpecError: It holds something else, or a text that does not match its hash.
    """
    if content is None or isinstance(content, OwnScript):
        return content
    names = {field.name for field in dataclasses.fields(OwnScript)}
    if (
        not isinstance(content, Mapping)
        or set(content) != names
        or not all(isinstance(value, str) for value in content.values())
    ):
        raise SpecError(f"script={format_value(content)} must be the path of a script.")
    return _check_script(**content)


def _check_script(name: str, sha256: str, source: str) -> OwnScript:
    if not _FILE_NAME.fullmatch(name):
        raise SpecError(
            f"script={name!r} must be the name of a file that ends in .py, of at most 60 letters, "
            "digits, dots, dashes and underscores: rename the file."
        )
    if hashlib.sha256(source.encode()).hexdigest() != sha256:
        raise SpecError(f"script={name}: its text does not have the recorded SHA-256.")
    return OwnScript(name, sha256, source)
