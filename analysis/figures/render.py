"""Draws many figures, several at once."""

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor

import matplotlib

from analysis.figures.save import PNG_DPI, to_bytes
from analysis.figures.sheet import Sheet
from analysis.figures.style import paper_settings

Files = dict[str, bytes]  # content by kind


def render(sheet: Sheet, kinds: Sequence[str] = ("png", "pdf"), dpi: int = PNG_DPI) -> Files:
    """The files of one figure: the same bytes for the same sheet.

    Args:
        sheet: The figure.
        kinds: `png`, `pdf` or both.
        dpi: Resolution of a PNG.
    """
    with matplotlib.rc_context(paper_settings()):
        figure = sheet.draw()
        return {kind: to_bytes(figure, kind, dpi) for kind in kinds}


def render_all(
    sheets: Sequence[Sheet], kinds: Sequence[str], dpi: int, jobs: int
) -> Iterator[tuple[Sheet, Files]]:
    """Draws figures in their order, `jobs` at a time.

    Args:
        sheets: The figures.
        kinds: `png`, `pdf` or both.
        dpi: Resolution of PNGs.
        jobs: Processes; 1 draws in this one.
    """
    jobs = min(jobs, len(sheets))
    if jobs <= 1:
        return ((sheet, render(sheet, kinds, dpi)) for sheet in sheets)
    # Forked workers need not import everything again. They start here and not with the first
    # figure asked for: by then a progress display may run a thread, which forks do not survive.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"))
    waiting = [pool.submit(render, sheet, kinds, dpi) for sheet in sheets]
    return _collect(pool, sheets, waiting)


def _collect(
    pool: ProcessPoolExecutor, sheets: Sequence[Sheet], waiting: Sequence[Future[Files]]
) -> Iterator[tuple[Sheet, Files]]:
    with pool:
        for sheet, future in zip(sheets, waiting, strict=True):
            yield sheet, future.result()


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
