"""Pages of `parallax view`: studies of a folder, runs of a study, and runs side by side.

Names can come from other people's runs: the template escapes every value, and pages have no script.
"""

import collections
import dataclasses
import functools
import hashlib
import math
import os
import shlex
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import jinja2

from parallax.analysis.commands.common import CommandError, get_analysis_folder, read_results
from parallax.analysis.data.load import read_runs
from parallax.analysis.data.runs import CompletedRun, ExcludedRun, RunCollection, RunId
from parallax.analysis.escaping import escape_controls
from parallax.analysis.labels import MISSING, format_number, get_label, get_recipe_label
from parallax.harness.record.files import UnusableError, escape_unprintable
from parallax.harness.record.layout import PACKED_SUFFIX, format_script_label

REPORT_NAME = "report.html"
MAX_ROWS = 500
MAX_COMPARED = 12
COMPLETE = "complete"
FILTERS = ("task", "algorithm", "hyperparameters", "implementation", "settings", "state")
ORDERS = {"": "name", "score": "highest score first", "seconds": "longest first"}

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _BOTTOM = 640, 300, 64, 610, 264  # of a figure and its axes


@dataclasses.dataclass(frozen=True)
class BrowsedRun:
    """A run as pages show it.

    Attributes:
        key: Short hash by which addresses name it.
        fields: Values that it is listed and filtered by, as text.
        score: Mean return of the last evaluation; NaN if it is not complete.
        seconds: Time from start to end; NaN if it is not known.
    """

    key: str
    source: CompletedRun | ExcludedRun
    fields: Mapping[str, str]
    score: float
    seconds: float

    @property
    def title(self) -> str:
        """Return its name above a curve."""
        names = ("implementation", "algorithm", "task", "hyperparameters")
        return ", ".join(self.fields[name] for name in names) + f", seed {self.fields['seed']}"

    def list_settings(self) -> dict[str, str]:
        """Return every setting, hyperparameters one by one, as text."""
        if not isinstance(self.source, CompletedRun):
            return {}
        script = self.source.spec.get("script")
        values = dict(self.source.spec) | {
            "hyperparameters": self.source.effective_hyperparameters,
            "script": format_script_label(script["name"], script["sha256"]) if script else None,
        }
        found: dict[str, Any] = {}
        for name in sorted(values.keys() - {"overridden", "seed", "study"}):
            value = values[name]
            inner = value if isinstance(value, Mapping) else {"": value}
            found |= {f"{name}.{key}".strip("."): inner[key] for key in inner}
        return {n: MISSING if v is None else escape_unprintable(str(v)) for n, v in found.items()}


def make_browsed_run(root: Path, run: CompletedRun | ExcludedRun, number: int = 0) -> BrowsedRun:
    """Return a run, read from a folder or file `root`, as pages show it; `number` is its place."""
    cell, done = run.id.cell, run if isinstance(run, CompletedRun) else None
    fields = {
        "task": cell.env,
        "algorithm": get_label(cell.algorithm),
        "hyperparameters": get_recipe_label(cell.hps),
        "implementation": get_label(run.id.framework),
        "settings": cell.variant,
        "seed": MISSING if run.id.seed is None else str(run.id.seed),
        "state": COMPLETE if isinstance(run, CompletedRun) else run.reason,
    }
    return BrowsedRun(
        hashlib.sha256(f"{root}\0{run.path}\0{number}".encode("utf-8", "replace")).hexdigest()[:12],
        run,
        {name: escape_unprintable(value) for name, value in fields.items()},
        done.final_score if done else math.nan,
        done.seconds if done else math.nan,
    )


class RunLibrary:
    """All runs of a folder or of a file of packed runs, as they were when they were read.

    Attributes:
        root: The folder or file.
        studies: Runs by the name of their study, in order.
        report_prefix: Text before the addresses of reports.
    """

    report_prefix = ""

    def __init__(self, root: Path) -> None:
        """Read the runs.

        Raises:
            CommandError: There is no such folder, or no runs in it.
        """
        self.root = root
        self.read()

    def read(self) -> None:
        """Read all runs again."""
        files = self.root.glob(f"*{PACKED_SUFFIX}") if self.root.is_dir() else ()
        found, self.unread = [], list[str]()
        for file in sorted(file for file in files if file.is_file() and not file.is_symlink()):
            try:
                found.append(read_runs(file))
            except UnusableError as error:
                self.unread.append(f"Not read: {file.name}: {error}.")
        try:
            found.insert(0, read_results(self.root))
        except CommandError:
            if not found:
                raise
        self._files: dict[str, Path] = {}
        runs: dict[str, list[BrowsedRun]] = collections.defaultdict(list)
        known = _list_packed_ids(found) if len(found) > 1 else set()
        for part in found:
            for number, item in enumerate(part.folders):
                study = item.id.cell.study
                if part.root.is_file() and item.id in known:
                    continue  # packed from the folder of that name
                if part.root.is_file() and study not in runs:
                    self._files[study] = part.root
                runs[study].append(make_browsed_run(part.root, item, number * part.root.is_file()))
        self.studies = {name: tuple(runs[name]) for name in sorted(runs)}
        self._by_key = {run.key: run for group in self.studies.values() for run in group}

    def get_run(self, key: str) -> BrowsedRun:
        """Return a run by its key; raises `KeyError` if there is none."""
        return self._by_key[key]

    def describe_size(self) -> str:
        """Return the numbers of runs and studies in words."""
        runs, studies = len(self._by_key), len(self.studies)
        return f"{runs} run{'s' * (runs != 1)} in {studies} stud{'y' if studies == 1 else 'ies'}"

    def get_location(self, study: str) -> Path:
        """Return the folder of a study, or the file that it is packed in."""
        if study in self._files:
            return self._files[study]
        # The root may be the study itself, or a folder in it. Names that are paths name no folder.
        is_name = study not in ("", ".", "..") and not {"/", "\0"} & set(study)
        below = self.root / study if is_name else self.root
        # `Path.is_dir` raises an error for a name that no folder can have, such as a too long one.
        is_folder = os.path.isdir(below) and not os.path.islink(below)  # noqa: PTH112, PTH114
        return below if is_folder else self.root

    def find_report(self, study: str) -> Path | None:
        """Return the report of a study, or None if none was written; links are not followed.

        Raises:
            KeyError: There is no such study.
        """
        if study not in self.studies:
            raise KeyError(study)
        folder = get_analysis_folder(self.get_location(study))
        path = folder / REPORT_NAME
        has_link = folder.is_symlink() or path.is_symlink()
        return path if path.is_file() and not has_link else None

    def link_report(self, study: str) -> str:
        """Return the address of a study's report, or an empty string."""
        address = f"{self.report_prefix}report?{urlencode({'study': study})}"
        return address if self.find_report(study) else ""


def _list_packed_ids(found: Sequence[RunCollection]) -> set[RunId]:
    """Return the identities of runs of folders, as they are, and as `study pack` states them."""
    from parallax.analysis.data.packed import state_all_settings  # loads pyarrow

    folders = [part for part in found if not part.root.is_file()]
    forms = (*folders, *map(state_all_settings, folders))
    return {item.id for part in forms for item in part.folders}


def render_index(library: RunLibrary, text: str) -> str:
    """Return the page of studies with a text in their name, tasks, algorithms or frameworks."""
    rows = []
    for name, runs in library.studies.items():
        summary = {
            field: sorted({run.fields[field] for run in runs})
            for field in ("algorithm", "task", "implementation")
        }
        words = " ".join([name, *(value for values in summary.values() for value in values)])
        if text.lower() in words.lower():
            row = {
                "name": escape_unprintable(name),
                "link": f"study?{urlencode({'study': name})}",
                "report": library.link_report(name),
                "complete": sum(run.fields["state"] == COMPLETE for run in runs),
                "runs": len(runs),
            }
            rows.append(row | summary)
    return _render_page(
        "index",
        rows=rows,
        text=text,
        size=library.describe_size(),
        root=library.root,
        notes=library.unread,
    )


def render_study(library: RunLibrary, study: str, chosen: Mapping[str, str]) -> str:
    """Return the page that lists runs of a study.

    `chosen` has values of fields that runs must have, and `order`.

    Raises:
        KeyError: There is no such study.
    """
    runs = library.studies[study]
    wanted = {name: chosen[name] for name in FILTERS if chosen.get(name)}
    matching = [run for run in runs if wanted.items() <= dict(run.fields).items()]
    order = chosen.get("order", "")
    if order in ("score", "seconds"):
        values = {run.key: getattr(run, order) for run in matching}
        matching.sort(key=lambda run: (math.isnan(values[run.key]), -values[run.key]))
    return _render_page(
        "study",
        study=study,
        name=escape_unprintable(study),
        choices={name: sorted({run.fields[name] for run in runs}) for name in FILTERS},
        wanted=wanted,
        orders=ORDERS,
        order=order,
        runs=matching[:MAX_ROWS],
        found=len(matching),
        total=len(runs),
        most=MAX_COMPARED,
        report=library.link_report(study),
        command=f"parallax report {shlex.quote(str(library.get_location(study)))}",
    )


def render_comparison(library: RunLibrary, keys: Sequence[str]) -> str:
    """Return the page of one run, or of several side by side.

    Raises:
        KeyError: There is no run of a key.
    """
    chosen = [library.get_run(key) for key in dict.fromkeys(keys)]
    runs = chosen[:MAX_COMPARED]
    settings = [run.list_settings() for run in runs]
    names = dict.fromkeys(name for found in settings for name in found)
    rows = {name: [found.get(name, MISSING) for found in settings] for name in names}
    studies = sorted({run.source.id.cell.study for run in runs})
    return _render_page(
        "runs",
        runs=runs,
        left_out=len(chosen) - len(runs),
        studies=[(f"study?{urlencode({'study': n})}", escape_unprintable(n)) for n in studies],
        figure=draw_curves([run.source for run in runs]),
        different={name: values for name, values in rows.items() if len(set(values)) > 1},
        equal={name: values[0] for name, values in rows.items() if len(set(values)) == 1},
    )


def render_problem(text: str) -> str:
    """Return a page with one sentence, for requests that are refused."""
    return _render_page("problem", text=text)


def draw_curves(runs: Sequence[CompletedRun | ExcludedRun]) -> dict[str, Any] | None:
    """Return points and ticks of the learning curves in a figure's coordinates.

    Returns:
        None if no run is complete.
    """
    # These take a second; lists of runs need no ticks.
    from matplotlib.ticker import MaxNLocator

    from parallax.analysis.figures.score_marks import find_near_marks, list_cell_marks
    from parallax.analysis.verdicts.references import find_references

    completed = {i: run for i, run in enumerate(runs) if isinstance(run, CompletedRun)}
    if not completed:
        return None
    curves = {i: (run.timesteps, run.results.mean(axis=1)) for i, run in completed.items()}
    cells = {dataclasses.replace(run.id.cell, study="", variant="") for run in completed.values()}
    marks = []
    if len(cells) == 1:
        (cell,) = cells
        marks = list_cell_marks(cell, find_references(cell, list(completed.values())))
    returns = [float(mean) for _, means in curves.values() for mean in means]
    near = find_near_marks(marks, (min(returns), max(returns)))
    returns += [mark.score for mark in near]
    low, high = min(returns), max(returns)
    if low == high:  # the margin is relative, since 1e17 + 1 is 1e17
        margin = max(1.0, 0.01 * abs(low))
        low, high = low - margin, high + margin
    end = max(1, *(int(steps[-1]) for steps, _ in curves.values()))

    def x(step: float) -> float:
        return round(_LEFT + (_RIGHT - _LEFT) * step / end, 1)

    def y(score: float) -> float:
        return round(12 + (_BOTTOM - 12) * (high - score) / (high - low), 1)

    steps = [tick for tick in MaxNLocator(5).tick_values(0, end) if 0 <= tick <= end]
    scores = [tick for tick in MaxNLocator(5).tick_values(low, high) if low <= tick <= high]
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "right": _RIGHT,
        "bottom": _BOTTOM,
        "curves": {
            i: [(x(step), y(mean)) for step, mean in zip(*curve, strict=True)]
            for i, curve in curves.items()
        },
        "steps": [(x(tick), f"{tick:,.0f}") for tick in steps],
        "scores": [(y(tick), f"{tick:g}") for tick in scores],
        "marks": [(mark.name, format_number(mark.score)) for mark in marks],
        "mark_places": [y(mark.score) for mark in near],
    }


def _render_page(page: str, **values: Any) -> str:
    template, style = _load_template()
    return template.render(page=page, style=style, **values)


@functools.cache
def _load_template() -> tuple[jinja2.Template, str]:
    """Load the template and the style of all pages, once for all requests."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        finalize=escape_controls,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = format_number
    style = (files("parallax.analysis.report") / "style.css").read_text("utf-8")
    return environment.get_template("run_browser.html"), style
