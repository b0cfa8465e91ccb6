"""Questions about observations, rewards, ends, resets, seeds and recorded episodes."""

import functools
from collections.abc import Sequence

import numpy as np
from gymnasium.utils import seeding

from parallax.harness.contract.probing.environments import (
    CALLER,
    DRAW,
    EPISODE,
    NEXT_STEP,
    RECEIVED,
    STEP,
    TERMINATED,
    EnvironmentImplementation,
)
from parallax.harness.environment_probes.answers import (
    AS_DEFINED,
    CONVENTION,
    DIFFERS,
    NOT_MEASURED,
    EnvironmentAnswer,
)
from parallax.harness.environment_probes.trace import (
    Array,
    Place,
    Trace,
    TraceEvent,
    collect_trace,
    make_scripts,
)

_TOLERANCE = 1e-4
_STEPS = 15
_RESET_AFTER = 13


def join_answers(
    found: Sequence[str], otherwise: str, outcome: str = AS_DEFINED
) -> EnvironmentAnswer:
    """Return an answer of differences in words, or `otherwise` if there are none."""
    words = list(dict.fromkeys(found))
    if words:
        return EnvironmentAnswer(DIFFERS, "; ".join(words))
    return EnvironmentAnswer(outcome, otherwise)


def is_close(first: Array | None, second: Array) -> bool:
    """Return whether two arrays agree up to rounding to float32."""
    if first is None or np.shape(first) != np.shape(second):
        return False
    return bool(np.allclose(np.asarray(first, float), second, rtol=_TOLERANCE, atol=_TOLERANCE))


@functools.lru_cache(maxsize=2)
def get_mixed_trace(implementation: EnvironmentImplementation) -> Trace:
    """Return a trace with each kind of end and one explicit reset within an episode."""
    scripts = make_scripts(implementation)
    return collect_trace(implementation, scripts, _STEPS, reset_after=(_RESET_AFTER,))


def name_observation(trace: Trace, copy: int, place: Place, seen: Array) -> str:
    """Return a description of an observation that is not the expected one at `place`."""
    episode, step = place
    others = {
        "of the next episode": (episode + 1, 0),
        "from before the step": (episode, max(step - 1, 0)),
        "from the start of the episode": (episode, 0),
        "one step too late": (episode, step + 1),
    }
    if episode:
        length, _ = trace.scripts[copy].get_end(episode - 1)
        others["from the end of the episode before"] = (episode - 1, length)
        others["from the start of the episode before"] = (episode - 1, 0)
    for words, other in others.items():
        expected = trace.compute_observation(copy, other)
        if other != place and is_close(seen[: DRAW - 1], expected[: DRAW - 1]):
            return words
    for other_copy in range(len(trace.scripts)):
        if is_close(seen[:RECEIVED], trace.compute_observation(other_copy, place)[:RECEIVED]):
            return "of another copy" if other_copy != copy else "with another action"
    return "unknown"


def measure_observations(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare every observation to act on with the script, except those at ends of episodes."""
    trace = get_mixed_trace(implementation)
    found = []
    if trace.ignores_reset:
        found.append("an explicit reset returns the last observation and does not reset")
    for event in trace.events:
        for copy in range(len(trace.scripts)):
            place = trace.get_next_place(event, copy)
            seen = event.observations[copy]
            expected = trace.compute_observation(copy, place)
            if event.ended[copy] and trace.autoreset == NEXT_STEP:
                continue  # a separate question is about the observation at an end
            if is_close(np.delete(seen, RECEIVED), np.delete(expected, RECEIVED)):
                continue
            where = _name_call(event, copy)
            found.append(f"the observation {where} is {name_observation(trace, copy, place, seen)}")
    return join_answers(found, "each observation is that of its episode and step")


def _name_call(event: TraceEvent, copy: int) -> str:
    if event.step is None:
        return "after an explicit reset"
    if event.starts[copy] or event.ended[copy]:
        return "after an automatic reset"
    return "after a step"


def measure_terminal_observation(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Find the observation at the end of an episode."""
    trace = get_mixed_trace(implementation)
    found, conventions = [], []
    for event in trace.events:
        for copy in np.flatnonzero(event.ended).tolist():
            assert event.step is not None
            place = event.places[copy]
            expected = trace.compute_observation(copy, place)[:RECEIVED]
            final, seen = event.step.final_observations[copy], event.observations[copy]
            if trace.autoreset == NEXT_STEP:
                if is_close(seen[:RECEIVED], expected):
                    conventions.append("in the next observation, the following call resets")
                else:
                    name = name_observation(trace, copy, place, seen)
                    found.append(f"the observation at the end of an episode is {name}")
            elif final is None:
                found.append("the observation at the end of an episode is lost")
            elif is_close(final[:RECEIVED], expected):
                conventions.append(f"in {event.step.final_place}")
            else:
                name = name_observation(trace, copy, place, np.asarray(final))
                found.append(f"the observation at the end of an episode is {name}")
    return join_answers(found, " / ".join(dict.fromkeys(conventions)), CONVENTION)


def measure_reset_step(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Count the calls that three episodes take beyond their steps."""
    trace = get_mixed_trace(implementation)
    calls = sum(event.step is not None for event in trace.events)
    numbers = [
        np.asarray(event.observations)[0][[EPISODE, STEP]] for event in trace.events if event.step
    ]
    resets = sum(
        bool(event.step is not None and event.starts[0] and event.step.rewards[0] == 0)
        for event in trace.events
    )
    last = tuple(float(x) for x in numbers[-1])
    if trace.autoreset == NEXT_STEP:
        words = "a reset takes a step of its own, with reward 0, its action is ignored"
        return EnvironmentAnswer(CONVENTION, words, (float(calls), float(resets), *last))
    who = (
        "the caller resets" if trace.autoreset == CALLER else "the step that ends an episode resets"
    )
    return EnvironmentAnswer(CONVENTION, f"{who}, no step is lost", (float(calls), 0.0, *last))


def measure_rewards(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare every reward with the script."""
    trace = get_mixed_trace(implementation)
    found = []
    before = dict.fromkeys(range(len(trace.scripts)), 0.0)
    for event in trace.events:
        if event.step is None:
            continue
        for copy, script in enumerate(trace.scripts):
            episode, step = event.places[copy]
            expected = 0.0 if event.starts[copy] else script.compute_reward(episode, step)
            seen = float(event.step.rewards[copy])
            if not is_close(np.array(seen), np.array(expected)):
                where = "at the end of an episode" if event.ended[copy] else "of a step"
                where = "of a step that resets" if event.starts[copy] else where
                after = script.compute_reward(episode, step + 1)
                found.append(f"the reward {where} is {_name_reward(seen, before[copy], after)}")
            before[copy] = expected
    return join_answers(found, "each reward is that of its step")


def _name_reward(seen: float, before: float, after: float) -> str:
    if is_close(np.array(seen), np.array(before)):
        return "that of the step before"
    if seen == 0:
        return "0"
    is_later = is_close(np.array(seen), np.array(after))
    return "that of the step after" if is_later else "another number"


def measure_end_flags(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare `terminated` and `truncated` with the script, for each kind of end."""
    trace = get_mixed_trace(implementation)
    found, both = [], ""
    for event in trace.events:
        if event.step is None:
            continue
        for copy, script in enumerate(trace.scripts):
            flags = bool(event.step.terminated[copy]), bool(event.step.truncated[copy])
            if event.starts[copy] or not event.ended[copy]:
                if any(flags):
                    where = "that resets" if event.starts[copy] else "within an episode"
                    found.append(f"a step {where} is reported as {_name_flags(flags)}")
                continue
            expected = script.compute_flags(*event.places[copy])
            if all(expected) and flags[0]:
                both = _name_flags(flags)
            elif flags != expected:
                found.append(f"{_name_flags(expected)} is reported as {_name_flags(flags)}")
    words = f"as the task says, at a time limit that coincides with a termination: {both}"
    return join_answers(found, words)


def _name_flags(flags: tuple[bool, bool]) -> str:
    return {
        (True, False): "a termination",
        (False, True): "a truncation",
        (True, True): "a termination and a truncation",
        (False, False): "no end",
    }[flags]


def measure_seeds(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare random numbers of copies after a reset with one seed."""
    if not implementation.settings.get("seeds", True):
        return EnvironmentAnswer(NOT_MEASURED, "its interface takes no seed")
    scripts = make_scripts(implementation, draws=True)
    draws = []
    for _ in range(2):
        driver = implementation.make(scripts)
        try:
            draws.append(np.array(driver.reset(seed=7))[:, DRAW])
        finally:
            driver.close()
    first, again = draws
    if not is_close(again, first):
        return EnvironmentAnswer(DIFFERS, "the same seed gives other random numbers")
    if len(first) > 1 and len(set(np.round(first, 6))) == 1:
        return EnvironmentAnswer(DIFFERS, "all copies get the same seed")
    generators = [seeding.np_random(7 + copy)[0] for copy in range(len(first))]
    words = "copy i gets seed + i" if len(first) > 1 else "the task gets the seed"
    for addition in ("", ", in a reset before the one that is asked for"):
        expected = np.array([generator.normal() for generator in generators])
        if is_close(first, expected):
            return EnvironmentAnswer(AS_DEFINED, words + addition)
    if is_close(first[:1], expected[:1]):
        return EnvironmentAnswer(CONVENTION, "the first copy gets the seed, the others other seeds")
    if len(first) > 1:
        return EnvironmentAnswer(CONVENTION, "each copy gets a seed that is derived from the seed")
    return EnvironmentAnswer(CONVENTION, "the task gets a seed that is derived from the seed")


def measure_dtypes(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Return the types of observations and rewards."""
    driver = implementation.make(make_scripts(implementation))
    try:
        observation = driver.reset()
        result = driver.step(np.zeros((driver.n_envs, 1), np.float32))
        space = driver.observation_space
    finally:
        driver.close()
    seen, reward = observation.dtype, np.asarray(result.rewards).dtype
    if space is not None and space.dtype is not None and space.dtype != seen:
        return EnvironmentAnswer(
            DIFFERS, f"observations are {seen}, and their space says {space.dtype}"
        )
    return EnvironmentAnswer(CONVENTION, f"observations {seen}, rewards {reward}")


def measure_overwriting(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Check whether a step changes the arrays that the previous step returned."""
    driver = implementation.make(make_scripts(implementation))
    actions = np.zeros((driver.n_envs, 1), np.float32)
    try:
        driver.reset()
        first = driver.step(actions)
        copies = [np.array(x) for x in (first.observations, first.rewards)]
        driver.step(actions)
        driver.step(actions)
        later = [np.array(x) for x in (first.observations, first.rewards)]
    finally:
        driver.close()
    names = ("observations", "rewards")
    found = [
        f"returned {name} are overwritten by a later step"
        for name, old, new in zip(names, copies, later, strict=True)
        if not np.array_equal(old, new)
    ]
    return join_answers(found, "returned arrays stay as they are")


def measure_passed_action(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare the action that reaches the task with the one that was passed."""
    seen = [read_received_action(implementation, action) for action in (0.5, 1.75)]
    if not is_close(np.array(seen[0]), np.array(0.5)):
        return EnvironmentAnswer(DIFFERS, "the action is changed", tuple(seen), (0.5, 1.75))
    if is_close(np.array(seen[1]), np.array(1.75)):
        return EnvironmentAnswer(CONVENTION, "unchanged, also outside the bounds", tuple(seen))
    if is_close(np.array(seen[1]), np.array(1.0)):
        return EnvironmentAnswer(CONVENTION, "unchanged, and clipped to the bounds", tuple(seen))
    return EnvironmentAnswer(DIFFERS, "an action outside the bounds is changed", tuple(seen))


def read_received_action(
    implementation: EnvironmentImplementation, action: float, low: float = -1.0, high: float = 1.0
) -> float:
    """Return the action that the task receives."""
    ends = ((9, TERMINATED),)
    driver = implementation.make(make_scripts(implementation, [ends], low=low, high=high))
    try:
        driver.reset()
        result = driver.step(np.full((driver.n_envs, 1), action, np.float32))
    finally:
        driver.close()
    return float(np.asarray(result.observations)[0].ravel()[RECEIVED])


def measure_time_limit(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Count the steps until a time limit ends an episode, also after an early reset."""
    limit = int(implementation.settings["limit"])
    driver = implementation.make(make_scripts(implementation, [((limit + 5, TERMINATED),)]))
    try:
        driver.reset()
        counts = [count_steps(driver), count_steps(driver)]
        driver.step(np.zeros((driver.n_envs, 1), np.float32))
        driver.reset()
        counts.append(count_steps(driver))
    finally:
        driver.close()
    lengths = [length for length, _ in counts]
    expected = (float(limit),) * 3
    found = []
    if lengths[0] != limit:
        found.append(
            f"the time limit comes {abs(lengths[0] - limit)} steps too "
            f"{'late' if lengths[0] > limit else 'early'}"
        )
    if lengths[1] != lengths[0]:
        found.append("the count of steps is carried into the next episode")
    if lengths[2] != lengths[0]:
        found.append("the count of steps is carried over an early reset")
    if lengths[0] <= limit + 4 and counts[0][1] != (False, True):
        found.append(f"a time limit is reported as {_name_flags(counts[0][1])}")
    answer = join_answers(found, f"after {limit} steps, as a truncation")
    return EnvironmentAnswer(answer.outcome, answer.words, tuple(map(float, lengths)), expected)


def count_steps(driver: object, most: int = 40) -> tuple[int, tuple[bool, bool]]:
    """Return the steps to the next end and its flags; a step that resets does not count."""
    from parallax.harness.contract.probing.environments import EnvironmentDriver

    assert isinstance(driver, EnvironmentDriver)
    actions = np.zeros((driver.n_envs, 1), np.float32)
    for number in range(1, most):
        result = driver.step(actions)
        flags = bool(result.terminated[0]), bool(result.truncated[0])
        if any(flags):
            if driver.autoreset == NEXT_STEP:
                driver.step(actions)
            return number, flags
    return most, (False, False)


def measure_limit_with_termination(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Find the flags if the task terminates in the step of the time limit."""
    limit = int(implementation.settings["limit"])
    driver = implementation.make(make_scripts(implementation, [((limit, TERMINATED),)]))
    try:
        driver.reset()
        length, flags = count_steps(driver)
    finally:
        driver.close()
    if length != limit or not flags[0]:
        return EnvironmentAnswer(DIFFERS, f"the termination is reported as {_name_flags(flags)}")
    return EnvironmentAnswer(CONVENTION, _name_flags(flags))


def measure_episode_statistics(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare recorded returns and lengths with the script."""
    scripts = make_scripts(implementation)
    trace = collect_trace(implementation, scripts, 19, reset_after=(13,))
    found: list[str] = []
    measured, expected = [], []
    previous = dict.fromkeys(range(len(scripts)), (0.0, 0))
    for event in trace.events:
        if event.step is None:
            continue
        for copy, script in enumerate(scripts):
            record = event.step.episodes[copy]
            if not event.ended[copy]:
                if record is not None:
                    found.append("statistics are recorded within an episode")
                continue
            episode, length = event.places[copy]
            rewards = [script.compute_reward(episode, step + 1) for step in range(length)]
            if record is None:
                found.append("no statistics are recorded at the end of an episode")
                continue
            measured += [record[0], record[1]]
            expected += [sum(rewards), float(length)]
            found += _compare_episode(record, rewards, previous[copy])
            previous[copy] = sum(rewards), length
    answer = join_answers(found, "return and length are those of the episode")
    return EnvironmentAnswer(answer.outcome, answer.words, tuple(measured[:4]), tuple(expected[:4]))


def _compare_episode(
    record: tuple[float, float], rewards: Sequence[float], previous: tuple[float, int]
) -> list[str]:
    found = []
    total, length = sum(rewards), len(rewards)
    if not np.isclose(record[1], length):
        gap = round(record[1] - length)
        if previous[1] and gap == previous[1]:
            found.append("the length is carried over from the episode before")
        else:
            found.append(f"the length is {abs(gap)} too {'large' if gap > 0 else 'small'}")
    if not np.isclose(record[0], total, rtol=1e-4, atol=1e-4):
        alternatives = {
            "the return lacks the last reward": total - rewards[-1],
            "the return lacks the first reward": total - rewards[0],
            "the return counts the last reward twice": total + rewards[-1],
            "the return is carried over from the episode before": total + previous[0],
            "the return is that of the episode before": previous[0],
            "the return is the last reward": rewards[-1],
            "the return is the mean reward": total / length,
        }
        close = [
            words
            for words, value in alternatives.items()
            if np.isclose(record[0], value, rtol=1e-4, atol=1e-4)
        ]
        found.append(close[0] if close else "the return is another number")
    return found
