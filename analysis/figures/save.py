"""Writes figures as PNG and PDF: the same bytes for the same figure."""

import io
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from analysis.figures.style import settings
from harness.record.files import write_whole

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
