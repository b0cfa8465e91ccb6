"""The catalogue of questions, and the process that answers them for a module's implementations.

`python -m parallax.harness.environment_probes.catalogue MODULE PACKAGE,PACKAGE` prints the report
as JSON, in any interpreter that has gymnasium, numpy and what the module imports.
"""

import importlib
import importlib.metadata
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence

from parallax.harness.contract.probing.environments import (
    ACTION_CLIP,
    ACTION_RESCALE,
    EPISODE_STATISTICS,
    EPISODES,
    FRAME_STACK,
    OBSERVATION_NORMALIZATION,
    REWARD_FUNCTION,
    REWARD_NORMALIZATION,
    TIME_LIMIT,
    EnvironmentImplementation,
    locate_source,
)
from parallax.harness.environment_probes import episodes, normalization, transforms
from parallax.harness.environment_probes.answers import (
    DIFFERS,
    FAILED,
    EnvironmentAnswer,
    EnvironmentQuestion,
    EnvironmentReport,
)
from parallax.harness.environment_probes.own_environment import (
    OWN_QUESTIONS,
    list_own_implementations,
)

MARK = "environment-report:"
OWN = "own:"
"""Prefix of a user's `module:Class`."""

QUESTIONS: tuple[EnvironmentQuestion, ...] = (
    EnvironmentQuestion(
        "episode.observations",
        EPISODES,
        "Is each observation that of its episode and step, also after resets?",
        "the observation of the script",
        episodes.measure_observations,
    ),
    EnvironmentQuestion(
        "episode.terminal_observation",
        EPISODES,
        "Where is the observation at the end of an episode?",
        "it is given somewhere, and is that of the last step",
        episodes.measure_terminal_observation,
    ),
    EnvironmentQuestion(
        "episode.reset_step",
        EPISODES,
        "Who resets, and does it take a step?",
        "",
        episodes.measure_reset_step,
    ),
    EnvironmentQuestion(
        "episode.rewards",
        EPISODES,
        "Is each reward that of its step?",
        "the reward of the script; 0 in a step that resets",
        episodes.measure_rewards,
    ),
    EnvironmentQuestion(
        "episode.end_flags",
        EPISODES,
        "What do terminated and truncated say?",
        "what the task says; a termination at a time limit is at least a termination",
        episodes.measure_end_flags,
    ),
    EnvironmentQuestion(
        "episode.seeds",
        EPISODES,
        "Which seed does each copy get?",
        "the same seed gives the same numbers, and copies differ",
        episodes.measure_seeds,
    ),
    EnvironmentQuestion(
        "episode.types",
        EPISODES,
        "Of which type are observations and rewards?",
        "observations are of the type of their space",
        episodes.measure_dtypes,
    ),
    EnvironmentQuestion(
        "episode.overwriting",
        EPISODES,
        "Do later steps change arrays that were returned before?",
        "they do not",
        episodes.measure_overwriting,
    ),
    EnvironmentQuestion(
        "episode.action",
        EPISODES,
        "Which action reaches the task?",
        "the one that was passed, within the bounds",
        episodes.measure_passed_action,
    ),
    EnvironmentQuestion(
        "time_limit.length",
        TIME_LIMIT,
        "After how many steps does the limit end an episode?",
        "after as many as the limit says, in each episode, as a truncation",
        episodes.measure_time_limit,
    ),
    EnvironmentQuestion(
        "time_limit.with_termination",
        TIME_LIMIT,
        "What do the flags say if the task terminates at the limit?",
        "at least a termination",
        episodes.measure_limit_with_termination,
    ),
    EnvironmentQuestion(
        "statistics.episode",
        EPISODE_STATISTICS,
        "Are the recorded return and length those of the episode?",
        "sum and number of the episode's rewards",
        episodes.measure_episode_statistics,
    ),
    EnvironmentQuestion(
        "normalization.observations",
        OBSERVATION_NORMALIZATION,
        "Which mean and variance scale observations?",
        "population moments of every observation that was returned, each once, over all copies",
        normalization.measure_observation_statistics,
    ),
    EnvironmentQuestion(
        "normalization.frozen_observations",
        OBSERVATION_NORMALIZATION,
        "Do frozen statistics of observations stay as they are?",
        "they do",
        normalization.measure_frozen_observations,
    ),
    EnvironmentQuestion(
        "normalization.rewards",
        REWARD_NORMALIZATION,
        "Which variance scales rewards?",
        "that of the discounted return of each copy, which starts anew with each episode",
        normalization.measure_reward_statistics,
    ),
    EnvironmentQuestion(
        "normalization.frozen_rewards",
        REWARD_NORMALIZATION,
        "Do frozen statistics of rewards stay as they are?",
        "they do",
        normalization.measure_frozen_rewards,
    ),
    EnvironmentQuestion(
        "action.clip",
        ACTION_CLIP,
        "Which action reaches the task?",
        "the action clipped to the task's bounds",
        transforms.measure_clipped_action,
    ),
    EnvironmentQuestion(
        "action.rescale",
        ACTION_RESCALE,
        "How are actions mapped to the task's bounds?",
        "linearly, bounds to bounds",
        transforms.measure_rescaled_action,
    ),
    EnvironmentQuestion(
        "action.outside_rescaled",
        ACTION_RESCALE,
        "What becomes of an action outside the bounds?",
        "",
        transforms.measure_outside_rescaled,
    ),
    EnvironmentQuestion(
        "reward.function",
        REWARD_FUNCTION,
        "Are rewards the declared function of the task's?",
        "the declared function",
        transforms.measure_reward_function,
    ),
    EnvironmentQuestion(
        "frames.stack",
        FRAME_STACK,
        "What does a stack of observations hold, also across resets?",
        "the last observations of the same episode, the newest last",
        transforms.measure_frame_stack,
    ),
)


def answer_question(
    question: EnvironmentQuestion, implementation: EnvironmentImplementation
) -> EnvironmentAnswer:
    """Return the answer of an implementation; an error becomes a failed answer."""
    try:
        answer = question.answer(implementation)
    except (Exception, SystemExit) as error:  # an implementation may raise anything
        text = " ".join(str(error).split())[:200]
        return EnvironmentAnswer(FAILED, f"{type(error).__name__}: {text}")
    location = ""
    if answer.outcome == DIFFERS and question.role in implementation.sources:
        location = locate_source(*implementation.sources[question.role])
    numbers = {
        name: tuple(round(float(x), 6) for x in getattr(answer, name))
        for name in ("measured", "expected")
    }
    return EnvironmentAnswer(answer.outcome, answer.words, **numbers, location=location)


def measure_implementations(
    implementations: Sequence[EnvironmentImplementation],
    versions: dict[str, str],
    questions: Sequence[EnvironmentQuestion] = QUESTIONS,
) -> EnvironmentReport:
    """Answer every question for the implementations that it applies to."""
    started = time.perf_counter()
    answers: dict[str, dict[str, EnvironmentAnswer]] = {}
    missing: dict[str, str] = {}
    for implementation in implementations:
        if implementation.missing:
            missing[implementation.name] = implementation.missing
            continue
        answers[implementation.name] = {
            question.name: answer_question(question, implementation)
            for question in questions
            if question.role in implementation.roles
        }
    return EnvironmentReport(versions, answers, missing, time.perf_counter() - started)


def read_versions(packages: Sequence[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def main(arguments: Sequence[str]) -> int:
    """Measure a module's `IMPLEMENTATIONS` and print one marked line."""
    module, packages = arguments[0], arguments[1].split(",")
    output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print goes to standard error
    warnings.simplefilter("ignore")
    if module.startswith(OWN):
        implementations = list_own_implementations(module.removeprefix(OWN))
        questions: Sequence[EnvironmentQuestion] = (*QUESTIONS, *OWN_QUESTIONS)
    else:
        loaded = importlib.import_module(module)
        implementations = loaded.IMPLEMENTATIONS
        questions = (*QUESTIONS, *getattr(loaded, "TASK_QUESTIONS", ()))
    report = measure_implementations(implementations, read_versions(packages), questions=questions)
    print(MARK + json.dumps(report.to_dict()), file=output, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
