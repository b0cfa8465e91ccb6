"""Questions about wrappers that change actions, rewards or stack observations."""

import numpy as np

from parallax.harness.contract.probing.environments import (
    NEXT_STEP,
    RECEIVED,
    EnvironmentImplementation,
)
from parallax.harness.environment_probes.answers import (
    AS_DEFINED,
    CONVENTION,
    DIFFERS,
    EnvironmentAnswer,
)
from parallax.harness.environment_probes.episodes import (
    is_close,
    join_answers,
    read_received_action,
)
from parallax.harness.environment_probes.trace import Array, Trace, collect_trace, make_scripts

_LOW, _HIGH = -2.0, 6.0


def measure_clipped_action(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare the actions that reach the task with the ones passed, clipped to its bounds."""
    sent = np.array([-9.0, -2.0, -0.5, 0.0, 3.0, 6.0, 6.5, 40.0])
    seen = np.array([read_received_action(implementation, a, _LOW, _HIGH) for a in sent])
    expected = np.clip(sent, _LOW, _HIGH)
    found = []
    if np.any((seen < _LOW - 1e-5) | (seen > _HIGH + 1e-5)):
        found.append("actions outside the bounds reach the task")
    inside = (sent >= _LOW) & (sent <= _HIGH)
    if not is_close(seen[inside], sent[inside]):
        found.append("actions inside the bounds are changed")
    if not found and not is_close(seen, expected):
        found.append("actions are clipped to other bounds")
    answer = join_answers(found, "clipped to the task's bounds")
    return EnvironmentAnswer(answer.outcome, answer.words, tuple(seen), tuple(expected))


def measure_rescaled_action(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare the actions that reach the task with an affine map of the bounds."""
    low, high = (float(implementation.settings[name]) for name in ("low", "high"))
    share = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    sent, expected = low + share * (high - low), _LOW + share * (_HIGH - _LOW)
    seen = np.array([read_received_action(implementation, a, _LOW, _HIGH) for a in sent])
    if is_close(seen, expected):
        return EnvironmentAnswer(AS_DEFINED, "bounds map to bounds", tuple(seen), tuple(expected))
    slope = float(np.polyfit(share, seen, 1)[0])
    if not is_close(seen, seen[0] + share * slope):
        words = "actions are not mapped linearly"
    elif np.isclose(slope, _HIGH - _LOW, atol=1e-4):
        words = "actions are shifted"
    elif np.isclose(seen[2], expected[2], atol=1e-4):
        words = "the scale of actions is wrong"
    elif is_close(seen, sent):
        words = "actions are not scaled"
    else:
        words = "actions are mapped to other bounds"
    return EnvironmentAnswer(DIFFERS, words, tuple(seen), tuple(expected))


def measure_outside_rescaled(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Find what happens to an action outside the rescaled bounds."""
    high = float(implementation.settings["high"])
    sent = high + 0.25 * (high - float(implementation.settings["low"]))
    expected = _HIGH + 0.25 * (_HIGH - _LOW)
    try:
        seen = read_received_action(implementation, sent, _LOW, _HIGH)
    except (AssertionError, ValueError) as error:
        return EnvironmentAnswer(CONVENTION, f"refused with {type(error).__name__}")
    if np.isclose(seen, _HIGH):
        return EnvironmentAnswer(CONVENTION, "clipped to the bounds", (seen,), (expected,))
    if np.isclose(seen, expected):
        words = "mapped beyond the bounds, and not clipped"
        return EnvironmentAnswer(CONVENTION, words, (seen,), (expected,))
    return EnvironmentAnswer(CONVENTION, "changed to another number", (seen,), (expected,))


def measure_reward_function(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare rewards with the declared function of the task's rewards."""
    assert implementation.reward_function is not None
    trace = collect_trace(implementation, make_scripts(implementation), 16, reset_after=(13,))
    seen, raw = [], []
    for event in trace.events:
        if event.step is None:
            continue
        for copy, script in enumerate(trace.scripts):
            if not event.starts[copy]:
                seen.append(float(event.step.rewards[copy]))
                raw.append(script.compute_reward(*event.places[copy]))
    expected = implementation.reward_function(np.array(raw))
    numbers = tuple(seen[:4]), tuple(map(float, expected[:4]))
    if is_close(np.array(seen), expected):
        return EnvironmentAnswer(AS_DEFINED, "the declared function of the reward", *numbers)
    if is_close(np.array(seen), np.array(raw)):
        return EnvironmentAnswer(DIFFERS, "rewards are not changed", *numbers)
    return EnvironmentAnswer(DIFFERS, "rewards are another function of the task's", *numbers)


def measure_frame_stack(implementation: EnvironmentImplementation) -> EnvironmentAnswer:
    """Compare stacked observations with the most recent observations of the same episode."""
    trace = collect_trace(implementation, make_scripts(implementation), 16, reset_after=(13,))
    size = int(implementation.settings["stack"])
    found, paddings = [], []
    for event in trace.events:
        for copy in range(len(trace.scripts)):
            episode, step = trace.get_next_place(event, copy)
            frames = np.asarray(event.observations[copy]).reshape(size, -1)[:, :RECEIVED]
            words, padding = _compare_stack(trace, copy, (episode, step), frames)
            found += words
            paddings += padding
            ended = event.step is not None and event.ended[copy]
            if ended and trace.autoreset != NEXT_STEP:
                assert event.step is not None
                final = event.step.final_observations[copy]
                if final is None:
                    found.append("the stack at the end of an episode is lost")
                    continue
                frames = np.asarray(final).reshape(-1, RECEIVED + 2)[:, :RECEIVED]
                if len(frames) != size:
                    found.append("the observation at the end of an episode is not stacked")
                    continue
                words, padding = _compare_stack(trace, copy, event.places[copy], frames)
                found += [f"{text} at the end of an episode" for text in words]
    shown = " / ".join(dict.fromkeys(paddings)) or "never shown"
    text = f"the last observations of the episode, the newest last, before its start: {shown}"
    return join_answers(found, text, CONVENTION)


def _compare_stack(
    trace: Trace, copy: int, place: tuple[int, int], frames: Array
) -> tuple[list[str], list[str]]:
    episode, step = place
    size = len(frames)
    real = min(size, step + 1)
    expected = np.array(
        [
            trace.compute_observation(copy, (episode, step - real + 1 + i))[:RECEIVED]
            for i in range(real)
        ]
    )
    if not is_close(frames[size - real :], expected):
        if is_close(frames[:real][::-1], expected):
            return ["the newest observation comes first"], []
        if frames[-1, 1] == episode and np.any(frames[size - real :, 1] != episode):
            return ["the stack holds observations of another episode"], []
        return ["the stack holds other observations"], []
    if real == size:
        return [], []
    rest = frames[: size - real]
    if not rest.any():
        return [], ["zeros"]
    if is_close(rest, np.repeat(expected[:1], len(rest), axis=0)):
        return [], ["the first observation repeated"]
    if np.any(rest[:, 1] != episode):
        return ["the stack holds observations of another episode"], []
    return ["the stack is filled with other numbers"], []
