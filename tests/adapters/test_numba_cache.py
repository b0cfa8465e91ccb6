import fcntl
import importlib.util
import os
import sys
import tempfile

import pytest

from parallax.adapters.torch_common.sum_tree import cache_compiled

pytest.importorskip("numba")
SOURCE = "from numba import njit\n\n@njit\ndef double(number):\n    return 2 * number\n"


@pytest.fixture
def fresh(tmp_path, monkeypatch):
    """Imports a module with a loop of numba's, as a new process would."""
    file = tmp_path / "some_loops.py"
    file.write_text(SOURCE)

    def load():
        spec = importlib.util.spec_from_file_location("some_loops", file)
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "some_loops", module)
        spec.loader.exec_module(module)
        return module

    return load


def test_functions_compiled_within_the_context_are_cached_and_later_ones_are_not(fresh):
    for found in (0, 1):
        module = fresh()
        with cache_compiled("test", vars(module).values()):
            assert module.double(2) == 4
            hits = sum(module.double.stats.cache_hits.values())
        assert hits == found
        assert module.double(1.5) == 3.0  # compiled, and not cached
    module = fresh()
    with cache_compiled("test", vars(module).values()):
        assert module.double(1.5) == 3.0
        assert not module.double.stats.cache_hits


@pytest.mark.parametrize("obstacle", ["pipe", "link", "others"])
def test_a_lock_that_others_can_hold_is_not_waited_for(fresh, tmp_path, monkeypatch, obstacle):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lock = tmp_path / f".parallax-test-{os.getuid()}.lock"
    theirs = tmp_path / "theirs"
    theirs.touch(0o644)
    if obstacle == "pipe":
        os.mkfifo(lock, 0o600)
    elif obstacle == "link":
        lock.symlink_to(theirs)
    else:
        lock.touch(0o644)
    with (theirs if obstacle != "others" else lock).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        module = fresh()
        with cache_compiled("test", vars(module).values()):
            assert module.double(2) == 4
