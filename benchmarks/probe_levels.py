"""Answers to all probes at two levels of alignment, and why some differ between frameworks.

parallax probe --alignment exact --json exact.json
parallax probe --alignment lockstep --json lockstep.json
python benchmarks/probe_levels.py exact.json lockstep.json --markdown docs/reference/probe-levels.md
"""

import argparse
import itertools
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.cli.why import list_differing_answers
from parallax.harness.probes.baseline import load_report
from parallax.harness.probes.results import ProbeReport, ProbeResult
from parallax.harness.record.files import write_text

REASONS = (
    (r"initial_|network_layers", "initial weights are each framework's own"),
    (r"default_settings", "defaults, which no level of alignment changes"),
    (r"stored_action", "unit of actions in the buffer; critics see the same"),
    (r"stored_|full_buffer", "what the buffer stores; equal in what an update reads"),
    (r"counts", "step of the first update, and number of updates before it"),
    (r"replay_sampling|replay_coverage|own_draws|generators", "how minibatches are drawn"),
    (r"update_order", "temperature and targets are not read in between, so no number changes"),
    (r"tau_unit", "unit of a setting, which the adapter converts"),
    (r"reloaded_settings", "a fault of sbx's loading, which trainings here do not use"),
    (r"approximate_kl", "metric that is only reported"),
    (r"early_stopping", "sbx undoes the step that exceeds the limit; the weights are the same"),
    (r"action|log_prob|exploration", "actions in the environment"),
)
"""Pattern of a probe's name, and the reason why answers differ where no intervention removes it."""


def main() -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("reports", nargs=2, type=Path, metavar="FILE")
    parser.add_argument("--markdown", type=Path, required=True)
    options = parser.parse_args()
    exact, lockstep = map(load_report, options.reports)
    write_text(options.markdown, render_page(exact, lockstep))
    return 0


def render_page(exact: ProbeReport, lockstep: ProbeReport) -> str:
    """Return the page as Markdown."""
    commands = textwrap.indent(textwrap.dedent(__doc__.partition("\n\n")[2]).rstrip(), " " * 4)
    lines = [
        "# Answers by level of alignment\n",
        "This page lists the probes that frameworks answer differently with equal hyperparameters "
        "(`exact`), or with known differences of the update removed (`lockstep`). *Removed by* "
        "names the interventions that change an answer into that of another framework or of the "
        "paper. If no single intervention is known to do this, it says *the reference form*: the "
        "interventions of the [reference form](../explanation/alignment.md#reference-forms) "
        "together remove the difference.\n",
        f"{commands}\n",
        "| level | probes | answered by two or more | alike in all | not alike | failed to run |",
        "|---|---|---|---|---|---|",
    ]
    for name, report in (("exact", exact), ("lockstep", lockstep)):
        compared = [result for result in report.results if count_measured(result) > 1]
        different = list_different(report)
        failed = sum(a.failed for result in report.results for a in result.answers.values())
        lines.append(
            f"| `{name}` | {len(report.results)} | {len(compared)} | "
            f"{len(compared) - len(different)} | {len(different)} | {failed} |"
        )
    remaining = {result.probe for result in list_different(lockstep)}
    lines += ["\n| probe | who answers alike | at `lockstep` | removed by, or why it stays |"]
    lines.append("|---|---|---|---|")
    known = {result.probe for result in list_different(exact)}
    later = [result for result in list_different(lockstep) if result.probe not in known]
    for result in (*list_different(exact), *later):
        groups = "; ".join(", ".join(group) for group in list_groups(result))
        state = "not alike" if result.probe in remaining else "alike"
        why = describe_reason(exact, result, state)
        lines.append(f"| `{result.probe}` | {groups} | {state} | {why} |")
    return "\n".join(lines) + "\n"


def count_measured(result: ProbeResult) -> int:
    """Return the number of frameworks with an answer."""
    return sum(not answer.unmeasured for answer in result.answers.values())


def list_groups(result: ProbeResult) -> list[tuple[str, ...]]:
    """Return the groups of frameworks with the same answer."""
    measured = {name for name, answer in result.answers.items() if not answer.unmeasured}
    groups = (tuple(name for name in group if name in measured) for group in result.groups)
    return [group for group in groups if group]


def list_different(report: ProbeReport) -> list[ProbeResult]:
    """Return the results with more than one answer."""
    return [result for result in report.results if len(list_groups(result)) > 1]


def describe_reason(report: ProbeReport, result: ProbeResult, state: str) -> str:
    """Return the interventions that remove a difference, or the reason why it stays."""
    names: list[str] = []
    firsts: Sequence[str] = [group[0] for group in list_groups(result)]
    for one, other in itertools.pairwise(firsts):
        for item in list_differing_answers(report, (one, other)):
            if item.result.probe == result.probe:
                names += [f"`{change}` in {framework}" for framework, change in item.removed_by]
    removed = ", ".join(dict.fromkeys(names))
    if state == "alike":
        return removed or "the reference form"
    short = result.probe.partition(".")[2]
    why = next((why for pattern, why in REASONS if re.search(pattern, short)), "nothing known")
    return f"{removed}; {why}" if removed else why


if __name__ == "__main__":
    sys.exit(main())
