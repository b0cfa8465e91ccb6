"""Progress shows what is done and how long the rest will take."""

import io

from parallax.harness.cli.progress import CommandProgress, format_seconds


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def run_progress(is_terminal):
    out, clock = io.StringIO(), Clock()
    out.isatty = lambda: is_terminal
    with CommandProgress(4, out, clock) as progress:
        for name in ("a", "b", "c", "d"):
            clock.now += 12
            progress.advance(name)
    return out.getvalue()


def test_a_terminal_has_one_line_that_is_removed():
    text = run_progress(is_terminal=True)
    assert "2/4, about 24 s left  b" in text and "4/4  d" in text
    assert text.endswith("\r\x1b[K")


def test_a_log_has_a_line_every_ten_seconds():
    lines = run_progress(is_terminal=False).splitlines()
    assert lines == ["1/4  a", "2/4, about 24 s left  b", "3/4, about 12 s left  c", "4/4  d"]


def test_the_time_of_the_first_report_does_not_count():
    out, clock = io.StringIO(), Clock()
    with CommandProgress(101, out, clock) as progress:
        for seconds in (60, *[10] * 5):  # imports and workers start before the first report
            clock.now += seconds
            progress.advance()
    lines = out.getvalue().splitlines()
    assert lines[0] == "1/101" and lines[-1] == "6/101, about 16 min left"


def test_durations_are_human_readable():
    assert [format_seconds(s) for s in (5, 600, 9000)] == ["5 s", "10 min", "2.5 h"]
