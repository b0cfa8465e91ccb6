"""Evaluate, export or record policies in worker processes.

`run_action` starts `python -m parallax.harness.policies.worker`, one process per interpreter and
number of threads of the runs, so that results are bit-equal to theirs. A worker reads a request
from stdin and answers with one line of JSON per run, on a stream that nothing else prints to.
"""

import contextlib
import dataclasses
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.envs.batched_env import make_batched_env
from parallax.envs.tasks import TaskError, load_task
from parallax.harness.contract.events import EvaluationResult
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.interpreter import (
    add_project_to_path,
    end_process,
    forbid_imports_from,
)
from parallax.harness.contract.run_spec import RunSpec
from parallax.harness.policies.loading import LoadedPolicy, load_policy
from parallax.harness.policies.video import make_titles, record_video
from parallax.harness.record.files import find_write_error, summarize_error, write_path_atomically
from parallax.harness.record.layout import POLICY_FILE
from parallax.harness.sweep.run_process import THREAD_VARIABLES
from parallax.harness.train.evaluation import evaluate_greedy_policy
from parallax.harness.train.limits import check_episodes


@dataclasses.dataclass(frozen=True)
class EvaluationConditions:
    """Conditions of an evaluation.

    Attributes:
        episodes: Number of episodes; as in training if None.
        seed: Seed of the initial states; the run's `evaluation_seed` if None.
        env: Keyword arguments for the task, such as `max_episode_steps`.
    """

    episodes: int | None = None
    seed: int | None = None
    env: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def evaluate_loaded_policy(
    policy: LoadedPolicy, conditions: EvaluationConditions
) -> EvaluationResult:
    """Play complete episodes in parallel environments.

    By default these are the episodes of the evaluation that the policy was saved at: the run's last
    or best one.

    Args:
        policy: A loaded policy.
        conditions: Changes to the run's own evaluation.

    Raises:
        SpecError: The task cannot be created under these conditions.
    """
    spec = policy.spec
    episodes = spec.eval_episodes if conditions.episodes is None else conditions.episodes
    check_episodes(episodes)
    seeds = policy.seeds(episodes, conditions.seed)
    try:
        _check_spaces(spec, conditions.env)
        env = make_batched_env(spec.env, episodes, **spec.env_options | dict(conditions.env))
    except TaskError as error:
        raise SpecError(str(error)) from error
    return evaluate_greedy_policy(policy.policy, env, seeds, policy.normalize)


def get_recorded_returns(policy: LoadedPolicy) -> NDArray[np.float64]:
    """Return the recorded returns of the policy's own evaluation, float64[episodes]."""
    returns: NDArray[np.float64] = policy.evaluations.results[policy.evaluation]
    return returns


def has_same_returns(evaluation: EvaluationResult, recorded: NDArray[np.float64]) -> bool:
    """Return whether returns equal the recorded ones, as float32 since that is what is stored."""
    returns = evaluation.returns.astype(np.float32)
    return returns.shape == recorded.shape and bool((returns == recorded.astype(np.float32)).all())


def _check_spaces(spec: RunSpec, options: Mapping[str, Any]) -> None:
    """Require that a changed task has the observations and actions of the policy."""
    if not options:
        return
    before = load_task(spec.env, **spec.env_options)
    after = load_task(spec.env, **spec.env_options | dict(options))
    for name in ("observation_size", "image", "action_low", "action_high", "choices"):
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            changes = ", ".join(f"env.{key}={value}" for key, value in options.items())
            raise SpecError(
                f"{changes} changes {name} of {spec.task_name} from {old} in training to {new}; "
                "the policy cannot act there. Drop that option."
            )


class PolicyRequest(msgspec.Struct, frozen=True):
    """Request to a worker."""

    action: str
    folders: list[str]
    options: dict[str, Any] = {}


def main() -> int:
    """Carry out the request on standard input."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)  # what upstream prints goes to stderr
        # Not msgspec's decoder, which refuses the names of folders that are not valid text.
        request = msgspec.convert(json.loads(sys.stdin.buffer.read()), PolicyRequest)
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
        except (Exception, SystemExit) as error:  # other runs must not fail with this one
            failures.append({"folder": folder, "failure": _describe_failure(error)})
    if not failures:
        try:
            found = ACTIONS[request.action](policies, request.options)
        except (Exception, SystemExit) as error:
            failures.append({"folder": folders[0], "failure": _describe_failure(error)})
        else:
            pairs = zip(folders, found, strict=True)
            return [{"folder": folder, **answer} for folder, answer in pairs]
    failed = {answer["folder"] for answer in failures}
    others = [folder for folder in folders if folder not in failed]
    return failures + [{"folder": folder, "failure": "not recorded either"} for folder in others]


def _describe_failure(error: BaseException) -> str:
    is_known = isinstance(error, SpecError | OSError)
    return str(error) if is_known else f"{type(error).__name__}: {summarize_error(error)}"


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
    write_path_atomically(target, functools.partial(_save_policy, policy, target))
    return [{"file": str(target)}]


def _save_policy(policy: LoadedPolicy, target: Path, temporary: Path) -> None:
    try:
        policy.save(temporary)
    except Exception as error:
        size = 4 * (policy.folder / POLICY_FILE).stat().st_size + 2**16
        failed = error if isinstance(error, OSError) else find_write_error(temporary, size)
        if failed is None:
            raise
        raise SpecError(f"{target} cannot be written: {failed.strerror}.") from error


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
    """Carry out an action on runs and yield the answers as soon as they arrive."""
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
        # A process that has ended cannot be written to; the runs without an answer report it.
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(request)
        for line in process.stdout:
            answer: WorkerAnswer = json.loads(line)
            waiting.remove(answer["folder"])
            yield answer
    failure = f"its process ended with exit code {process.returncode}"
    yield from ({"folder": folder, "failure": failure} for folder in waiting)


if __name__ == "__main__":
    end_process(main())
