"""Reads and checks a run folder's `diagnosis.json`."""

import dataclasses
import json
from pathlib import Path
from typing import Any

from parallax.harness.record.files import UnusableError, read_bounded, summarize_error
from parallax.harness.record.layout import DIAGNOSIS_FILE
from parallax.harness.record.old_names import translate_check_id

NOT_REQUESTED = "it was not requested"  # reason of a run without a diagnosis
FINDING_LEVELS = ("error", "warning", "note")
_MAX_DIAGNOSIS_BYTES = 2**22
_TEXT_FIELDS = ("id", "name", "level", "seen", "causes", "remedies", "may_be_wrong")


@dataclasses.dataclass(frozen=True)
class DiagnosisReading:
    """Diagnosis of a run as stored in its folder.

    Attributes:
        findings: One mapping each, as `diagnosis.json` has them.
        curves: By a signal's name its steps and values, thinned out.
        reason: Why there is no diagnosis; empty if it was read.
    """

    folder: Path
    findings: tuple[dict[str, Any], ...] = ()
    curves: dict[str, tuple[tuple[int, float], ...]] = dataclasses.field(default_factory=dict)
    reason: str = ""


def read_diagnosis(folder: Path) -> DiagnosisReading:
    """Return the diagnosis of a run; never raises because of a file's content."""
    try:
        content = json.loads(read_bounded(folder / DIAGNOSIS_FILE, _MAX_DIAGNOSIS_BYTES))
        findings = tuple(content["findings"])
        if not all(_is_finding(finding) for finding in findings):
            raise ValueError("a finding lacks what findings have")
        curves = {
            str(name): tuple((int(step), float(value)) for step, value in signal.get("curve", ()))
            for name, signal in content.get("signals", {}).items()
        }
        # Older files have other ids; the schema of `diagnosis.json` did not change with them.
        findings = tuple(one | {"id": translate_check_id(one["id"])} for one in findings)
        return DiagnosisReading(folder, findings, curves)
    except (FileNotFoundError, NotADirectoryError):  # the latter in a file of packed runs
        return DiagnosisReading(folder, reason=NOT_REQUESTED)
    except OSError as error:  # its text contains the path on this machine
        return DiagnosisReading(
            folder, reason=f"{DIAGNOSIS_FILE} cannot be read ({error.strerror})"
        )
    except (UnusableError, ValueError, LookupError, TypeError, AttributeError) as error:
        return DiagnosisReading(
            folder, reason=f"{DIAGNOSIS_FILE} cannot be read ({summarize_error(error)})"
        )
    except RecursionError:
        return DiagnosisReading(
            folder, reason=f"{DIAGNOSIS_FILE} cannot be read (it is nested too deep)"
        )


def _is_finding(finding: Any) -> bool:
    return (
        all(isinstance(finding.get(word), str) for word in _TEXT_FIELDS)
        and all(isinstance(finding.get(name), int) for name in ("first_step", "last_step", "count"))
        and finding["level"] in FINDING_LEVELS
    )
