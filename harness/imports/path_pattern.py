"""Patterns for the meaning of the parts of a path or a column's name."""

import re
from pathlib import PurePath
from typing import Any

from parallax.harness.contract.fields import SpecError
from parallax.harness.record.files import UnusableError

FIELDS = ("framework", "algorithm", "env", "hps", "seed")
"""Parts of a run's name that a pattern, an option or a column may state."""

_FIELD = re.compile(r"\{([^{}]*)\}")
_IGNORED = ("_", "")
_MAX_NAME = 1000  # characters


class PathPattern:
    """A pattern such as `{algorithm}/{env}_{seed}`.

    A field matches any text without a slash, `{seed}` a whole number, and `{_}` any text, which
    is ignored. The pattern is matched with the last parts of a path.
    """

    def __init__(self, text: str) -> None:
        """Read a pattern."""
        self._text = text
        names = [name for name in _FIELD.findall(text) if name not in _IGNORED]
        unknown = [name for name in names if name not in FIELDS]
        if unknown or len(set(names)) < len(names) or not names:
            raise SpecError(
                f"pattern {text!r} must name some of {', '.join(f'{{{f}}}' for f in FIELDS)}, each "
                "once, and {_} for what is not looked at, such as '{algorithm}/{env}_{seed}'."
            )
        self._depth = text.strip("/").count("/") + 1
        # The greedy and the lazy way to read a text with several separators: they must agree.
        self._forms = [self._compile(repeat) for repeat in ("+", "+?")]

    def _compile(self, repeat: str) -> re.Pattern[str]:
        parts, end = [], 0
        text = self._text.strip("/")
        for match in _FIELD.finditer(text):
            parts.append(re.escape(text[end : match.start()]))
            name = match[1]
            kind = r"\d{1,10}" if name == "seed" else f"[^/]{repeat}"
            parts.append(f"(?:{kind})" if name in _IGNORED else f"(?P<{name}>{kind})")
            end = match.end()
        return re.compile("".join([*parts, re.escape(text[end:])]))

    def match_path(self, path: PurePath) -> dict[str, Any]:
        """Return the fields in the last parts of a path, which must match in one way."""
        name = "/".join(path.parts[-self._depth :])
        found = self.match_name(name)
        if found is None:
            hint = "If this file is not meant, name the others, or their --format"
            deeper = PathPattern(f"{self._text.strip('/')}/{{_}}")  # as of FOLDER/train.monitor.csv
            if deeper.match_name("/".join(path.parts[-deeper._depth :])) is not None:
                hint = f"{deeper._text} fits"
            raise UnusableError(f"{name} does not fit the pattern {self._text}. {hint}")
        return found

    def match_name(self, name: str) -> dict[str, Any] | None:
        """Return the fields in a text; None if it does not match. Two readings are an error."""
        # The time of forms with many fields grows with a power of the length.
        matches = [form.fullmatch(name) for form in self._forms if len(name) <= _MAX_NAME]
        if not matches or matches[0] is None or matches[1] is None:
            return None
        first, second = (match.groupdict() for match in matches if match)
        if first != second:
            field = next(key for key in first if first[key] != second[key])
            raise UnusableError(
                f"{name} fits the pattern {self._text} in two ways: {field} could be "
                f"{first[field]} or {second[field]}. Write the pattern so that it fits one way, "
                "or give this field as an option"
            )
        return {key: int(text) if key == "seed" else text for key, text in first.items()}
