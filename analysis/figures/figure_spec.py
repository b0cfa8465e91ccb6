"""Figures before they are drawn, parallel drawing, and files with the same bytes each time."""

import contextlib
import dataclasses
import gc
import io
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

import matplotlib
import numpy as np
import PIL.Image
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from parallax.analysis.data.runs import StudyCell
from parallax.analysis.figures.style import get_paper_rc_settings, get_rc_settings


@dataclasses.dataclass(frozen=True)
class FigureSpec:
    """A figure before it is drawn: small enough to be sent to another process.

    Attributes:
        name: Name of its files, without ending.
        caption: Meaning of its parts, kind of interval, and number of runs.
        cells: Settings of the runs behind it.
        is_main: Whether pages in Markdown show it.
    """

    name: str
    title: str
    caption: str
    cells: tuple[StudyCell, ...]
    draw_content: Callable[[], Figure]
    is_main: bool = False

    def draw(self) -> Figure:
        """Draw it with the settings that figures of pages share."""
        with matplotlib.rc_context(get_paper_rc_settings()):
            return self.draw_content()


@dataclasses.dataclass(frozen=True)
class MissingFigure:
    """A figure for which there are no data, or too many."""

    name: str
    reason: str


MAX_SETTINGS = 128
"""Settings of a figure, each of which may be a panel: 300 take minutes and exceed an image."""


def limit_settings(item: FigureSpec | MissingFigure) -> FigureSpec | MissingFigure:
    """Return a figure, or the reason why it is not drawn if it has too many settings."""
    if isinstance(item, MissingFigure) or len(item.cells) <= MAX_SETTINGS:
        return item
    reason = f"of {len(item.cells)} settings, {MAX_SETTINGS} are drawn: name fewer"
    return MissingFigure(item.name, reason)


PNG_DPI = 200
# Metadata that would record when and with what a file was written.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


def figure_to_bytes(figure: Figure, kind: str, dpi: int = PNG_DPI) -> bytes:
    """Return the content of a file.

    Args:
        figure: The figure; the rc settings that it was drawn with must still be active.
        kind: `png` or `pdf`, for print; `webp`, for a page, with few colours.
        dpi: Resolution of an image, lower if it would be larger than a file can be.
    """
    buffer = io.BytesIO()
    dpi = min(dpi, int(_MAX_PIXELS / max(figure.get_size_inches())))
    if kind == "webp":
        _draw_image(figure, dpi).save(buffer, "webp", lossless=True, method=1)
    else:
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=_METADATA[kind])
    return buffer.getvalue()


_MAX_PIXELS = 16_383  # on a side, of WebP
_PAGE_COLORS = 96  # a figure has fewer hues; the rest smooths edges


def _draw_image(figure: Figure, dpi: int) -> PIL.Image.Image:
    """Draw a figure once: `savefig` draws it twice, the first time for its layout alone."""
    figure.set_dpi(dpi)
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if not axis.get_label_text():
                # Without this, Matplotlib measures all tick labels to place an empty label.
                axis.set_label_coords(0, 0)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    pixels = np.asarray(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    image = PIL.Image.fromarray(pixels).convert("RGB")
    reduced = image.quantize(
        _PAGE_COLORS, PIL.Image.Quantize.FASTOCTREE, dither=PIL.Image.Dither.NONE
    )
    return reduced.convert("RGB")


def webp_to_png(content: bytes) -> bytes:
    """Return the same image as a PNG with a palette."""
    buffer = io.BytesIO()
    with PIL.Image.open(io.BytesIO(content)) as image:
        image.convert("RGB").quantize(_PAGE_COLORS).save(buffer, "png")
    return buffer.getvalue()


def encode_figure(figure: Figure) -> "FigureFiles":
    """Return the PNG and PDF of a figure that was drawn with `get_rc_settings`."""
    with matplotlib.rc_context(get_rc_settings()):
        return {kind: figure_to_bytes(figure, kind) for kind in ("png", "pdf")}


FigureFiles = dict[str, bytes]  # content by kind


def render_figure(
    spec: FigureSpec, kinds: Sequence[str] = ("png", "pdf"), dpi: int = PNG_DPI
) -> FigureFiles:
    """Return the files of one figure: the same bytes for the same spec.

    Kinds are `png`, `pdf` and `webp`.
    """
    with matplotlib.rc_context(get_paper_rc_settings()), _pause_garbage_collection():
        figure = spec.draw()
        return {kind: figure_to_bytes(figure, kind, dpi) for kind in kinds}


@contextlib.contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Collect garbage after drawing, not during it, where it takes a fifth of the time."""
    on = gc.isenabled()
    gc.freeze()  # objects that existed before are not garbage of the figure
    gc.disable()
    try:
        yield
    finally:
        gc.collect()
        gc.unfreeze()
        if on:
            gc.enable()


def render_figures(
    specs: Sequence[FigureSpec], kinds: Sequence[str], dpi: int, jobs: int
) -> Iterator[tuple[FigureSpec, FigureFiles]]:
    """Draw figures in their order, `jobs` at a time.

    One job draws in this process; -1 is one per core.
    """
    jobs = min(count_cores() if jobs == -1 else jobs, len(specs))
    if jobs <= 1:
        return ((spec, render_figure(spec, kinds, dpi)) for spec in specs)
    # Forked workers need not import everything again. They start here and not with the first
    # figure requested: by then a progress display may run a thread, which is not safe to fork.
    pool = ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork"))
    waiting = [pool.submit(render_figure, spec, kinds, dpi) for spec in specs]
    return _collect_files(pool, specs, waiting)


def _collect_files(
    pool: ProcessPoolExecutor, specs: Sequence[FigureSpec], waiting: Sequence[Future[FigureFiles]]
) -> Iterator[tuple[FigureSpec, FigureFiles]]:
    with pool:
        for spec, future in zip(specs, waiting, strict=True):
            yield spec, future.result()


def count_cores() -> int:
    """Return the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
