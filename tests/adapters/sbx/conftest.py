import os

import pytest


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(request):
    # What JAX compiles is the same in every training of one size; processes and later sessions
    # find it again. It is machine code, so that no number differs by it.
    folder = str(request.config.cache.mkdir("jax"))
    asked = {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    before = {name: os.environ.get(name) for name in asked}
    os.environ.update(asked)  # read when JAX is imported, which is later
    yield
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})
