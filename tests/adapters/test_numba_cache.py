import importlib.util
import sys

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
