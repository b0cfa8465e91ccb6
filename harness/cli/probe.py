"""`parallax probe`: measures what one update of each installed implementation does."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.cli.arguments import (
    add_acceleration_argument,
    add_algorithms_argument,
    add_file_argument,
    add_frameworks_argument,
    add_level_arguments,
    add_names_argument,
    add_probe_argument,
    check_output_folders,
    check_used_options,
    choose_alignment,
    select_names,
    write_output_files,
)
from parallax.harness.cli.probe_checkouts import (
    compare_checkout,
    compare_script,
    list_changes_in_order,
)
from parallax.harness.cli.progress import CommandProgress
from parallax.harness.contract.algorithms import PROBED_ALGORITHMS as ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe
from parallax.harness.probes import baseline, catalogue, intervention_check, report, runner
from parallax.harness.probes.baseline import merge_reports
from parallax.harness.probes.claims import checklist, claims
from parallax.harness.probes.claims import page as claims_page
from parallax.harness.probes.experiments import AlignmentLevel
from parallax.harness.probes.probe import Probe
from parallax.harness.probes.results import ProbeReport, report_to_text
from parallax.harness.probes.runner import ProbeRequest
from parallax.harness.record.files import escape_unprintable, make_number_parser, print_lines

_EPILOG = """\
exit codes:
  0  every probe ran; with --baseline, --drift or --path: no answer changed
  1  an answer changed; with --seeds: an answer flips
  2  bad input
  3  a probe failed to run

examples:
  parallax probe --frameworks sb3,cleanrl --algorithms td3
  parallax probe --probe ppo.truncation
  parallax probe --frameworks sb3 --algorithms td3 --acceleration fused-adam
  parallax probe --frameworks sb3 --path ~/stable-baselines3 --commits v2.6.0..HEAD"""

_OUTPUTS = ("json", "markdown", "html", "claims", "details", "baseline")
NO_CHANGE_EXIT, CHANGED_EXIT, FAILED_EXIT = 0, 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.epilog = _EPILOG
    group = parser.add_argument_group("what is probed")
    names = ",".join(sorted(ALGORITHMS))
    add_frameworks_argument(group)
    add_algorithms_argument(group, f"algorithms of {names} (default: all)")
    add_probe_argument(group)
    upstream = "upstream: each framework's own, even for options that Parallax otherwise sets and "
    upstream += "that no hyperparameter covers (`parallax alignment --options`); "
    add_level_arguments(group, upstream)
    text = "list the probes without running them"
    group.add_argument("--list", action="store_true", help=text)
    group = parser.add_argument_group("output")
    text = "also print the probes that find no difference"
    group.add_argument("--all", action="store_true", help=text)
    add_file_argument(group, "--html", "write the answers with figures to this HTML page")
    add_file_argument(group, "--markdown", "write the answers to this Markdown page")
    add_file_argument(group, "--json", "write the answers to this JSON file")
    add_file_argument(
        group,
        "--claims",
        "write a Markdown page of published claims about implementations, and whether the "
        "answers confirm them",
    )
    add_file_argument(
        group,
        "--details",
        "write a checklist of implementation details of the first algorithm, with each "
        "framework's answer, to this Markdown page, or as data to FILE.json",
    )
    group = parser.add_argument_group("stored answers")
    add_file_argument(group, "--baseline", "compare with the answers in a file of --json")
    text = "store the answers in the --baseline file"
    group.add_argument("--update-baseline", action="store_true", help=text)
    add_file_argument(group, "--answers", "read answers from a file of --json; run nothing")
    text = "measure again instead of reusing answers that were measured with the same code, "
    text += "versions and machine"
    group.add_argument("--fresh", action="store_true", help=text)
    text = "Without these options, the installed frameworks are compared with each other."
    group = parser.add_argument_group("one framework compared with itself", text)
    text = "compare a checkout of the framework with the installed version"
    group.add_argument("--path", type=Path, metavar="CHECKOUT", help=text)
    text = "with --path: compare commits of the checkout instead of its current files"
    group.add_argument("--commits", metavar="A..B", help=text)
    text = "with --path: find the changed lines behind each changed answer, by measuring it again "
    text += "without them"
    group.add_argument("--causes", action="store_true", help=text)
    text = "compare your own copy of a CleanRL script with the wheel's"
    add_file_argument(group, "--script", text)
    text = "compare two installed versions: this Python's and that of --python"
    group.add_argument("--drift", metavar="FRAMEWORK", help=text)
    text = "run one framework in another Python interpreter"
    group.add_argument("--python", metavar="PATH", help=text)
    text = "show which answers an intervention changes; names: `parallax intervention list`"
    group.add_argument("--intervention", metavar="NAME", help=text)
    add_acceleration_argument(group)
    group = parser.add_argument_group("other measurements")
    text = "measure on N sets of scripted random numbers and list the answers that differ between "
    text += "them (default: 1)"
    seeds = make_number_parser(1, 1000)
    group.add_argument("--seeds", type=seeds, default=1, metavar="N", help=text)
    text = "probe environments, wrappers and vectorized environments instead of updates; with a "
    text += "name, your own wrapper or environment"
    group.add_argument("--environments", nargs="?", const=False, metavar="MODULE:CLASS", help=text)
    text = "with --environments: measure these releases of gymnasium, each in a virtual "
    text += "environment that is built and cached"
    add_names_argument(group, "--releases", text)


def check_options(options: argparse.Namespace) -> None:
    """Check the options against each other; `--drift` and `--intervention` select a framework."""
    if options.update_baseline and not options.baseline:
        raise SpecError("--update-baseline needs --baseline FILE, the file to write.")
    check_checkout_options(options)
    if options.answers:
        used = ("answers", "algorithms", "frameworks", "probe", "all", *_OUTPUTS, "update_baseline")
        check_used_options(options, used, "--answers FILE runs no probe")
    others = ["drift", "intervention", "acceleration"]
    if options.seeds > 1 and any(getattr(options, name) for name in others):
        raise SpecError("--seeds measures installed frameworks: drop the other comparison.")
    others = ["drift", "baseline", "python", "claims"]
    more = [*others, "intervention", "path", "script"]
    for name, excluded in (("intervention", others), ("acceleration", more)):
        if value := getattr(options, name):
            intervention_check.get_single_framework(f"--{name} {value}", options.frameworks)
            if given := [other for other in excluded if getattr(options, other)]:
                raise SpecError(f"--{name} compares with the unchanged code: drop --{given[0]}.")
    if options.drift:
        if not options.python:
            raise SpecError("--drift needs the other interpreter: add --python PATH.")
        if options.frameworks not in (None, [options.drift]):
            raise SpecError(f"--drift {options.drift} is about one framework: drop --frameworks.")
        if options.baseline:
            raise SpecError("--drift compares with the other interpreter: drop --baseline.")
        options.frameworks = [options.drift]
    elif options.python and (options.frameworks is None or len(options.frameworks) != 1):
        raise SpecError("--python runs one framework: name it with --frameworks or --drift.")


def check_checkout_options(options: argparse.Namespace) -> None:
    """Check `--path`, `--commits` and `--script` against the other options."""
    if options.commits and not options.path:
        raise SpecError("--commits needs a repository: add --path CHECKOUT.")
    if options.causes and not options.path:
        raise SpecError("--causes is about the changes of a checkout: add --path CHECKOUT.")
    if not (options.path or options.script):
        return
    option = "--path" if options.path else "--script"
    others = ["drift", "baseline", "intervention", "claims", "details"]
    others += ["path", "python"] if options.script else []
    given = [name for name in others if getattr(options, name)]
    if given or options.seeds > 1:
        raise SpecError(
            f"{option} compares code of one framework: drop --{(given or ['seeds'])[0]}."
        )
    if options.frameworks is None or len(options.frameworks) != 1:
        raise SpecError(f"{option} is about one framework: name it with --frameworks.")
    if options.path and not options.path.is_dir():
        raise SpecError(f"--path {options.path} is not a folder: name the top of a checkout.")


def render_files(found: ProbeReport, options: argparse.Namespace) -> dict[Path, str]:
    """Return the contents of the output files."""
    contents: dict[Path, str] = {}
    if options.json:
        contents[options.json] = report_to_text(found)
    if options.claims:
        contents[options.claims] = claims_page.render_claims_page(found, claims.load_claims())
    if options.details:
        contents[options.details] = render_details(found, options)
    if options.html:
        contents[options.html] = report.render_html_page(found)
    if options.markdown:
        contents |= report.render_markdown_pages(options.markdown, found)
    return contents


def render_details(found: ProbeReport, options: argparse.Namespace) -> str:
    """Return the checklist of details as a page, or as JSON where the name says so."""
    details = checklist.load_checklist(options.algorithms or ())
    try:
        if options.details.suffix == ".json":
            return json.dumps(checklist.details_to_dict(found, details), indent=1) + "\n"
        return checklist.render_details_page(found, details)
    except KeyError as error:
        raise SpecError(
            f"--details needs the answers to all probes; {error.args[0]} is missing: drop "
            f"--probe, and use --algorithms {','.join(details.algorithms)}."
        ) from error


def run(options: argparse.Namespace) -> int:
    """Run the probes, print the answers and write the files that the options name.

    Returns:
        0; 1 where an answer changed; 3 where a probe failed to run.
    """
    if options.environments is not None:
        # Loads gymnasium and MuJoCo, which questions about updates do not need.
        from parallax.harness.cli.probe_environments import run_environments

        return run_environments(options)
    if options.releases:
        raise SpecError("--releases needs --environments.")
    if options.list:
        check_used_options(options, ("list", "algorithms", "probe"), "--list runs no probe")
    check_options(options)
    if options.details and options.algorithms:  # a checklist is about a family of algorithms
        family = checklist.load_checklist(options.algorithms).algorithms
        options.algorithms = list(dict.fromkeys([*options.algorithms, *family]))
    probes = catalogue.select_probes(options.algorithms or [], options.probe)
    if options.list:
        lines = (f"{p.name:28} {format_resolution(p):>9}  {p.question}" for p in probes)
        print(*lines, sep="\n")
        return NO_CHANGE_EXIT
    check_output_folders(getattr(options, name) for name in _OUTPUTS)
    if options.path or options.script:
        return run_other_code(probes, options)
    return run_installed_code(probes, options)


def run_installed_code(probes: Sequence[Probe], options: argparse.Namespace) -> int:
    """Compare installed implementations with each other, stored answers or another interpreter."""
    creates_file = options.update_baseline and not options.baseline.exists()
    stored = None if creates_file else load_baseline(options)
    found = load_answers(probes, options) if options.answers else collect_answers(probes, options)
    flips: list[str] = []
    if options.seeds > 1:  # the page and the files show the first numbers alone
        flips = baseline.list_seed_flips(found, options.seeds)
        first = [name for name in found.versions if " seed " not in name]
        found = baseline.select_answers(found, [probe.name for probe in probes], first)
    # Texts of a file may hold ends of lines, which would print lines of their own.
    table = list(map(escape_unprintable, report.format_report(found, options.all)))
    if stored or options.drift:  # what changed first, and everything below it
        changed = print_comparison(found, stored, options, probes)
        print_lines(["", *table])
    else:
        print_lines(table)
        changed = print_comparison(found, stored, options, probes)
    write_output_files(render_files(found, options), [options.markdown, options.claims])
    if options.seeds > 1:
        summary = f"On {options.seeds} sets of numbers: {len(flips)} answers flip."
        print_lines(["", summary, *(f"  {flip}" for flip in flips)])
    return choose_exit_code(found, changed or bool(flips))


def choose_exit_code(found: ProbeReport, changed: bool) -> int:
    """Return the exit code: a probe that failed to run counts before an answer that changed."""
    if any(answer.failed for result in found.results for answer in result.answers.values()):
        return FAILED_EXIT
    return CHANGED_EXIT if changed else NO_CHANGE_EXIT


def load_baseline(options: argparse.Namespace) -> ProbeReport | None:
    """Load the stored answers that the new ones are compared with, if the options name some."""
    if not options.baseline:
        return None
    stored = baseline.load_report(options.baseline)
    level = AlignmentLevel(stored.alignment, stored.hps)
    options.alignment = options.alignment or level.name
    given = AlignmentLevel(options.alignment, options.hps if level.uses_recipe else level.hps)
    if not options.answers and level != given:
        recipe = f" --hps {level.hps}" if level.uses_recipe else ""
        raise SpecError(
            f"--baseline {options.baseline} has answers of --alignment {level.name}{recipe}: give "
            "the same here, or another file."
        )
    return stored


def run_other_code(probes: Sequence[Probe], options: argparse.Namespace) -> int:
    """Compare a checkout or an own script, the changed answers first and all after them."""
    request = parse_request(probes, options)
    if options.script:
        found = compare_script(request, options.script)
    else:
        found = compare_checkout(request, options.path, options.commits, options.causes)
    print_lines(["", *report.format_report(found, options.all)])
    write_output_files(render_files(found, options), [options.markdown, options.claims])
    return choose_exit_code(found, bool(list_changes_in_order(found)))


def format_resolution(probe: Probe) -> str:
    """Return the smallest relative difference that a probe distinguishes from rounding."""
    return "whole" if probe.counts else f"{probe.tolerance:.2%}"


def load_answers(probes: Sequence[Probe], options: argparse.Namespace) -> ProbeReport:
    """Load stored answers of the selected probes and implementations."""
    stored = baseline.load_report(options.answers)
    names = select_names("--frameworks", options.frameworks, list(stored.versions))
    found = baseline.select_answers(stored, [probe.name for probe in probes], names)
    if not found.results or not found.versions:
        raise SpecError(f"--answers {options.answers}: the file has no such answers.")
    return found


def parse_request(probes: Sequence[Probe], options: argparse.Namespace) -> ProbeRequest:
    """Return the request that the options describe."""
    single = options.frameworks is not None and len(options.frameworks) == 1
    about_releases = single or options.claims or options.details
    alignment = choose_alignment(options, compares_frameworks=not about_releases)
    request = ProbeRequest(
        tuple(probes),
        None if options.frameworks is None else tuple(options.frameworks),
        options.python,
        compares_versions=bool(options.drift),
        intervention=options.intervention or "",
        level=AlignmentLevel(alignment, options.hps),
        seeds=options.seeds,
        acceleration=options.acceleration or "",
        uses_store=not options.fresh,
    )
    check_recipe(request)
    return request


def check_recipe(request: ProbeRequest) -> None:
    """Check that the recipe is one of at least one of the algorithms."""
    errors = []
    for algorithm in request.algorithms if request.level.uses_recipe else ():
        try:
            load_recipe(algorithm, request.level.hps)
        except SpecError as error:
            errors.append(error)
    if errors and len(errors) == len(request.algorithms):
        raise errors[0]


def collect_answers(probes: Sequence[Probe], options: argparse.Namespace) -> ProbeReport:
    """Run the probes on the implementations, with progress on standard error."""
    request = parse_request(probes, options)
    targets = runner.find_targets(request)
    labels = [target.label for target in targets.targets]
    if options.claims:  # before the probes run, which takes minutes
        probe_names = [probe.name for probe in probes]
        claims_page.check_answers_complete(labels, probe_names, claims.load_claims())
    with CommandProgress(len(labels) * len(probes)) as progress:
        found = runner.run_probes(request.probes, targets, progress.advance)
    if not any(result.answers for result in found.results):
        algorithms = ", ".join(request.algorithms)
        names = ", ".join(labels)
        raise SpecError(f"--frameworks {names}: none implements {algorithms}. Name another one.")
    return found


def print_comparison(
    found: ProbeReport,
    stored: ProbeReport | None,
    options: argparse.Namespace,
    probes: Sequence[Probe],
) -> bool:
    """Print what changed since the stored answers; store the new ones with `--update-baseline`."""
    if options.intervention:
        changed = found, options.frameworks[0], options.intervention
        lines = intervention_check.format_changes(*changed)
        lines += intervention_check.list_wrong_predictions(*changed, probes)
        print_lines(["", *lines])
        return False
    if options.acceleration:
        lines = intervention_check.format_changes(
            found, options.frameworks[0], options.acceleration
        )
        print_lines(["", *lines])
        return False
    if options.drift:
        print_lines(["", *baseline.format_version_lines(found)])
        return bool(baseline.list_version_changes(found))
    changes = baseline.list_changes(found, stored) if stored else []
    if stored:
        print(f"\nAgainst {options.baseline}: {len(changes)} answers changed.")
        versions = baseline.list_version_differences(found, stored)
        print_lines(f"  {escape_unprintable(line)}" for line in (*changes, *versions))
    if options.update_baseline:
        merged = merge_reports(found, stored) if stored else found
        write_output_files({options.baseline: report_to_text(merged)})
        print(f"Stored in {options.baseline}.")
        return False
    return bool(changes)
