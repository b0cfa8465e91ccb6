"""CPU and wall time of a study whose runs are forked from processes that have imported everything.

    python benchmarks/preloading.py

trains `study=demo` twice, with each run a process that imports everything itself and with such
servers (`harness/sweep/forked_process.py`), and compares what came out. Further arguments are
passed to `parallax train --multirun`.
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
from parallax.harness.record.reading import read_run

PLAIN = "import parallax.harness.sweep.forked_process as p; p._get_server_key = lambda spec: None; "
START = (
    "import sys; from parallax.harness.cli.main import main; "
    "sys.exit(main(['train', *sys.argv[1:]]))"
)
WAYS = {"plain": PLAIN + START, "preloaded": START}


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", default="plain", choices=list(WAYS))
    options, arguments = parser.parse_known_args()
    arguments = arguments or ["study=demo"]
    figures, products = {}, {}
    for way in sorted(WAYS, key=lambda way: way != options.first):
        with tempfile.TemporaryDirectory() as folder:
            figures[way] = measure(WAYS[way], [*arguments, f"results_dir={folder}"])
            products[way] = results(Path(folder))
        load = os.getloadavg()[0]
        cpu, wall = figures[way]
        print(f"{way:10} {cpu:8.1f} CPU s {wall:8.1f} s   load {load:.1f}", flush=True)
    ratios = [a / b for a, b in zip(figures["preloaded"], figures["plain"], strict=True)]
    print(f"ratio      {ratios[0]:8.3f} CPU   {ratios[1]:8.3f} wall")
    same = products["plain"] == products["preloaded"]
    print(f"{len(products['plain'])} runs, weights and evaluations equal: {same}")
    return 0


def measure(code: str, arguments: list[str]) -> tuple[float, float]:
    """CPU and wall seconds of a sweep, with all of its processes."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(
        [sys.executable, "-c", code, "--multirun", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - began


def results(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Hash of the weights and bytes of the evaluations of every run."""
    return {
        str(path.parent.relative_to(folder)): (
            read_run(path.parent).content["weights_sha256"],
            path.read_bytes(),
        )
        for path in sorted(folder.rglob("evaluations.npz"))
    }


if __name__ == "__main__":
    sys.exit(main())
