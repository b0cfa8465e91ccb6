"""The documentation against the files, the commands and the code that it names."""

import ast
import importlib.util
import re
import shlex
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import yaml
from loops import iterate_some

from parallax.harness.cli import main as cli
from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import read_recipe
from parallax.harness.contract.run_spec import RUN_DEFAULTS, make_run_spec
from parallax.harness.diagnosis.checks import load_all_checks
from parallax.harness.record.labels import FRAMEWORK_LABELS
from parallax.harness.record.packed import read_rows
from parallax.harness.train.prepare import prepare_run

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


def test_python_blocks_are_python():
    for code in iterate_some(
        code
        for page in PAGES
        for code in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M)
    ):
        ast.parse(code)


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
    # Another project has the name on PyPI.
    for page in iterate_some(PAGES):
        for line in page.read_text().splitlines():
            bare = "pip install" in line and re.search(r"parallax-rl(?! @ )", line)
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


def test_the_table_of_replay_strategies_says_what_is_available():
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
