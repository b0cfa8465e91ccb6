"""A figure before it is drawn, many drawn at once, and their files: the same bytes each time."""

import contextlib
import dataclasses
import gc
import io
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from analysis.data.runs import Cell
from analysis.figures.style import paper_settings, settings
from harness.record.files import write_whole


@dataclasses.dataclass(frozen=True)
class Sheet:
    """A figure before it is drawn: small enough to be sent to another process.

    Attributes:
        name: Name of its files, without ending.
        title: What it shows, in a few words.
        caption: What its parts mean, which interval, how many runs.
        cells: Settings of the runs behind it.
        draw: Draws it; takes nothing.
    """

    name: str
    title: str
    caption: str
    cells: tuple[Cell, ...]
    draw: Callable[[], Figure]


@dataclasses.dataclass(frozen=True)
class NotDrawn:
    """A figure for which there are no data.

    Attributes:
        name: What its files would be called.
        reason: What is not there.
    """

    name: str
    reason: str


PNG_DPI = 200
# What would tell when and with what a file was written.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def to_bytes(figure: Figure, kind: str, dpi: int = PNG_DPI) -> bytes:
    """The content of a file.

    Args:
        figure: To be called with the settings in force that the figure was drawn with.
        kind: `png` or `pdf`.
        dpi: Resolution of a PNG.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=_METADATA[kind])
    return buffer.getvalue()


def save(figure: Figure, png: Path, pdf: Path) -> None:
    """Writes both formats of a figure that was drawn with `settings`."""
    with matplotlib.rc_context(settings()):
        for path, kind in ((png, "png"), (pdf, "pdf")):
            write_bytes(path, to_bytes(figure, kind))


def write_bytes(path: Path, content: bytes) -> None:
    """Writes a whole file or none."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_whole(path, write)


Files = dict[str, bytes]  # content by kind


def render(sheet: Sheet, kinds: Sequence[str] = ("png", "pdf"), dpi: int = PNG_DPI) -> Files:
    """The files of one figure: the same bytes for the same sheet.

    Args:
        sheet: The figure.
        kinds: `png`, `pdf` or both.
        dpi: Resolution of a PNG.
    """
    with matplotlib.rc_context(paper_settings()), _collecting_rarely():
        return _files(sheet.draw(), kinds, dpi)


def _files(figure: Figure, kinds: Sequence[str], dpi: int) -> Files:
    return {kind: to_bytes(figure, kind, dpi) for kind in kinds}


@contextlib.contextmanager
def _collecting_rarely() -> Iterator[None]:
    """Looks for garbage after a figure, not within it: a fifth of the time of drawing one."""
    on = gc.isenabled()
    gc.freeze()  # nothing that was there before is garbage of the figure
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if on:
            gc.enable()


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
