"""Figures look the same whatever settings of Matplotlib the current folder has."""

import os
import subprocess
import sys

import pytest
from support import ROOT

HOSTILE = "text.usetex: True\nlines.linewidth: 40\nfigure.dpi: 7\nbackend: module://evil\n"
SCRIPT = """
import matplotlib
from {module} import {settings} as settings
with matplotlib.rc_context(settings() if callable(settings) else settings):
    print(matplotlib.rcParams["text.usetex"], matplotlib.rcParams["text.parse_math"])
    print({{k: v for k, v in dict.items(matplotlib.rcParams) if not k.startswith("backend")}})
"""


@pytest.mark.parametrize(
    "names",
    [
        ("parallax.analysis.figures.style", "get_rc_settings"),
        ("parallax.analysis.figures.style", "get_paper_rc_settings"),
        ("parallax.harness.probes.figures", "STYLE"),
    ],
)
def test_settings_in_the_current_folder_change_no_figure(tmp_path, names):
    """They could start LaTeX with lines of their own, or draw other lines."""
    script = SCRIPT.format(module=names[0], settings=names[1])
    printed = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        printed.append(done.stdout)
        (tmp_path / "matplotlibrc").write_text(HOSTILE)
    assert printed[0] == printed[1] and printed[0].startswith("False False")
