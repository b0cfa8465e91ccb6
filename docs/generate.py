"""Write the reference pages whose content the code already knows.

MkDocs calls `on_files` as a hook before it builds the site. `python docs/generate.py FOLDER` writes
the same pages as files.
"""

import contextlib
import dataclasses
import inspect
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))


def read_help(command: str) -> str:
    """Return what `parallax COMMAND --help` prints."""
    from parallax.harness.cli.main import main

    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        main([*command.split(), "--help"])
    return output.getvalue().rstrip()


def format_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in lines)
    return "\n".join(f"| {' | '.join(row)} |" for row in cells) + "\n"


def render_commands() -> str:
    """Return the page with every command and its help."""
    from parallax.harness.cli.main import COMMANDS

    parts = [
        "# Commands\n",
        "`parallax COMMAND --help` prints what is shown here. Exit codes: 0 success, 1 the command "
        "ran and found something (a failed run, a changed answer), 2 wrong input. `probe` also "
        "returns 3 if a probe failed to run.\n",
        format_table(
            ("command", "what it does"),
            ((f"[`{c.words}`](#{c.words.replace(' ', '-')})", c.summary) for c in COMMANDS),
        ),
    ]
    for command in COMMANDS:
        parts += [f"## {command.words}\n", f"{command.summary}.\n"]
        if command.words == "train":
            parts += ["All settings are in [Configuration](configuration.md).\n"]
            continue
        parts += ["```text", read_help(command.words), "```\n"]
    return "\n".join(parts)


def render_configuration() -> str:
    """Return the page with the settings of `parallax train`, their defaults and the studies."""
    from parallax.harness.cli.train import describe_studies, read_setting_descriptions

    text = (ROOT / "harness" / "conf" / "config.yaml").read_text("utf-8")
    groups, settings = read_setting_descriptions(text)
    return "\n".join(
        [
            "# Configuration\n",
            "All settings of `parallax train`, with their defaults and meanings: groups, single "
            "settings, studies and hyperparameters. Each is set as `NAME=VALUE`. `parallax train "
            "--help` prints the same, and `--cfg job` the values of a command line.\n",
            "## Groups\n",
            format_table(
                ("group", "default", "meaning"),
                (
                    (f"`{name}`", f"`{default}`", meaning + _GROUP_LINKS.get(name, ""))
                    for name, default, meaning in groups
                ),
            ),
            "## Settings\n",
            format_table(
                ("setting", "default", "meaning"),
                ((f"`{name}`", f"`{default}`", meaning) for name, default, meaning in settings),
            ),
            "## Studies\n",
            "`study=NAME` selects a file that sets several settings at once and, with "
            "`--multirun`, the grid of runs. `study.name=...` names the results folder.\n",
            format_table(
                ("study", "what it is"), ((f"`{name}`", text) for name, text in describe_studies())
            ),
            "## Hyperparameters\n",
            "Each is set as `hyperparameters.NAME=VALUE`. Defaults come from the recipe (`hps`).\n",
            *_render_hyperparameters(),
        ]
    )


_GROUP_LINKS = {
    "env": " ([Environments](environments.md))",
    "replay": " ([Replay strategies](replay.md))",
    "diagnosis": " ([Diagnose a training](../how-to/diagnose-a-training.md))",
    "hydra/launcher": " ([Run on Slurm](../how-to/run-on-slurm.md))",
}
"""Further reading on groups, by their names."""


def _render_hyperparameters() -> list[str]:
    from parallax.harness.cli.train import describe_hyperparameters
    from parallax.harness.contract.algorithms import ALGORITHMS
    from parallax.harness.contract.recipes import list_recipe_names, load_recipe

    parts = []
    for name, cls in ALGORITHMS.items():
        recipes = [recipe for recipe in list_recipe_names(name) if recipe in _RECIPES]
        values = [dataclasses.asdict(load_recipe(name, recipe)) for recipe in recipes]
        meanings = describe_hyperparameters(name)
        rows = [
            (
                f"`{field.name}`",
                meanings.get(field.name, ""),
                *(f"`{_format(value[field.name])}`" for value in values),
            )
            for field in dataclasses.fields(cls)
        ]
        parts += [f"### {cls.label}\n"]
        head = ("hyperparameter", "meaning", *(f"`hps={r}`" for r in recipes))
        parts += [format_table(head, rows)]
    return parts


_RECIPES = ("original", "cpu", "sb3", "cleanrl", "torchrl", "tianshou", "skrl", "sbx")


def _format(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(list(value)) if isinstance(value, tuple) else str(value)


def render_checks() -> str:
    """Return the page with every diagnosis check."""
    from parallax.harness.diagnosis.checks import load_own_checks

    checks = load_own_checks()
    rows = [
        (f"`{c.id}`", c.paper_id, c.name, c.stage, c.level, f"{c.threshold:g}", c.source)
        for c in checks
    ]
    header = ("check", "Table I", "finds that", "stage", "level", "threshold", "source")
    table = format_table(header, rows)
    page = (ROOT / "docs" / "snippets" / "checks.md").read_text("utf-8")
    return page.replace("@n@", str(len(checks))).replace("@table@", table)


def render_interventions() -> str:
    """Return the page with every intervention that is installed."""
    from parallax.harness.contract.adapter_discovery import find_adapter_entry_points, load_adapter
    from parallax.harness.interventions.catalogue import list_interventions

    takes_adapter = "adapter" in inspect.signature(list_interventions).parameters
    listed: Callable[[Any], Iterable[Any]] = list_interventions
    rows: dict[str, tuple[Any, list[str]]] = {}
    for framework in find_adapter_entry_points():
        for item in listed(load_adapter(framework) if takes_adapter else framework):
            rows.setdefault(item.name, (item, []))[1].append(framework)
    table = [
        (
            f"`{name}`",
            ", ".join(item.algorithms),
            ", ".join(sorted(set(frameworks))),
            "yes" if getattr(item, "reference_form", False) else "",
            getattr(item, "description", "") or getattr(item, "does", ""),
        )
        for name, (item, frameworks) in sorted(rows.items())
    ]
    head = (
        "# List of interventions\n\nWhat `intervention=NAME` can be. [Interventions]"
        "(interventions.md) explains the entries, and how to list user mistakes and mutants.\n"
    )
    names = ("name", "algorithms", "frameworks", "in the reference form", "what it does")
    return f"{head}\n{format_table(names, table)}"


def render_options() -> str:
    """Return the page with upstream's options that no hyperparameter covers."""
    from parallax.harness.cli.alignment import format_options
    from parallax.harness.contract.adapter_discovery import find_adapter_entry_points
    from parallax.harness.contract.algorithms import PROBED_ALGORITHMS

    tables = format_options(
        list(PROBED_ALGORITHMS), None, sorted(find_adapter_entry_points()), "github"
    )
    page = (ROOT / "docs" / "snippets" / "options.md").read_text("utf-8")
    return page.replace("@tables@", tables)


PAGES: Mapping[str, Callable[[], str]] = {
    "reference/cli.md": render_commands,
    "reference/configuration.md": render_configuration,
    "reference/checks.md": render_checks,
    "reference/intervention-list.md": render_interventions,
    "reference/upstream-options.md": render_options,
}
"""Generated pages by their path in the documentation."""


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to the site (called by MkDocs)."""
    from mkdocs.structure.files import File

    for path, render in PAGES.items():
        files.append(File.generated(config, path, content=render()))
    return files


def main(folder: Path) -> None:
    """Write the generated pages below `folder`."""
    for path, render in PAGES.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(render(), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
