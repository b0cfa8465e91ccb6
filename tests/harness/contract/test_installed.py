"""Modules of an installed package that were changed after its installation are listed."""

import base64
import hashlib
import sys

from parallax.harness.contract.installed import list_changed_modules


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
