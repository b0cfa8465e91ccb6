"""Cached virtual environments, one per release of a framework, with few other packages.

An environment has its own site-packages with the framework and the packages that this release needs
in other versions. All others, such as PyTorch, come from the packages of this interpreter, which a
`.pth` file appends to the module path. So an environment takes only megabytes and seconds.
"""

import importlib.metadata
import os
import shutil
import site
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import leave_out_folder
from parallax.harness.contract.packages import VersionRange, parse_version

_SHARED_PACKAGES_FILE = "zz_shared_packages.pth"
_MAX_MESSAGE_CHARACTERS = 300


def build_environment(requirements: Sequence[str], cache: Path) -> Path:
    """Return the interpreter of an environment; build the environment if it does not exist.

    Args:
        requirements: Packages with exact versions, `name==version`; the framework first.
        cache: Folder of all environments.

    Raises:
        SpecError: A package cannot be installed, or there is an environment that is damaged or
            belongs to another user.
    """
    name = "+".join(requirement.replace("==", "-") for requirement in requirements)
    folder = cache / f"python{sys.version_info[0]}.{sys.version_info[1]}" / name
    python = folder / "bin" / "python"
    if not python.exists():
        _build_folder(requirements, folder)
    _check_owner(folder)
    _check_packages(requirements, folder)
    return python


def _build_folder(requirements: Sequence[str], folder: Path) -> None:
    # Builds an environment beside its place, and moves it there.
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        venv.create(partial, with_pip=False, symlinks=True)
        packages = find_packages_folder(partial / "bin" / "python")
        shared = "\n".join(site.getsitepackages())
        (packages / _SHARED_PACKAGES_FILE).write_text(f"{shared}\n")
        install_packages(requirements, packages)
        partial.rename(folder)
    except OSError as error:  # another process may have been first
        if not (folder / "bin" / "python").exists():
            reason = f"{folder}: {error.strerror}: delete it, and it will be built again."
            raise SpecError(f"{' '.join(requirements)} cannot be installed in {reason}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_owner(folder: Path) -> None:
    # The programs of an environment run as the user who measures with it.
    if folder.lstat().st_uid not in (os.geteuid(), 0):
        raise SpecError(
            f"{folder} belongs to another user, whose programs would run as you: choose another "
            "cache folder, and it will be built there."
        )


def _check_packages(requirements: Sequence[str], folder: Path) -> None:
    """Check that an environment has its own packages, all modules included.

    A program that removes old files from caches would leave an environment that imports the
    packages of this interpreter instead, and its answers would count as those of the release.

    Raises:
        SpecError: One is not there, or has another version.
    """
    # Without its settings, the interpreter is the one that it links to.
    is_virtual = (folder / "pyvenv.cfg").is_file()
    packages = [str(place) for place in folder.glob("lib/python*/site-packages")]
    for requirement in requirements:
        name, _, version = requirement.partition("==")
        found = next(iter(importlib.metadata.distributions(name=name, path=packages)), None)
        files = [] if found is None else found.files or []
        modules = [file for file in files if file.suffix == ".py" and ".." not in file.parts]
        is_whole = is_virtual and all(Path(str(file.locate())).is_file() for file in modules)
        if found is None or found.version != version or not is_whole:
            raise SpecError(
                f"{folder} does not have all of {requirement}: delete it, and it will be built "
                "again."
            )


def find_packages_folder(python: Path) -> Path:
    """Return the folder that an environment's own packages are in."""
    return next(python.parents[1].glob("lib/python*/site-packages"))


def install_packages(requirements: Sequence[str], folder: Path) -> None:
    """Install packages without their dependencies into a folder, with uv if available, or pip.

    Raises:
        SpecError: They cannot be installed.
    """
    uv = shutil.which("uv")
    installer = (
        [uv, "pip", "install", "--python", sys.executable]
        if uv
        else [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    )
    # CleanRL's wheels exclude the Pythons that run them; uv has no such option.
    installer += [] if uv else ["--ignore-requires-python"]
    command = [
        *installer,
        "--quiet",
        "--no-deps",
        "--target",
        str(folder.absolute()),
        *requirements,
    ]
    done = _run_installer(command, folder)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it wrote no message"]
        raise SpecError(
            f"{' '.join(requirements)} cannot be installed: {lines[-1][:_MAX_MESSAGE_CHARACTERS]}"
        )


def _run_installer(
    command: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run pip or uv, in a folder of ours: uv reads settings, such as an index, where it runs."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        env=leave_out_folder(dict(os.environ)),
    )


def list_released_versions(supported: VersionRange) -> tuple[str, ...]:
    """Return the releases in the package index that the adapter supports, oldest first.

    Raises:
        SpecError: The index cannot be read.
    """
    command = [sys.executable, "-m", "pip", "index", "versions", supported.package]
    command.append("--ignore-requires-python")
    done = _run_installer(command)
    found = parse_index_answer(done.stdout)
    if done.returncode or not found:
        raise SpecError(
            f"pip index lists no versions of {supported.package}. Name them with --releases."
        )
    return tuple(sorted(filter(supported.contains, found), key=parse_version))


def parse_index_answer(text: str) -> list[str]:
    """Return the versions in the output of `pip index versions`."""
    for line in text.splitlines():
        start, _, versions = line.partition(":")
        if start.strip() == "Available versions":
            return [name.strip() for name in versions.split(",") if name.strip()]
    return []
