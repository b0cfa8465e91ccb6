"""Reads damaged studies with every command that reads, in a process of its own.

`python -m fuzz_reader TOP` prints one line of JSON per reading: of each folder in `TOP/results`
alone, and then of all of them together. A reader that hangs is interrupted after `LIMIT` seconds,
and memory is bounded: neither may end this process.
"""

import contextlib
import io
import json
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

LIMIT = 2.0  # seconds of work for one folder
STUDY_LIMIT = 20.0  # seconds of work for a command on all of them
PATIENCE = 4  # times as long on the clock: others may have the processor
MEMORY = 3 * 2**30


class TooLong(BaseException):
    """Not an Exception: readers must not be able to catch it."""


def main(top, pages):
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _interrupt)
    folders = sorted((top / "results").iterdir())
    plans = json.loads((top / "plans.json").read_text())
    _read(folders[0], limit=300)  # what is loaded late is loaded now
    for folder in folders:
        for reader, answer in _read(folder):
            _say(folder.name, reader, answer)
    for reader, answer in _read_together(top, pages):
        _say("all", reader, answer)
    for folder in folders:
        _say(folder.name, "sweep", _try(start_again, folder, plans.get(folder.name)))


def _read(folder, limit=LIMIT):
    readers = {
        "status": status,
        "validate": validate,
        "analysis": analyse,
        "rerun": rerun,
        "resubmit": resubmit,
        "cancel": cancel,
    }
    return [(name, _try(reader, folder, limit=limit)) for name, reader in readers.items()]


def _read_together(top, pages):
    results, output = top / "results", top / "output"
    yield "status", _try(status, results, limit=STUDY_LIMIT)
    yield "status table", _try(show_status, results, limit=STUDY_LIMIT)
    yield "validate", _try(validate, results, limit=STUDY_LIMIT)
    yield "analysis", _try(analyse, results, limit=STUDY_LIMIT)
    yield "resubmit", _try(resubmit, results, limit=STUDY_LIMIT)
    for name in (
        "compare",
        "study verdicts",
        "study plan",
        "study verdicts --tables",
        *(("study figures", "report") if pages else ()),
    ):
        where = output / name
        if name == "study plan":
            where = where / "plan.sh"
        yield name, _try(run_analysis, name, results, where, limit=3 * STUDY_LIMIT)


def _say(name, reader, answer):
    line = json.dumps({"name": name, "reader": reader, **answer})
    print(line, file=sys.__stdout__, flush=True)  # whatever a reader did to the other one


def _interrupt(number, frame):
    _set_timers(0, 0)  # the other one must not strike while this one is dealt with
    raise TooLong


def _try(reader, *arguments, limit=LIMIT):
    """Return the answer of a reader, its duration and its fault, if any."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    fault, found, start = "", {}, time.process_time()
    # A command forgets places beside the runs that it reads; each is a process of its own.
    importable = list(sys.path)
    _set_timers(limit, PATIENCE * limit)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = reader(*arguments) or {}
        _set_timers(0, 0)
    except TooLong:
        fault = "too long: " + _place(sys.exc_info()[2])
    except BaseException as error:
        _set_timers(0, 0)
        fault = f"{type(error).__name__}: {_place(error.__traceback__)}: {str(error)[:100]}"
    seconds = time.process_time() - start
    sys.path[:] = importable
    err.flush()
    if b"Traceback" in err.buffer.getvalue():
        fault = fault or "a traceback on standard error"
    if seconds > limit and not fault:
        fault = f"too long: {seconds:.1f} s"
    return {"fault": fault, "seconds": seconds, **found}


def _set_timers(working, waiting):
    signal.setitimer(signal.ITIMER_PROF, working)
    signal.setitimer(signal.ITIMER_REAL, waiting)


def _place(trace):
    """Return the place in the project that raised an error."""
    frames = traceback.extract_tb(trace)
    project = str(Path(__file__).parents[1])
    ours = [f for f in frames if f.filename.startswith(project) and "fuzz_" not in f.filename]
    frame = ([f for f in ours if ".venv" not in f.filename] or frames)[-1]
    return f"{Path(frame.filename).name} {frame.name}"


# Readers: what each tells of the folders in its reach


def _printed():
    sys.stdout.flush()
    return sys.stdout.buffer.getvalue().decode("utf-8", "surrogateescape")


def status(folder):
    from parallax.harness.cli.main import main

    code = main(["status", "--json", str(folder)])
    runs = json.loads(_printed())["runs"] if code == 0 else []
    return {"code": code, "states": [[run["folder"], run["state"]] for run in runs]}


def show_status(folder):
    from parallax.harness.cli.main import main

    return {"code": main(["status", str(folder)])}


def validate(folder):
    from parallax.harness.cli.main import main

    code = main(["run", "validate", str(folder)])
    lines = [line for line in _printed().splitlines() if line.startswith(str(folder))]
    return {"code": code, "named": lines}


def analyse(folder):
    from parallax.analysis.data.load import load_runs

    loaded = load_runs(folder)
    complete = [str(run.path) for run in loaded.runs]
    complete += [str(item.path) for item in loaded.excluded if item.completed]
    return {"complete": complete}


def run_analysis(name, folder, output):
    from parallax.harness.cli.main import main

    return {"code": main([*name.split(), str(folder), "--output", str(output)])}


def resubmit(folder):
    from parallax.harness.cli.main import main

    return {"code": main(["slurm", "resubmit", "--dry-run", str(folder)])}


def cancel(folder):
    from parallax.harness.cli.main import main

    return {"code": main(["slurm", "cancel", "--yes", str(folder)])}


def rerun(folder):
    """Return whether `rerun` reports the run as complete; nothing is run."""
    import parallax.harness.cli.run
    from parallax.harness.cli.main import main
    from parallax.harness.contract.fields import SpecError

    started = []

    def refuse(*arguments, **options):
        started.append(True)
        raise SpecError("Nothing is run here.")

    parallax.harness.cli.run.run_sweep = refuse
    run = run_folder(folder)
    if run is None:
        return {}
    code = main(["run", "reproduce", str(run)])
    sys.stderr.flush()
    said = sys.stderr.buffer.getvalue().decode("utf-8", "replace")
    denied = "holds no complete run" in said
    return {"code": code, "complete": [str(run)] if started else [], "denied": denied}


def run_folder(folder):
    """The run folder in a planted one, wherever it has gone."""
    found = list(folder.glob("*/*/*/*/*/*/seed=*"))
    return found[0] if found else None


def start_again(folder, plan):
    """Return whether a sweep would skip the run; otherwise it is initialized again."""
    from parallax.harness.contract.adapter_discovery import load_adapter
    from parallax.harness.contract.fields import SpecError
    from parallax.harness.contract.run_spec import spec_from_dict
    from parallax.harness.sweep.sweep import initialize_runs
    from parallax.harness.train.prepare import prepare_run

    if plan is None:
        return {}
    spec = spec_from_dict(plan)
    where = spec.folder(folder)
    prepared = prepare_run(spec, load_adapter(spec.framework))
    try:
        pending, others = initialize_runs([(where, prepared)])
    except SpecError as error:
        return {"refused": str(error)}
    skipped = [str(path) for path, owner in others.items() if owner is None]
    return {"complete": skipped, "pending": len(pending)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), "pages" in sys.argv[2:])
