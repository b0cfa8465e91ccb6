"""The files of a new adapter, made from templates and from the hyperparameter schema."""

import dataclasses
import importlib.resources
import string

from harness.fields import SpecError
from harness.recipes import recipe_files
from harness.spec import ALGORITHMS

_TABLE = '[project.entry-points."parallax.adapters"]'


@dataclasses.dataclass(frozen=True)
class Skeleton:
    """Where a new adapter goes.

    Attributes:
        name: Name of the framework.
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

    def files(self, recipes: str) -> dict[str, str]:
        """Content by path from the project's root.

        Args:
            recipes: Folder of the recipe files, from the project's root.
        """
        content = {
            f"{self.folder}/__init__.py": self.fill("adapter.py"),
            f"{self.folder}/translate.py": self.fill("translate.py"),
            f"{self.folder}/train.py": self.fill("train.py"),
        }
        for test in ("test_conformance.py", "test_translate.py", "test_fidelity.py"):
            content[f"{self.tests}/{test}"] = self.fill(test)
        for algorithm in ALGORITHMS:
            content[f"{recipes}/{algorithm}/{self.name}.yaml"] = self.recipe(algorithm)
        return content

    def fill(self, template: str) -> str:
        """A template with this adapter's names in it."""
        folder = importlib.resources.files("harness") / "templates"
        text = (folder / f"{template}.txt").read_text()
        claims = {f"{algorithm}_fields": _claims(algorithm) for algorithm in ALGORITHMS}
        names = dataclasses.asdict(self) | {"class_name": self.class_name}
        return string.Template(text).substitute(names, dashed=self.name.replace("_", "-"), **claims)

    def recipe(self, algorithm: str) -> str:
        """The papers' values, each marked as still to be replaced by the framework's own."""
        lines = [f"# TODO: {self.name}'s own defaults, each with the place where it stands."]
        for line in recipe_files(algorithm)["original"].read_text().splitlines():
            value, comment, _ = line.partition("  # ")
            if comment:
                lines.append(f"{value}  # TODO")
        return "\n".join(lines) + "\n"


def add_entry_point(pyproject: str, skeleton: Skeleton) -> str:
    """The text of pyproject.toml with the adapter registered.

    Raises:
        SpecError: The text has no table of adapters.
    """
    before, table, after = pyproject.partition(f"{_TABLE}\n")
    if not table:
        raise SpecError(f"pyproject.toml has no table {_TABLE}: add it.")
    entries, blank, rest = after.partition("\n\n")
    entry = f'{skeleton.name} = "{skeleton.module}:{skeleton.class_name}"'
    return before + table + entries.rstrip("\n") + f"\n{entry}" + (blank + rest or "\n")


def _claims(algorithm: str) -> str:
    names = [field.name for field in dataclasses.fields(ALGORITHMS[algorithm])]
    return "\n".join(f'    # t.aligned("{name}", "its option")' for name in names)
