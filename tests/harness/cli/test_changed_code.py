"""Changed lines of a package are found, taken back one by one, and named as causes."""

import numpy as np
import pytest

from parallax.harness.cli.changed_code import (
    MOVED,
    RESTORED,
    UNMOVED,
    _find_effect,
    find_causes,
    format_causes,
    format_code_changes,
    list_code_changes,
    write_without,
)
from parallax.harness.probes.results import (
    AGREES,
    AnswerComparison,
    ProbeAnswer,
    ProbeReport,
    ProbeResult,
    make_missing_answer,
)

CODE = 'X = 1\n\n\nclass A:\n    """Text."""\n\n    y = 2\n\n    def f(self):\n        return 3\n'
CHANGED = CODE.replace("X = 1", "X = 5").replace("y = 2", "y = 6").replace("return 3", "return 4")


@pytest.fixture
def packages(tmp_path):
    """The folders of a package before and after."""
    folders = tmp_path / "before" / "package", tmp_path / "after" / "package"
    for folder in folders:
        folder.mkdir(parents=True)
    return folders


def write_files(packages, name, before, after):
    for folder, text in zip(packages, (before, after), strict=True):
        if text is not None:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)


def test_blocks_of_changed_lines_name_their_function(packages):
    write_files(packages, "x.py", CODE, CHANGED)
    changes = list_code_changes(*packages)
    assert [change.title for change in changes] == [
        "x.py, line 1, module",
        "x.py, line 7, A",
        "x.py, line 10, A.f",
    ]
    assert changes[2].lines == ["- return 3", "+ return 4"]


def test_comments_docstrings_and_form_are_no_changes(packages):
    other = CODE.replace("Text.", "Other.").replace("\n\n\n", "\n") + "# a comment\n"
    write_files(packages, "x.py", CODE, other)
    write_files(packages, "y.py", CODE, other.replace("return 3", "return (\n            4)"))
    assert [change.title for change in list_code_changes(*packages)] == ["y.py, line 8, A.f"]


def test_lines_that_only_work_together_are_one_change(packages):
    write_files(packages, "x.py", "x = (\n    1,\n)\n", "x = [\n    1,\n]\n")
    (change,) = list_code_changes(*packages)
    assert len(change.blocks) == 2


def test_files_that_are_no_python_are_one_change(packages):
    write_files(packages, "broken.py", "x =\nz = 3\nw =", "y =\nz = 3\nv =")
    (change,) = list_code_changes(*packages)
    assert change.lines == ["- x =", "+ y =", "- w =", "+ v ="]


def test_many_changes_are_counted_and_leading_ones_come_first(packages):
    write_files(packages, "new.py", "", "".join(f"def f{i}():\n    return {i}\n" for i in range(4)))
    write_files(packages, "x.py", CODE, "\n".join(f"X{i} = 2" for i in range(45)))
    changes = list_code_changes(*packages)
    lines = format_code_changes(changes, first="x.py:1")
    assert lines[0] == "x.py, line 1, module"
    assert lines[-1] == "1 further changes of 2"


def read_package(folder):
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*.py")}


def test_without_all_changes_the_package_is_as_before(packages, tmp_path):
    write_files(packages, "x.py", CODE, CHANGED)
    write_files(packages, "sub/y.py", CODE, None)
    changes = list_code_changes(*packages)
    folder = write_without(changes, packages[1], tmp_path / "copy")
    assert read_package(folder / "package") == read_package(packages[0])
    folder = write_without([], packages[1], tmp_path / "same")
    assert read_package(folder / "package") == read_package(packages[1])


def make_report(values, failed=()):
    """Answers of one package; failed ones could not be measured."""
    answers = {
        probe: make_missing_answer("error", failed=True)
        if probe in failed
        else ProbeAnswer(np.array([value]), np.array([0.0]), AnswerComparison(AGREES))
        for probe, value in values.items()
    }
    results = tuple(
        ProbeResult(probe, "td3", "Question?", "paper", "number", None, {"x": answer}, ())
        for probe, answer in answers.items()
    )
    return ProbeReport(results, {"x": ()}, {}, 0.0)


def measure_package(folder):
    """Answers that depend on lines of two files; a third file does not matter."""
    text = (folder / "package" / "x.py").read_text()
    other = (folder / "package" / "z.py").read_text()
    one, two = ("X = 5" in text), ("y = 6" in text)
    values = {
        "td3.one": float(one) * (2.0 if two else 1.0),
        "td3.two": float(two),
        "td3.either": float(one or two),
        "td3.sum": one + 2.0 * two + 4.0 * ("import" in other),
        "td3.none": 1.0,
    }
    return make_report(values, failed=() if "import" in other else ("td3.one",))


def test_causes_are_the_changes_that_an_answer_needs(packages):
    write_files(packages, "x.py", CODE, CHANGED)
    write_files(packages, "y.py", CODE, CHANGED)
    write_files(packages, "z.py", "", "import x\n")
    changes = list_code_changes(*packages)
    found = measure_package(packages[1].parent)
    healthy = make_report(dict.fromkeys((r.probe for r in found.results), 0.0))
    answers = {
        after.probe: (before.answers["x"], after.answers["x"])
        for before, after in zip(healthy.results, found.results, strict=True)
    }
    causes = find_causes(answers, packages[1], changes, measure_package)
    x = tuple(change for change in changes if change.file == "x.py")
    assert (
        causes
        == {
            "td3.one": ((x[0],),),  # without the other change it is 1, without this one 0 as before
            "td3.two": ((x[1],),),
            "td3.either": (x[:2],),
            "td3.sum": ((*x[:2], changes[-1]),),  # 0 only without all three
            "td3.none": (),
        }
    )
    lines = format_causes({f"{probe}: text": each for probe, each in causes.items()}, changes)
    assert lines[:4] == ["x.py, line 1, module", "  - X = 1", "  + X = 5", "    td3.one: text"]
    assert lines[-3:-1] == ["Not explained by any change:", "    td3.none: text"]
    assert lines[-1] == "4 of 7 changes are behind none of these answers."


def test_a_single_change_is_not_measured(packages):
    write_files(packages, "x.py", CODE, CODE.replace("X = 1", "X = 5"))
    changes = list_code_changes(*packages)
    assert find_causes({"td3.one": None}, packages[1], changes, None) == {
        "td3.one": ((changes[0],),)
    }


@pytest.mark.parametrize(
    ("before", "after", "without", "effect"),
    [(0, 1, 0, RESTORED), (0, 1, 2, MOVED), (0, 1, 1, UNMOVED)],
)
def test_effects_of_leaving_out_a_change(packages, before, after, without, effect):
    results = [
        make_report({"td3.one": float(value)}).results[0] for value in (before, after, without)
    ]
    assert _find_effect(results[0], *(result.answers["x"] for result in results)) == effect
