"""Evaluate, export or record policies in worker processes.

`run_action` starts `python -m parallax.harness.policies.worker`, one process per interpreter and
number of threads of the runs, so that results are bit-equal to theirs. A worker reads a request
from stdin and answers with one line of JSON per run, on a stream that nothing else prints to.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import add_project_to_path, forbid_imports_from
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.policies.evaluation import (
    EvaluationConditions,
    evaluate_loaded_policy,
    get_recorded_returns,
    has_same_returns,
)
from parallax.harness.policies.loading import LoadedPolicy, load_policy
from parallax.harness.policies.video import make_titles, record_video
from parallax.harness.sweep.run_process import THREAD_VARIABLES


class PolicyRequest(msgspec.Struct, frozen=True):
    """Request to a worker.

    Attributes:
        action: A key of `ACTIONS`.
        folders: Run folders; the user trusts the code that they name.
        options: Options of the action.
    """

    action: str
    folders: list[str]
    options: dict[str, Any] = {}


def main() -> int:
    """Carry out the request on standard input."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what upstream prints goes to stderr
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=PolicyRequest)
        forbid_imports_from(map(Path, request.folders))
        if request.action == "film":
            together = [request.folders]
        else:
            together = [[folder] for folder in request.folders]
        for folders in together:
            for answer in _answer_request(request, folders):
                print(json.dumps(answer), file=answers, flush=True)
    return 0


RunAnswers = list[dict[str, Any]]


def _answer_request(request: PolicyRequest, folders: Sequence[str]) -> RunAnswers:
    """Return an answer per folder; if a folder fails, failures only."""
    policies, failures = [], []
    for folder in folders:
        try:
            policies.append(load_policy(folder, trust=True))
        except (SpecError, OSError) as error:
            failures.append({"folder": folder, "failure": str(error)})
    if not failures:
        try:
            found = ACTIONS[request.action](policies, request.options)
        except (SpecError, OSError) as error:
            failures.append({"folder": folders[0], "failure": str(error)})
        else:
            pairs = zip(folders, found, strict=True)
            return [{"folder": folder, **answer} for folder, answer in pairs]
    failed = {answer["folder"] for answer in failures}
    others = [folder for folder in folders if folder not in failed]
    return failures + [{"folder": folder, "failure": "not recorded either"} for folder in others]


def _evaluate_run(policies: Sequence[LoadedPolicy], options: Mapping[str, Any]) -> RunAnswers:
    (policy,) = policies
    conditions = EvaluationConditions(**options)
    evaluation = evaluate_loaded_policy(policy, conditions)
    answer: dict[str, Any] = {
        "returns": evaluation.returns.tolist(),
        "lengths": evaluation.lengths.tolist(),
    }
    if conditions == EvaluationConditions():
        answer["same"] = has_same_returns(evaluation, get_recorded_returns(policy))
    return [answer]


def _export_policy(policies: Sequence[LoadedPolicy], options: Mapping[str, Any]) -> RunAnswers:
    (policy,) = policies
    target = Path(options["targets"][str(policy.folder)]).with_suffix(policy.suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix comes last, since some frameworks append a missing one.
    temporary = target.with_name(f".{target.stem}-{os.getpid()}{target.suffix}")
    try:
        policy.save(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return [{"file": str(target)}]


def _record_video(policies: Sequence[LoadedPolicy], options: Mapping[str, Any]) -> RunAnswers:
    returns = record_video(make_titles(policies), Path(options["file"]), options["episode"])
    return [{"return": value} for value in returns]


ACTIONS = {"evaluate": _evaluate_run, "export": _export_policy, "film": _record_video}


WorkerAnswer = Mapping[str, Any]
"""Answer of a worker for a run: `folder`, and `failure` or the result of the action."""


def run_action(
    action: str,
    runs: Mapping[Path, RunSpec],
    options: Mapping[str, Any],
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[WorkerAnswer]:
    """Carry out an action on runs and yield the answers as soon as they are there.

    Args:
        action: A key of `ACTIONS`.
        runs: Run folders, whose code the user trusts, with their specs.
        options: Options of the action.
        variables: Environment variables that are added for workers.
    """
    groups: dict[tuple[str, int], list[Path]] = {}
    for folder, spec in runs.items():
        groups.setdefault((spec.python or sys.executable, spec.threads), []).append(folder)
    for (python, threads), folders in groups.items():
        request = {"action": action, "folders": list(map(str, folders)), "options": dict(options)}
        environment = os.environ | variables | dict.fromkeys(THREAD_VARIABLES, str(threads))
        yield from _query_worker(python, environment, folders, json.dumps(request))


def _query_worker(
    python: str, environment: dict[str, str], folders: Sequence[Path], request: str
) -> Iterator[WorkerAnswer]:
    waiting = list(map(str, folders))
    try:
        process = subprocess.Popen(
            [python, "-m", "parallax.harness.policies.worker"],
            env=add_project_to_path(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    except OSError as error:
        failure = f"{python} cannot be started: {error.strerror}"
        yield from ({"folder": folder, "failure": failure} for folder in waiting)
        return
    with process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(request)
        process.stdin.close()
        for line in process.stdout:
            answer: WorkerAnswer = json.loads(line)
            waiting.remove(answer["folder"])
            yield answer
    failure = f"its process ended with exit code {process.returncode}"
    yield from ({"folder": folder, "failure": failure} for folder in waiting)


if __name__ == "__main__":
    sys.exit(main())
