"""Changed modules of installed packages, and ranges of released versions; nothing is imported."""

import base64
import hashlib
import sys

import pytest

from parallax.harness.contract import packages
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import VersionRange, list_changed_modules, parse_version

RANGE = VersionRange(
    "some-library",
    "2.0",
    "2.10",
    companions={"2.4": ("other==0.29.1",)},
    why_not_older="Before 2.0 names differ.",
    broken={"2.5.1": "Its steps fail."},
)


@pytest.mark.parametrize(
    ("text", "inside"),
    [("1.9.9", False), ("2.0", True), ("2.0.0", True), ("2.5.1", False), ("2.10.0", False)],
)
def test_versions_compare_as_numbers(text, inside):
    assert RANGE.contains(text) is inside


def test_old_versions_have_companion_requirements():
    assert RANGE.list_requirements("2.2.1") == ("some-library==2.2.1", "other==0.29.1")
    assert RANGE.list_requirements("2.4.0") == ("some-library==2.4.0",)
    words = r"1\.8 is not supported. Use some-library>=2.0,<2.10,!=2.5.1. Before 2.0 names differ.$"
    with pytest.raises(SpecError, match=words):
        RANGE.list_requirements("1.8")
    with pytest.raises(SpecError, match=r"2\.10 is not supported. Use some.*,<2.10,!=2.5.1.$"):
        RANGE.list_requirements("2.10")
    with pytest.raises(SpecError, match=r"2\.5\.1 is not supported.*\. Its steps fail\.$"):
        RANGE.list_requirements("2.5.1")


def test_an_installed_version_out_of_range_is_refused_with_the_range(monkeypatch):
    monkeypatch.setattr(packages, "version", lambda package: "1.4.3")
    with pytest.raises(SpecError, match=r"some-library==1\.4\.3 is not supported. Use some-lib"):
        RANGE.check_installed()
    monkeypatch.setattr(packages, "version", lambda package: "2.1.0")
    RANGE.check_installed()


def test_numbers_are_read_from_the_start():
    assert parse_version("2.2.1rc1") == (2, 2, 1)
    for wrong in ("latest", "2.4.0/../../x", "2.4.0; x", "2.4.0\n", "9" * 5000):
        with pytest.raises(SpecError, match="is not a version"):
            parse_version(wrong)


@pytest.mark.parametrize("framework", ["cleanrl", "sb3", "sbx", "skrl", "tianshou", "torchrl"])
def test_the_pinned_version_is_in_the_range(framework):
    supported = load_adapter(framework).supported_versions
    supported.check_installed()
    assert supported.oldest


def install(folder, name, contents):
    folder.mkdir()
    rows = []
    for file, text in contents.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        rows.append(f"{file},sha256={digest.decode()},{len(text)}\n")
    about = folder / f"{name}-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (about / "RECORD").write_text("".join([*rows, f"{name}/made.py,,\n"]))


def test_changed_and_missing_modules_are_listed(tmp_path, monkeypatch):
    site = tmp_path / "site"
    names = ("same", "changed", "gone")
    contents = {f"toylib/{name}.py": f"name = '{name}'\n" for name in names} | {"toylib/x.txt": "a"}
    install(site, "toylib", contents)
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    assert list_changed_modules("toylib") == []
    (site / "toylib" / "changed.py").write_text("name = 'other'\n")
    (site / "toylib" / "gone.py").unlink()
    (site / "toylib" / "x.txt").write_text("b")
    assert list_changed_modules("toylib") == ["toylib/changed.py", "toylib/gone.py"]
