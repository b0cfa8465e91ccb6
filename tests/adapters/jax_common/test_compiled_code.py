"""Code that JAX compiles is stored in a folder that only its user can open."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flax")
pytest.importorskip("optax")

COMPUTE_TWICE = """
import jax
from parallax.adapters.jax_common.parameters import configure_jax
events, results = [], []
jax.monitoring.register_event_listener(lambda name, **_: events.append(name))
configure_jax()
for i in range(2):
    jax.clear_caches()
    results += [jax.jit(lambda x: jax.numpy.tanh(x) @ x)(jax.numpy.arange(9.0)).tobytes()]
    print(sum("cache_hits" in name for name in events), results[0] == results[-1])
jax.config.update("jax_compilation_cache_dir", "chosen by the user")
configure_jax()
print(jax.config.jax_compilation_cache_dir)
"""


def test_compiled_code_is_cached_and_the_users_cache_folder_is_unchanged(tmp_path: Path):
    known = {name: value for name, value in os.environ.items() if not name.startswith("JAX")}
    done = subprocess.run(
        [sys.executable, "-c", COMPUTE_TWICE],
        env=known | {"XDG_CACHE_HOME": str(tmp_path)},
        check=True,
        capture_output=True,
        text=True,
    )
    first, second, chosen = done.stdout.splitlines()
    assert first == "0 True"
    assert second.split()[0] != "0" and second.endswith("True")
    assert chosen == "chosen by the user"
    folder = tmp_path / "parallax" / "jax"
    assert any("lambda" in file.name for file in folder.iterdir())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
