"""The documentation against the files, the commands and the code that it names."""

import ast
import csv
import dataclasses
import importlib
import importlib.util
import json
import re
import shlex
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import yaml
from loops import iterate_some

from parallax.analysis.figures.families import FAMILIES
from parallax.analysis.stats.two_sample import compute_wilson_interval
from parallax.envs.tasks import load_task
from parallax.harness.cli import main as cli
from parallax.harness.contract import events
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.algorithms.dqn import DQN
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import load_recipe, read_recipe
from parallax.harness.contract.run_spec import RUN_DEFAULTS, RunSpec, make_run_spec
from parallax.harness.diagnosis.checks import load_all_checks
from parallax.harness.interventions.mutants import load_mutants
from parallax.harness.record.labels import FRAMEWORK_LABELS
from parallax.harness.record.packed import PACKED_SCHEMA, read_rows
from parallax.harness.train.prepare import prepare_run
from tests.line_faults import Outcome, load_faults, load_outcomes

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(
    path
    for path in [ROOT / "README.md", ROOT / "SECURITY.md", *DOCS.rglob("*.md")]
    if not {DOCS / "study", DOCS / "snippets"} & set(path.parents)
)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([\w-]+))?\)")
COMMAND = re.compile(r"(?:^|`)parallax ([a-z][^`]*)", re.M)
COMMANDS = [command.words for command in cli.COMMANDS]
QUICK = {
    "tutorial.md": [
        "parallax --help",
        "parallax train framework=sb3 algorithm=ppo env=InvertedPendulum-v4 steps=4096 "
        "eval_every=2048 eval_episodes=10",
        "parallax probe --algorithms ppo --frameworks sb3,cleanrl --probe value_loss "
        "--alignment defaults",
    ],
    "explanation/alignment.md": ["parallax alignment --algorithms td3 --hps original"],
    "how-to/probe-updates.md": ["parallax probe --list"],
    "how-to/ablation.md": ["parallax intervention list"],
    "reference/interventions.md": [
        "parallax intervention list --kind user-faults --algorithms dqn --hps zoo --steps 50000",
        "parallax intervention list --kind mutants --frameworks sb3 --algorithms td3 --all",
    ],
}
"""Commands of code blocks that run within a minute, in this order, by page."""


def load_generator():
    spec = importlib.util.spec_from_file_location("docs_generate", DOCS / "generate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATED = {DOCS / path for path in load_generator().PAGES}


def name(path):
    return str(path.relative_to(ROOT))


def find_code_blocks(text):
    """Return indented blocks of commands, with continued lines joined."""
    joined = re.sub(r" *\\\n +", " ", text)
    return [line.strip() for line in joined.splitlines() if line.startswith("    ")]


def list_anchors(path):
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
    plain = (re.sub(r"[^\w\s-]", "", heading.lower()) for heading in headings)
    return {re.sub(r"\s+", "-", text.strip()) for text in plain} | set(
        re.findall(r'<a id="([\w-]+)">', path.read_text())
    )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for target, anchor in LINK.findall(text):
        if ":" in target:
            continue
        path = (page.parent / target).resolve() if target else page
        assert path.exists() or path in GENERATED, f"{name(page)}: {target}"
        if anchor and path.suffix == ".md" and path.exists() and path.parent != DOCS / "study":
            assert anchor in list_anchors(path), f"{name(page)}: {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page):
    text = page.read_text()
    words = [*find_code_blocks(text), *re.findall(r"`(parallax [^`]+)`", text)]
    groups = {command.split()[0] for command in COMMANDS if " " in command}
    for line in words:
        if not line.startswith("parallax ") or line.startswith("parallax COMMAND"):
            continue
        first, *rest = line.split("#")[0].split()[1:]
        if first.startswith("-"):
            continue
        command = f"{first} {rest[0]}" if first in groups and rest else first
        assert command in COMMANDS or command in groups, f"{name(page)}: {line}"


def read_page(name):
    return (DOCS / name).read_text()


def list_table_names(text, heading):
    """Return the names in the first column of the first table below a heading or sentence."""
    table = text.partition(f"\n{heading}\n")[2].partition("\n|---|")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[1:]]
    return [name for cell in cells for name in re.findall("`(.+?)`", cell)]


def test_tables_of_the_run_folder_have_every_field():
    text = read_page("reference/run-folder.md")
    fields = {field.name for field in dataclasses.fields(RunSpec)}
    named = list_table_names(text, "Fields of `spec`:")
    assert fields - set(named) == {"intervention", "checkpoint_every"}  # named in a row's text
    assert list_table_names(text, "## Packed studies") == PACKED_SCHEMA.names


def test_paths_of_runs_are_those_of_default_settings():
    text = read_page("reference/run-folder.md")
    recipe = read_recipe("ppo", "original")
    given = {"study": "s", "framework": "sb3", "algorithm": "ppo", "env": "Hopper-v5", "seed": 0}
    given |= RUN_DEFAULTS | {"hps": "original", "alignment": "exact", "eval_every": None}
    for steps in (100_000, 20_000):
        variant = make_run_spec(given | {"steps": steps}, recipe, recipe).variant
        assert f"`{variant}`" in text, variant
    assert len(re.findall(r"/sb3/steps=100000,alignment=exact\"", text)) == 2


def test_events_of_the_page_exist():
    text = read_page("reference/events.md")
    named = re.findall(r"`([A-Z][a-z]+[A-Z]\w+)`|subscribe\((\w+)", text)
    names = {first or second for first, second in named} - {"TrainingEvents"}
    assert len(names) > 12
    assert [name for name in sorted(names) if not hasattr(events, name)] == []


def test_figure_families_of_the_page_exist():
    named = list_table_names(read_page("reference/figures.md"), "## Figures")
    assert sorted(named) == sorted(family.name for family in FAMILIES)


def test_the_architecture_names_every_package_of_the_harness():
    text = read_page("explanation/architecture.md")
    folders = [path.parent.name for path in (ROOT / "harness").glob("*/__init__.py")]
    assert [name for name in iterate_some(folders) if not re.search(rf"[/`]{name}/`", text)] == []


def test_numbers_on_pages_equal_those_of_the_code():
    results = json.loads((DOCS / "differences.json").read_text())["results"]
    answers = [one["answers"]["skrl"] for one in results if "skrl" in one["answers"]]
    answered = sum(not (one["unmeasured"] or one["failed"]) for one in answers)
    words = f"Of {len(answers)} questions, {answered} are answered"
    assert words in read_page("reference/frameworks.md")
    text = read_page("explanation/alignment.md")
    words = f"{len(DQN.common_fields)} of {len(dataclasses.fields(DQN))} hyperparameters of DQN"
    assert words in text
    context = RunContext(load_task("InvertedPendulum-v4"), 20_000, 0, patch_constants=True)
    taken = {
        name: load_adapter(name).translate("ppo", load_recipe("ppo", "original"), context)
        for name in ("cleanrl", "sb3", "torchrl", "tianshou", "skrl", "sbx")
    }
    steps = {name: f"{native.total_steps:,}" for name, native in taken.items()}
    words = f"CleanRL's PPO trains {steps.pop('cleanrl')}, skrl's {steps.pop('skrl')} and the "
    assert f"{words}others' {set(steps.values()).pop()}" in text and len(set(steps.values())) == 1
    (score,) = [row for row in load_references() if row[0] == "MinAtar/Breakout"]
    for page in iterate_some(["reference/images.md", "reference/example-studies.md"]):
        assert f"{score[1]} ± {score[2]} over {score[3]} episodes" in read_page(page)


def test_counts_of_killed_trainings_are_sums_of_the_tables():
    section = read_page("reference/benchmarks.md").partition("\n## Checkpoints")[2]
    rows = re.findall(r"^\| (.*) \| (\d+) \| (\d+) \| (\d+)\b.* \|$", section, re.M)
    groups = {"other": [0, 0], "sbx": [0, 0], "early": [0, 0]}
    for name, kills, equal, resumed in rows:
        assert kills == equal
        kind = "early" if name.startswith("`--seed") else name if name == "sbx |" else "other"
        kind = "sbx" if name.startswith("sbx |") else kind
        groups[kind] = [groups[kind][0] + int(kills), groups[kind][1] + int(resumed)]
    text = read_page("explanation/checkpoints.md")
    assert "All {} killed runs ended bit-identical: {} resumed".format(*groups["early"]) in text
    assert f"{groups['other'][0] + groups['sbx'][0]} more killed runs of all six" in text
    assert (
        "Of the {} runs of the five frameworks in PyTorch, {} (96%)".format(*groups["other"])
        in text
    )
    assert "Of the {} of sbx, {} did".format(*groups["sbx"]) in text


def test_counts_of_mutants_are_those_of_the_stored_outcomes():
    text = read_page("reference/error-rates.md")
    lines = (DOCS / "mutants.jsonl").read_text().splitlines()
    found = [one for one in map(json.loads, lines) if one["outcome"] == "found"]
    early = sum(one["asked"] <= 4 for one in found)
    assert (
        f"holds {len(lines)} mutants" in text and f"detect **{len(found)} of {len(found)}" in text
    )
    assert f"{early} of the {len(found)} are found by one of the first four probes" in text
    verdicts = list(map(json.loads, (DOCS / "conformance.jsonl").read_text().splitlines()))
    stored = {one["mutant"]: one["found"] for one in verdicts}
    section = text.partition("\n## All detectors")[2]
    rows = re.findall(r"^\| `(sb3/\w+/\d+)`.*? \| .*? \| (.*?) \|", section, re.M)
    assert len(rows) == 12 and len(stored) == 18 and "on all 18 mutants" in text
    assert {name: word != "-" for name, word in rows} == {name: stored[name] for name, _ in rows}
    assert sum(stored.values()) == sum(word != "-" for _, word in rows)
    for detector, ones in (("probes", found), ("conformance", verdicts)):
        seconds = [one["seconds"] for one in ones if one["mutant"] in dict(rows)]
        cost = re.search(rf"^\| {detector} \| 12 \|.* (.*) \|$", section, re.M)
        assert len(seconds) == 12 and cost[1] == f"{statistics.median(seconds):.1f}"


def test_intervals_of_samples_of_faults_are_wilson_intervals():
    text = read_page("reference/error-rates.md").replace("*", "")
    rows = re.findall(r"^\| (?:\d+|together) \| (\d+) of \d+ \|(.*)\|$", text, re.M)
    assert len(rows) == 13
    for measured, cells in rows:
        shares = re.findall(r"(\d+)(?: of (\d+))? \(\d+%; (\d+)% to (\d+)%\)", cells)
        assert len(shares) >= 2
        for count, of, *printed in shares:
            ends = compute_wilson_interval(int(count), int(of or measured))
            assert [round(100 * end) for end in ends] == list(map(int, printed)), (count, of)


def test_counts_of_line_faults_are_those_of_the_stored_outcomes():
    faults = {fault.name: fault for fault in load_faults()}
    outcomes = [Outcome(faults[name], changes) for name, changes in load_outcomes().items()]
    found = sum(bool(outcome.changes) for outcome in outcomes)
    named = sum(outcome.is_named for outcome in outcomes)
    assert (
        f"of all {len(faults)} faults, {found} are found and {named} are named as written now"
        in read_page("reference/error-rates.md")
    )
    assert len(outcomes) == len(faults)


def test_commands_of_simulations_have_the_numbers_of_their_tables():
    text = read_page("reference/simulations.md")
    for script, words in (("false_equivalence", "pairs each"), ("omnibus_rates", "simulated")):
        (repeats, section) = re.findall(rf"{script}\.py --repeats (\d+)\n(.*?)\n\|", text, re.S)[0]
        assert f"{int(repeats):,} {words}" in section


def test_runs_on_pages_of_papers_are_as_many_as_in_the_overview():
    overview = read_page("papers/README.md")
    text = read_page("papers/r2d2.md").partition("## What was run")[2]
    parts = re.findall(
        r"^\| (?:staleness|lag|does it learn\?) \| \| .*?(\d+) (?:req|runs)", text, re.M
    )
    learning = text.partition("## Does it learn?")[2]
    assert int(parts[2]) == len(re.findall(r"\| 1 \|$|^\| \d \| after|\(one run", learning, re.M))
    assert len(parts) == 3 and f"| {sum(map(int, parts))} runs |" in overview
    text = read_page("papers/imp-per.md").partition("## What was run")[2]
    ((short, tasks),) = re.findall(
        r"^\| runs requested.*? \| (\d+), .*? (\d+) on each of the four", text, re.M
    )
    assert f"| {int(short) + 4 * int(tasks)} runs |" in overview


def load_references():
    """Return task, mean, deviation and episodes of the published scores of random actions."""
    file = ROOT / "analysis" / "data" / "published" / "random.csv"
    with file.open(newline="") as lines:
        return [(row[1], row[7], row[8], row[10]) for row in csv.reader(lines)]


def test_commands_of_example_studies_have_the_level_of_their_runs():
    blocks = re.findall(r"(?:^    .*\n)+", read_page("reference/example-studies.md"), re.M)
    levels = {}
    for name in ("clipping", "td3_sbx", "target"):
        level = {
            json.loads(row["run_json"])["spec"]["alignment"]
            for row in read_rows(DOCS / f"{name}.parquet")
        }
        (block,) = [block for block in blocks if f"study.name={name}" in block]
        levels[name] = level == {"thesis"}, "alignment=common" in block
    assert levels == dict.fromkeys(levels, (True, True))


@pytest.mark.long
def test_the_number_of_mutants_is_that_of_the_installed_versions():
    names = (path.parent.name for path in (ROOT / "adapters").glob("*/update_code.yaml"))
    adapters = [load_adapter(name) for name in names]
    count = sum(len(load_mutants(one, algorithm)) for one in adapters for algorithm in ALGORITHMS)
    assert f"They give {count:,} mutants" in read_page("reference/interventions.md")


def test_the_threat_model_has_every_command():
    named = list_table_names(read_page("explanation/threat-model.md"), "## What each command does")
    assert sorted(words.partition(" --")[0] for words in named) == sorted(COMMANDS)


def test_every_page_is_in_the_navigation():
    text = re.sub(r"!!python.*", "", (ROOT / "mkdocs.yml").read_text())

    def list_files(entry):
        if isinstance(entry, str):
            return [entry]
        items = entry.values() if isinstance(entry, dict) else entry
        return [path for item in items for path in list_files(item)]

    listed = {DOCS / path for path in list_files(yaml.safe_load(text)["nav"])}
    pages = {page for page in PAGES if DOCS in page.parents}
    assert listed == pages | GENERATED


def test_pages_have_links_and_commands():
    texts = [page.read_text() for page in PAGES]
    assert sum(len(LINK.findall(text)) for text in texts) > 100
    assert sum("parallax " in line for text in texts for line in find_code_blocks(text)) > 50


def test_python_blocks_compile():
    for code in iterate_some(
        code
        for page in PAGES
        for code in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)
    ):
        for node in ast.walk(ast.parse(code)):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("parallax"):
                module = importlib.import_module(str(node.module))
                missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
                assert not missing, f"{node.module}: {missing}"


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


def test_packed_studies_name_no_folder_of_a_machine():
    for path in iterate_some(sorted(DOCS.rglob("*.parquet"))):
        texts = [row["run_json"] or "" for row in read_rows(path)]
        assert texts
        assert not re.search(r'"/[\w.-]+/', "".join(texts)), f"{name(path)}: pack with --anonymize"


def test_generated_pages_name_every_command_and_check(tmp_path):
    generator = load_generator()
    generator.main(tmp_path)
    commands = (tmp_path / "reference/cli.md").read_text()
    assert all(f"\n## {command}\n" in commands for command in COMMANDS)
    assert (tmp_path / "reference/checks.md").read_text().count("\n| `") >= 50
    assert "`value-loss-x0.5`" in (tmp_path / "reference/intervention-list.md").read_text()
    assert "| `seed` | `0` |" in (tmp_path / "reference/configuration.md").read_text()


@pytest.mark.long
@pytest.mark.parametrize("page", QUICK)
def test_documented_commands_run(page, tmp_path):
    lines = [line.split("  #")[0].strip() for line in find_code_blocks((DOCS / page).read_text())]
    for command in iterate_some(QUICK[page]):
        assert command in lines, command
        code = "import sys; from parallax.harness.cli.main import main; sys.exit(main())"
        words = [sys.executable, "-c", code, *shlex.split(command)[1:]]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_extras_are_installed_from_the_checkout():
    # Parallax is not on PyPI, where anybody could take the name.
    for page in iterate_some(PAGES):
        for line in page.read_text().splitlines():
            bare = "pip install" in line and re.search(r"parallax-drl(?! @ )", line)
            assert not bare, f"{name(page)}: {line}"


def test_checks_in_settings_exist():
    known = {check.id for check in load_all_checks()[0]}
    for page in iterate_some(PAGES):
        text = page.read_text()
        lists = re.findall(r"diagnosis\.(?:only|skip)=\[([a-z,-]+)\]", text)
        named = [check for given in lists for check in given.split(",")]
        named += re.findall(r"diagnosis\.([\w-]+)\.(?:threshold|period)=", text)
        assert set(named) <= known, name(page)


def is_replay_available(framework, algorithm, replay):
    recipe = read_recipe(algorithm, "original")
    settings = RUN_DEFAULTS | {
        "framework": framework,
        "algorithm": algorithm,
        "env": "CartPole-v1" if algorithm == "dqn" else "Pendulum-v1",
        "hps": "original",
        "study": "docs",
        "seed": 0,
        "steps": 100_000,
        "alignment": "exact",
        "replay": replay,
    }
    try:
        prepare_run(make_run_spec(settings, recipe, recipe), load_adapter(framework))
    except SpecError:
        return False
    return True


def test_table_of_replay_strategies_lists_available_ones():
    text = (DOCS / "how-to/prioritized-replay.md").read_text()
    table = text[text.index("| | DQN, double DQN |") :].split("\n\n")[0].splitlines()
    rows = {cells[1]: cells[2:6] for row in table[2:] for cells in [re.split(r" *\| *", row)]}
    frameworks = {label: key for key, label in FRAMEWORK_LABELS.items()} | {
        "Stable-Baselines3": "sb3"
    }
    for labels, cells in iterate_some(rows.items()):
        for label in labels.split(", "):
            for algorithm, cell in zip(("dqn", "ddpg", "td3", "sac"), cells, strict=True):
                option = re.search(r"(not )?with `(.*?)=(.*?)`", cell)
                assert option is None or option[2] == "replay.critics", cell
                reductions = ("mean", "net", "max") if algorithm in ("td3", "sac") else ("mean",)
                for strategy, critics in product(("per", "rank", "atdc", "imp"), reductions):
                    listed = cell.startswith("all") or f"`{strategy}`" in cell
                    fits = not option or (critics == option[3]) != bool(option[1])
                    replay = {"name": strategy, "critics": critics}
                    found = is_replay_available(frameworks[label], algorithm, replay)
                    assert found == (listed and fits), (label, algorithm, replay)


PLACEHOLDERS = re.compile(r"NAME|\$|my_package|my_ppo|--help|-sc |--config-dir|train env.name=")
"""Parts of commands that need your own names or files."""


@pytest.mark.long
def test_documented_trainings_are_accepted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    only_plan = ["hydra/launcher=slurm", "hydra.launcher.dry_run=true"]
    commands = {
        re.split(r"\s+#", line)[0]
        for page in PAGES
        for line in find_code_blocks(page.read_text())
        if line.startswith("parallax train ") and not PLACEHOLDERS.search(line)
    }
    for command in iterate_some(sorted(commands)):
        words = [word for word in shlex.split(command)[1:] if "launcher" not in word]
        multirun = [] if {"-m", "--multirun"} & set(words) else ["-m"]
        assert cli.main([*words, *multirun, *only_plan]) == 0, f"{command}{capsys.readouterr().err}"
