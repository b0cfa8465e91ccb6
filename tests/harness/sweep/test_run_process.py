"""The process of a run, as a sweep waits for it."""

import subprocess
import sys
import time

from parallax.harness.sweep.run_process import RunProcess


def start(code):
    process = object.__new__(RunProcess)
    process._process = subprocess.Popen([sys.executable, "-S", "-c", code], stdin=subprocess.PIPE)
    return process


def test_waiting_says_whether_the_process_has_ended():
    process = start("input()")
    began = time.monotonic()
    assert process.wait(0.05) is False
    assert time.monotonic() - began >= 0.05
    process._process.communicate(b"\n")
    assert process.wait(30) is True
