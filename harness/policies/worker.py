"""Acts on runs in a process of its own: `python -m harness.policies.worker`, a request on stdin.

The process has the interpreter and the threads of the runs, so that results are theirs to the last
bit. It answers with one line of JSON per run, on a stream that nothing else prints to.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.contract.fields import SpecError
from harness.policies.evaluating import Conditions, evaluate_under, own_returns, same_returns
from harness.policies.loading import LoadedPolicy, load
from harness.policies.video import film, titles


class Request(msgspec.Struct, frozen=True):
    """What is to be done.

    Attributes:
        action: A key of `ACTIONS`.
        folders: Run folders; the user trusts what they name.
        options: Of the action.
    """

    action: str
    folders: list[str]
    options: dict[str, Any] = {}


def main() -> int:
    """Does what standard input asks for."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # whatever upstream prints is no answer
        request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
        if request.action == "film":
            together = [request.folders]
        else:
            together = [[folder] for folder in request.folders]
        for folders in together:
            for answer in _answers(request, folders):
                print(json.dumps(answer), file=answers, flush=True)
    return 0


Answers = list[dict[str, Any]]


def _answers(request: Request, folders: Sequence[str]) -> Answers:
    """One for each folder, or those of the folders that stand in the way."""
    policies, failures = [], []
    for folder in folders:
        try:
            policies.append(load(folder, trust=True))
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
    told = {answer["folder"] for answer in failures}
    others = [folder for folder in folders if folder not in told]
    return failures + [{"folder": folder, "failure": "not filmed either"} for folder in others]


def _evaluate(policies: Sequence[LoadedPolicy], options: Mapping[str, Any]) -> Answers:
    (policy,) = policies
    conditions = Conditions(**options)
    evaluation = evaluate_under(policy, conditions)
    answer: dict[str, Any] = {
        "returns": evaluation.returns.tolist(),
        "lengths": evaluation.lengths.tolist(),
    }
    if conditions == Conditions():
        answer["same"] = same_returns(evaluation, own_returns(policy))
    return [answer]


def _export(policies: Sequence[LoadedPolicy], options: Mapping[str, Any]) -> Answers:
    (policy,) = policies
    target = Path(options["targets"][str(policy.folder)]).with_suffix(policy.suffix)
    target.parent.mkdir(parents=True, exist_ok=True)
    # With its suffix last: some frameworks append one where it is missing.
    temporary = target.with_name(f".{target.stem}-{os.getpid()}{target.suffix}")
    try:
        policy.save(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return [{"file": str(target)}]


def _film(policies: Sequence[LoadedPolicy], options: Mapping[str, Any]) -> Answers:
    returns = film(titles(policies), Path(options["file"]), options["episode"])
    return [{"return": value} for value in returns]


ACTIONS = {"evaluate": _evaluate, "export": _export, "film": _film}


if __name__ == "__main__":
    sys.exit(main())
