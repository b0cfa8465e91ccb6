"""Values that probes measure without and with each patch of upstream's code.

FILES="--json docs/patch_proofs.jsonl --markdown docs/reference/patch-proofs.md"
python benchmarks/patch_proofs.py cleanrl sb3 sbx skrl tianshou torchrl $FILES
"""

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from parallax.harness.conformance.hyperparameters import list_patch_cases
from parallax.harness.conformance.patches import find_patch_probe, is_shown, prove_patch
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.record.files import write_text

KEYS = ("framework", "algorithm", "field")


def main() -> int:
    """Measure the patches of some frameworks; answers of others are read from the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("frameworks", nargs="*", metavar="FRAMEWORK")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path, required=True)
    options = parser.parse_args()
    lines = options.json.read_text().splitlines() if options.json.exists() else []
    rows = [row for row in map(json.loads, lines) if row["framework"] not in options.frameworks]
    for framework in options.frameworks:
        rows += measure_patches(framework)
        rows.sort(key=lambda row: [row[key] for key in KEYS])
        write_text(options.json, "".join(json.dumps(row) + "\n" for row in rows))
    write_text(options.markdown, render_page(rows))
    return 0


def measure_patches(framework: str) -> Iterator[dict[str, Any]]:
    """Yield a row per patch: its values as requested and as shown, without it and with it."""
    adapter = load_adapter(framework)
    for algorithm in filter(adapter.supports, ALGORITHMS):
        needed = {case.field for case in list_patch_cases(framework, algorithm) if case.is_patched}
        for field in sorted(adapter.list_patchable_fields(algorithm)):
            row: dict[str, Any] = dict(zip(KEYS, (framework, algorithm, field), strict=True))
            probe = find_patch_probe(algorithm, field)
            if probe is not None and field in needed:
                proof = prove_patch(framework, probe, field)
                pairs = {"before": proof.before, "after": proof.after}
                holds = all(is_shown(field, *pair) for pair in pairs.values())
                row |= {"probe": probe.name, **pairs, "holds": holds and not proof.unconfirmed}
            yield row


def render_page(rows: Sequence[dict[str, Any]]) -> str:
    """Return the page as Markdown."""
    measured = [row for row in rows if "probe" in row]
    proven = sum(row["holds"] for row in measured)
    parts = [
        "# Patches, measured by probes\n",
        "The table shows each [patched](../explanation/alignment.md#patches) hyperparameter as "
        "measured by a probe: upstream's value without the patch, and the requested value with it. "
        "If upstream ties it to another setting, the value without the patch is one that the tie "
        "permits. Brackets contain the number in the answer if steps do not divide evenly.\n",
        textwrap.indent(textwrap.dedent(__doc__.partition("\n\n")[2]).rstrip(), " " * 4) + "\n",
        f"{len(rows)} patches: a probe shows both values of {proven}"
        + f", and another value of {len(measured) - proven}" * (proven < len(measured))
        + f"; {len(rows) - len(measured)} are tested by weights and numbers of updates alone.\n",
        "| hyperparameter | probe | without the patch | with it | frameworks |",
        "|---|---|---|---|---|",
    ]
    grouped: dict[tuple[str, ...], list[str]] = {}
    for row in measured:
        key = (
            row["field"],
            row["probe"],
            *(format_pair(row[when]) for when in ("before", "after")),
        )
        grouped.setdefault(key, []).append(row["framework"] + " (wrong)" * (not row["holds"]))
    for (field, probe, before, after), frameworks in sorted(grouped.items()):
        parts.append(f"| `{field}` | `{probe}` | {before} | {after} | {', '.join(frameworks)} |")
    parts += [
        "\nNo probe measures these:\n",
        "| hyperparameter | algorithm | framework |",
        "|---|---|---|",
    ]
    parts += [
        f"| `{row['field']}` | {row['algorithm']} | {row['framework']} |"
        for row in rows
        if "probe" not in row
    ]
    return "\n".join(parts) + "\n"


def format_pair(pair: Sequence[Any]) -> str:
    """Return a requested value, and the shown one if it differs by more than one percent."""
    value, shown = [
        "null" if x is None else f"{x:.4g}" if isinstance(x, float) else str(x) for x in pair
    ]
    near = isinstance(pair[0], float | int) and abs(pair[0] - (pair[1] or 0)) <= 0.01 * abs(pair[0])
    same = list(pair[0]) == list(pair[1]) if isinstance(pair[0], tuple | list) else value == shown
    return value if near or same else f"{value} ({shown})"


if __name__ == "__main__":
    sys.exit(main())
