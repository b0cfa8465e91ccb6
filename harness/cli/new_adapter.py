"""`parallax new adapter NAME`: the skeleton of an adapter for another framework.

Its files are made from templates and from the hyperparameter schema.
"""

import argparse
import dataclasses
import importlib.resources
import keyword
import re
import string
import tomllib
from collections.abc import Iterable
from pathlib import Path

from parallax.harness.cli.arguments import check_links
from parallax.harness.contract.adapter_discovery import find_adapter_entry_points
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.recipes import find_recipe_files, list_recipe_names
from parallax.harness.record.files import write_files_atomically

_NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]{0,19}")
_LINE_LENGTH = 100
_ENTRY_POINT_GROUP = "parallax.adapters"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command line."""
    parser.add_argument("name", metavar="NAME", help="name of the framework: framework=NAME")
    parser.add_argument(
        "--in", dest="folder", type=Path, default=Path(), help="a checkout of Parallax (default: .)"
    )
    parser.add_argument(
        "--package", action="store_true", help="write a separate package in FOLDER/NAME instead"
    )


def run(options: argparse.Namespace) -> int:
    """Write the files and print the next steps."""
    create = create_adapter_package if options.package else create_adapter
    written = create(options.name, options.folder)
    print("\n".join(["Written:", *(f"  {path}" for path in written)]))
    print(_format_next_steps(options.name, options.folder, options.package))
    return 0


def create_adapter(name: str, root: Path) -> list[Path]:
    """Write an adapter into a checkout of this project.

    Returns:
        The files written, the changed pyproject.toml last.
    """
    check_adapter_name(name)
    project = check_checkout(root)
    skeleton = AdapterSkeleton(
        name, f"parallax.adapters.{name}", f"adapters/{name}", f"tests/adapters/{name}"
    )
    files = {root / path: text for path, text in skeleton.make_files("hp_configs").items()}
    entry = f'{name} = "{skeleton.module}:{skeleton.class_name}"'
    changed = add_entry_point(project.read_text(), _ENTRY_POINT_GROUP, entry)
    return write_files(root, files, {project: changed})


def create_adapter_package(name: str, parent: Path) -> list[Path]:
    """Write an adapter as a separate package, into the new folder `parent / name`."""
    check_adapter_name(name)
    module = f"parallax_{name}"
    skeleton = AdapterSkeleton(name, module, module, "tests")
    files = skeleton.make_files(f"{module}/hp_configs")
    files["pyproject.toml"] = skeleton.fill(
        "pyproject.toml",
        what="a framework",
        group=_ENTRY_POINT_GROUP,
        entry=f"{module}:{skeleton.class_name}",
    )
    return write_package(parent / name, files)


def check_adapter_name(name: str) -> None:
    """Raise `SpecError` for a name that a new framework cannot have."""
    check_module_name(name)
    taken = set(find_adapter_entry_points()).union(*(list_recipe_names(a) for a in ALGORITHMS))
    if name in taken:
        raise SpecError(f"NAME={name} is taken by a framework or recipe: choose another.")


def check_module_name(name: str) -> None:
    """Raise `SpecError` for a name that a module cannot have."""
    if not _NAME_PATTERN.fullmatch(name) or keyword.iskeyword(name):
        raise SpecError(
            f"NAME={name} must be lower-case letters, digits and underscores, up to 20, with a "
            "letter first, and no Python keyword."
        )


def check_checkout(root: Path) -> Path:
    """Return the `pyproject.toml` of a checkout."""
    project = root / "pyproject.toml"
    if not (root / "adapters").is_dir() or _read_project_name(project) != "parallax-drl":
        raise SpecError(
            f"--in {root} is not a checkout of this project. Name one, or use --package for a "
            "package of your own."
        )
    return project


def _read_project_name(project: Path) -> str | None:
    try:
        content = tomllib.loads(project.read_text())
    except (OSError, tomllib.TOMLDecodeError):
        return None
    name: str | None = content.get("project", {}).get("name")
    return name


def write_package(folder: Path, files: dict[str, str]) -> list[Path]:
    """Write the files of a new package into a folder that must be new or empty."""
    if folder.is_symlink() or (folder.exists() and any(folder.iterdir())):
        raise SpecError(f"{folder} already exists and is not changed: choose another NAME or --in.")
    return write_files(folder, {folder / path: text for path, text in files.items()}, {})


def write_files(root: Path, new: dict[Path, str], changed: dict[Path, str]) -> list[Path]:
    """Write all files or none.

    Args:
        root: Folder that the files are in.
        new: Text of files that must not exist yet.
        changed: New text of files that exist.

    Returns:
        The paths of all files.
    """
    for path in new:
        if path.exists():
            raise SpecError(
                f"{path} already exists and is not changed: choose another NAME or --in."
            )
    check_links(root, [*new, *changed])
    try:
        write_files_atomically(new | changed)
    except OSError as error:
        raise SpecError(f"{error.filename} cannot be written ({error.strerror}).") from error
    return [*new, *changed]


def _format_next_steps(name: str, folder: Path, package: bool) -> str:
    root = folder / name if package else folder
    tests = root / "tests" if package else root / "tests" / "adapters" / name
    return f"""Next:
  1. python -m pip install --no-deps --editable {root}    (so that framework={name} is found)
  2. python -m pytest {tests}    (each failure names the file and function to fill in)
  3. parallax alignment    (when all tests pass: {name} has its column)
docs/how-to/add-a-framework.md explains each step."""


@dataclasses.dataclass(frozen=True)
class AdapterSkeleton:
    """Names and paths of a new adapter, which fill its templates.

    Attributes:
        module: Dotted name of the adapter's package.
        folder: The package's folder, from the project's root.
        tests: Folder of its tests, from the project's root.
    """

    name: str
    module: str
    folder: str
    tests: str

    @property
    def class_name(self) -> str:
        """Name of the adapter's class."""
        return "".join(part.capitalize() for part in self.name.split("_")) + "Adapter"

    def make_files(self, recipes: str) -> dict[str, str]:
        """Return the contents by path from the project's root, including the folder of recipes."""
        content = {
            f"{self.folder}/__init__.py": self.fill("adapter.py"),
            f"{self.folder}/settings.py": self.make_settings(),
            f"{self.folder}/train.py": self.fill("train.py"),
        }
        for test in ("test_conformance.py", "test_translate.py", "test_fidelity.py"):
            content[f"{self.tests}/{test}"] = self.fill(test)
        for algorithm in ALGORITHMS:
            content[f"{recipes}/{algorithm}/{self.name}.yaml"] = self.make_recipe(algorithm)
        return content

    def fill(self, template: str, **more: str) -> str:
        """Return a template with this adapter's names in it."""
        folder = importlib.resources.files("parallax.harness.cli") / "templates"
        text = (folder / f"{template}.txt").read_text()
        names = dataclasses.asdict(self) | {"class_name": self.class_name} | more
        return string.Template(text).substitute(names, dashed=self.name.replace("_", "-"))

    def make_settings(self) -> str:
        """Return the module that turns hyperparameters into options, for every algorithm."""
        file = f"{self.folder}/settings.py"
        # In the order of their modules, as imports are sorted.
        classes = {
            name: ALGORITHMS[name]
            for name in sorted(ALGORITHMS, key=lambda name: ALGORITHMS[name].__module__)
        }
        return self.fill(
            "settings.py",
            algorithm_imports="\n".join(
                f"from {cls.__module__} import {cls.__name__}" for cls in classes.values()
            ),
            functions="\n\n\n".join(
                self.make_settings_function(
                    name, cls.__name__, cls.label, [f.name for f in dataclasses.fields(cls)], file
                )
                for name, cls in classes.items()
            ),
            table="\n".join(format_table_entry(name) for name in ALGORITHMS),
        )

    def make_settings_function(
        self, algorithm: str, class_name: str, label: str, fields: Iterable[str], file: str
    ) -> str:
        """Return the function in `file` that turns one algorithm's hyperparameters into options."""
        head = f"def translate_{algorithm}("
        arguments = f"t: ConfigTranslator, hp: {class_name}, context: RunContext"
        signature = f"{head}{arguments}) -> NativeConfig:"
        if len(signature) > _LINE_LENGTH:
            signature = f"{head}\n    {arguments}\n) -> NativeConfig:"
        return self.fill(
            "settings_function.py",
            signature=signature,
            algorithm=algorithm,
            label=label,
            settings_file=file,
            fields="\n".join(f'    # t.set_option("{field}", "its option")' for field in fields),
        ).rstrip()

    def make_recipe(self, algorithm: str) -> str:
        """Return the papers' values, each marked for replacement by the framework's own."""
        lines = [f"# TODO: {self.name}'s own defaults, each with its source."]
        for line in find_recipe_files(algorithm)["original"].read_text().splitlines():
            value, comment, _ = line.partition("  # ")
            if comment:
                lines.append(f"{value}  # TODO")
        return "\n".join(lines) + "\n"


def add_entry_point(pyproject: str, group: str, entry: str) -> str:
    """Return the text of pyproject.toml with one more entry point.

    Args:
        pyproject: Its text.
        group: The group of the entry point; a missing table is added at the end.
        entry: The line to add.
    """
    heading = f'[project.entry-points."{group}"]'
    before, table, after = pyproject.partition(f"{heading}\n")
    if not table:
        return f"{pyproject.rstrip()}\n\n{heading}\n{entry}\n"
    entries, blank, rest = after.partition("\n\n")
    return before + table + entries.rstrip("\n") + f"\n{entry}" + (blank + rest or "\n")


def format_table_entry(algorithm: str) -> str:
    """Return the line of an adapter's table `ALGORITHMS` for one algorithm."""
    return f'    "{algorithm}": AlgorithmSettings(translate_{algorithm}),'
