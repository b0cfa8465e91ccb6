"""Time and memory of the full report of a study.

    python benchmarks/report.py

writes 1,440 synthetic runs of 300 evaluations x 30 episodes to a temporary folder (110 MB, see
`synthetic_study.py`) and times `parallax report` on it with `--jobs` processes. Memory is
that of all its processes together, with shared pages counted once, sampled ten times a second
(Linux only). The folder has just been written, so its files are in the operating system's cache.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.synthetic_returns import StudySize
from benchmarks.synthetic_study import write_study

MEBIBYTE = 1 << 20


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="figures drawn at a time (default: 2)")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "synthetic"
        start = time.perf_counter()
        counts = write_study(folder, StudySize())
        words = ", ".join(f"{count} {fate}" for fate, count in counts.items())
        print(f"{sum(counts.values()):,} runs ({words}), written in {_measure_since(start):.1f} s")
        for repeat in range(options.repeats):
            print(f"repeat {repeat + 1}: {measure_report(folder, options.jobs)}", flush=True)
    return 0


def measure_report(folder: Path, jobs: int) -> str:
    """Make the report once.

    Args:
        folder: Results folder.
        jobs: Processes that draw.

    Returns:
        Seconds, CPU seconds, memory and the page's size, in words.
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    command = [sys.executable, "-m", "parallax", "report", str(folder), "--jobs", str(jobs)]
    before, start = _read_cpu_seconds(), time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, measure_memory(process.pid))
        time.sleep(0.1)
    seconds, cpu = _measure_since(start), _read_cpu_seconds() - before
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    page = (folder / "analysis" / "report.html").stat().st_size
    return (
        f"{seconds:.1f} s, {cpu:.1f} s of CPU time, {peak / MEBIBYTE:,.0f} MiB at most, "
        f"page of {page / MEBIBYTE:.1f} MiB, load {os.getloadavg()[0]:.1f}"
    )


def measure_memory(pid: int) -> int:
    """Return the bytes of a process and its descendants; shared pages count once."""
    total = 0
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total = int(line.split()[1]) * 1024
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:  # it has just ended
        return total
    return total + sum(measure_memory(int(child)) for child in children)


def _read_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _measure_since(start: float) -> float:
    return time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
