import gc
import os
import signal

# Modules imported during collection stay: the garbage collector need not scan them.
gc.disable()
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"  # before anything imports a numerical library

import pytest
from hypothesis import HealthCheck, settings

# Time says nothing about a property on a machine that does other work besides.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


# What is started in the background of a script ignores Ctrl-C, with `nohup` also a closed terminal,
# and so would every command that is tried here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _one_thread_in_a_scratch_folder(tmp_path, monkeypatch):
    # Whatever a run leaves in its working folder must not end up in the checkout.
    scratch = tmp_path / "cwd"
    scratch.mkdir()
    monkeypatch.chdir(scratch)
