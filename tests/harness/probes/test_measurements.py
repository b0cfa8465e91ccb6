from types import SimpleNamespace

import numpy as np
import pytest

from parallax.harness.probes.families.counts import compare_counts, describe_delays
from parallax.harness.probes.families.randomness import (
    describe_constant_envs,
    describe_shuffles,
    find_drawn_thirds,
)
from parallax.harness.probes.measurements import (
    TargetShares,
    describe_detour,
    describe_observations,
    describe_share,
    list_other_rows,
    list_row_kinds,
    measure_target_shares,
)
from parallax.harness.probes.probe import (
    Probe,
    ProbeMeasurement,
    UnmeasuredError,
    compare_arrays,
    run_probe,
)
from parallax.harness.probes.results import AGREES, FUNCTION

NAMES = ("critic1_target.0.weight", "critic1_target.out.bias")


def test_a_share_within_its_rounding_is_tau():
    shares = np.array([[0.005, 0.00501], [0.00502, 0.00495]])
    found = TargetShares(NAMES, shares, np.array([[1e-7, 1e-7], [1e-4, 1e-4]]))
    assert found.find_furthest_from(0.005) == pytest.approx([0.00501, 0.005], rel=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.01, np.inf])
def test_a_share_beyond_its_rounding_is_reported(share):
    found = TargetShares(NAMES[1:], np.array([[0.005, share]]), np.full((1, 2), 1e-4))
    assert found.find_furthest_from(0.005) == share


TARGET, ONLINE, OTHER_CRITIC = np.random.default_rng(0).normal(size=(3, 8)).astype(np.float32)


def make_moving_run(move):
    """Return a training of two critics whose first target becomes `move` of the three arrays."""
    arrays = ("critic1_target.out.bias", "critic1.out.bias", "critic2.out.bias")
    before = dict(zip(arrays, (TARGET, ONLINE, OTHER_CRITIC), strict=True))
    step = SimpleNamespace(before=before, after=before, networks=("critic1", "critic2"))
    final = before | {arrays[0]: np.asarray(move(TARGET, ONLINE, OTHER_CRITIC), np.float32)}
    record = SimpleNamespace(steps=[step], final=final, created=before)
    return SimpleNamespace(record=record, hyperparameters=SimpleNamespace(tau=0.05))


@pytest.mark.parametrize(
    ("move", "words"),
    [
        (lambda t, o, x: 0.9 * t, "are multiplied by 0.9"),
        (lambda t, o, x: 0.95 * t + 0.05 * x, "move by 0.05 to critic2 in place of critic1"),
        (
            lambda t, o, x: 0.95 * t + 0.025 * o,
            "become 0.95 times themselves plus 0.025 (half of tau) times the online network",
        ),
        (
            lambda t, o, x: 1.05 * t + 0.05 * o,
            "become 1.05 (1 plus tau) times themselves plus 0.05 times the online network",
        ),
        (lambda t, o, x: t + np.sin(9 * np.arange(8)), ""),
        (lambda t, o, x: t, ""),
    ],
)
def test_deviation_of_a_target_update_is_described(move, words):
    assert describe_detour(make_moving_run(move), "critic1_target.out.bias") == words


@pytest.mark.parametrize(
    ("share", "words"),
    [(0.95, "1 minus tau, as if"), (-0.05, "minus tau, away"), (0.0025, "tau squared"), (0.07, "")],
)
def test_a_share_is_described_as_a_function_of_tau(share, words):
    assert describe_share(share, 0.05).startswith(f" ({words}" if words else "")
    assert bool(describe_share(share, 0.05)) == bool(words) and describe_share(share, 1.0) == ""


def make_delayed_run(assigned, policy_at, moves_at, n_steps=8):
    """Return a training whose policy steps and target moves are after some critic steps."""
    steps, moves = [], []
    for number in range(1, n_steps + 1):
        steps.append(SimpleNamespace(networks=("critic1",), assigned=("critic1",)))
        if number in policy_at:
            steps.append(SimpleNamespace(networks=assigned[:1], assigned=assigned))
        if number in moves_at:
            moves.append((number, len(steps), "critic1_target"))
    created = dict.fromkeys(("critic1.out.bias", "critic1_target.out.bias", "policy.out.bias"))
    record = SimpleNamespace(steps=steps, target_moves=moves, created=created)
    experiment = SimpleNamespace(algorithm="td3", n_envs=1)
    hyperparameters = SimpleNamespace(policy_delay=2)
    return SimpleNamespace(record=record, experiment=experiment, hyperparameters=hyperparameters)


@pytest.mark.parametrize(
    ("assigned", "policy_at", "moves_at", "words"),
    [
        (("policy",), (2, 4, 6, 8), (2, 4, 6, 8), []),
        (
            ("policy",),
            (1, 3, 5, 7),
            (4, 8),
            ["target updates: once in 4 critic steps, not once in"],
        ),
        (
            ("policy",),
            (2,),
            (2, 4, 6, 8),
            ["policy steps: one, after critic step 2, and none later"],
        ),
        (
            ("policy",),
            (1, 2, 5),
            (2, 4, 6, 8),
            ["policy steps: after critic steps 1, 2, 5, not ea"],
        ),
        (
            *(("policy_target",), (2, 4, 6, 8), (2, 4, 6, 8)),
            ["optimizers hold the weights of critic1 (8 steps), policy_target (4 steps)"],
        ),
        (
            *(("policy", "critic1"), (2, 4, 6, 8), (2, 4, 6, 8)),
            ["optimizers hold the weights of critic1 (8 steps), policy and critic1 (4 steps)"],
        ),
        (
            *(("policy",), (), ()),
            ["optimizers hold the weights of critic1 (8 steps)", "no delayed event, as if their c"],
        ),
    ],
)
def test_delays_and_optimizers_of_other_networks_are_described(
    assigned, policy_at, moves_at, words
):
    found = describe_delays(make_delayed_run(assigned, policy_at, moves_at))
    assert len(found) == len(words)
    assert all(text.startswith(start) for text, start in zip(found, words, strict=True))


def test_moves_within_rounding_are_none():
    run = make_moving_run(lambda t, o, x: t * (1 + 1.2e-7))
    assert measure_target_shares(run, "critic1").shares.tolist() == [[0.0]]
    run = make_moving_run(lambda t, o, x: 0.95 * t + 0.05 * o)
    assert measure_target_shares(run, "critic1").shares == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize(
    ("value", "kind"), [([1.1, 1.6], AGREES), ([1.6, 0.9], FUNCTION), ([1.1, 1.8], FUNCTION)]
)
def test_each_number_has_its_tolerance(value, kind):
    expected = np.ones(2)
    assert compare_arrays(np.array(value), expected, np.array([0.2, 0.7])).kind == kind


ROWS, ONE, OTHER = np.arange(12), *(np.random.default_rng(i).permutation(12) for i in (0, 1))
COLUMNS = ROWS.reshape(-1, 4).T.ravel()


@pytest.mark.parametrize(
    ("epochs", "words"),
    [
        ((ONE, OTHER, ROWS, ONE), ""),
        ((COLUMNS,) * 4, "not shuffled"),
        ((ONE, ONE[ONE]) * 2, "each epoch permutes"),
        ((COLUMNS[ONE], COLUMNS[ONE[ONE]]) * 2, "each epoch permutes"),
        ((ONE, OTHER) * 2, "each rollout is permuted"),
    ],
)
def test_shuffles_that_repeat_are_described(epochs, words):
    found = describe_shuffles([half for epoch in epochs for half in np.split(epoch, 2)], 4)
    assert bool(found) == bool(words) and words in found


def test_an_answer_without_explanation_is_an_answer():
    def explain():
        raise UnmeasuredError("its minibatches hold transitions several times")

    def measure(cache):
        return ProbeMeasurement(np.array([1.0, 2.0, 4.0]), np.ones(3), explain=explain)

    adapter = SimpleNamespace(supports=lambda algorithm: True, recipe_parts=(), name="sb3")
    cache = SimpleNamespace(
        adapter=adapter,
        get_source_line=lambda *event: "",
        describe_missing_reset=lambda algorithm: "",
        describe_infinite_actions=lambda algorithm: "",
    )
    probe = Probe("ppo.weight", "", "", "", measure, lambda comparison, measurement: "weights")
    answer = run_probe(probe, {"sb3": cache}).answers["sb3"]
    assert answer.meaning == "weights" and not answer.failed


def test_a_library_that_refuses_nan_leaves_a_probe_unmeasured():
    def measure(cache):
        raise ValueError("invalid values: tensor([[nan, 1.]])")

    adapter = SimpleNamespace(supports=lambda algorithm: True)
    cache = SimpleNamespace(adapter=adapter, describe_infinite_actions=lambda algorithm: "")
    probe = Probe("ppo.nan", "", "", "", measure, lambda comparison, measurement: "")
    assert "numbers are NaN" in run_probe(probe, {"sb3": cache}).answers["sb3"].unmeasured


@pytest.mark.parametrize("value", [np.polyfit, np.array([np.nan])])
def test_infinite_actions_leave_a_probe_unmeasured(value):
    def measure(cache):
        fitted = value([], [], 1) if callable(value) else value
        return ProbeMeasurement(fitted, np.ones(1))

    cache = SimpleNamespace(
        adapter=SimpleNamespace(supports=lambda algorithm: True),
        describe_infinite_actions=lambda algorithm: "an action is not finite",
        describe_missing_reset=lambda algorithm: "",
        get_source_line=lambda algorithm, event: "",
    )
    probe = Probe("td3.scale", "", "", "", measure, lambda comparison, measurement: "")
    assert run_probe(probe, {"sb3": cache}).answers["sb3"].unmeasured == "an action is not finite"


def test_other_rows_are_those_of_other_steps_episodes_and_environments():
    ends = np.array([[0, 0], [1, 0], [0, 2], [0, 0]])
    found = list_other_rows(ends)
    assert found["the step before"][:, 0].tolist() == [6, 0, 2, 4]
    assert found["the step after in the episode"][:, 0].tolist() == [2, 2, 6, 6]
    assert found["the first step of the episode"].tolist() == [[0, 1], [0, 1], [4, 1], [4, 7]]
    assert found["the last step of the episode"].tolist() == [[2, 5], [2, 5], [6, 5], [6, 7]]
    assert found["the next environment"].tolist() == [[1, 0], [3, 2], [5, 4], [7, 6]]
    assert found["an environment that ended then"][1:3].tolist() == [[2, 2], [5, 5]]
    kinds = list_row_kinds(ends)
    assert kinds["at first steps of episodes"][:, 0].tolist() == [True, False, True, False]
    assert "at time limits" in kinds and "at time limits" not in list_row_kinds(ends[:2])


def test_unknown_inputs_are_described():
    rows = np.arange(12.0).reshape(6, 2)
    pairs = zip(rows, rows[1:], (0, 1, 0, 0, 1), strict=False)
    steps = [SimpleNamespace(observation=o, next_observation=n, end=e) for o, n, e in pairs]
    data = SimpleNamespace(resets=-1 - rows)
    run = SimpleNamespace(experiment=SimpleNamespace(scripted_data=data), transitions=steps)
    assert describe_observations(run, [rows[5]]) == ": last observations of episodes, for 1 inputs"
    assert "observations of other steps, for 2" in describe_observations(run, rows[1:3])
    assert "after a reset" in describe_observations(run, [-1 - rows[2]])
    assert "zeros" in describe_observations(run, [np.zeros(2)])
    assert describe_observations(run, [np.ones(2)]) == ""


def test_wrong_counts_name_the_unit_in_which_they_are_counted():
    hp = SimpleNamespace(train_freq=3, gradient_steps=1, batch_size=8)
    record = SimpleNamespace(steps=[], target_moves=[])
    experiment = SimpleNamespace(n_envs=4, algorithm="td3")
    run = SimpleNamespace(hyperparameters=hp, experiment=experiment, record=record)
    names, due = ("steps", "updates", "moves", "warm-up"), np.array([36.0, 12, 5, 7])
    assert compare_counts(run, names, due, due).meaning == ""
    found = compare_counts(run, names, np.array([12.0, 48, 4, -1]), due).meaning
    for words in (
        "steps is 12, not 36",
        "steps: once in 3, as if update cycles were counted",
        "updates: 4 times, as if counted in steps of all environments",
        "moves: one fewer",
        "warm-up: never",
    ):
        assert words in found.split("; ")


def test_shares_are_named_as_functions_of_tau():
    assert describe_share(1.0, 0.005) == " (a copy)"
    assert describe_share(0.995, 0.005).startswith(" (1 minus tau, as if")
    assert describe_share(0.0025, 0.005) == " (half of tau)"
    assert describe_share(0.3, 0.005) == describe_share(1.0, 1.0) == ""


def test_thirds_of_a_growing_buffer_that_are_drawn():
    batches = [np.array([0, 3]), np.array([5, 11])]
    assert find_drawn_thirds(batches, (12, 18)) == {0, 1}
    assert find_drawn_thirds(batches, (12, 12)) == {0, 1, 2}


def test_environments_that_do_not_explore_are_counted():
    actions, counts = (
        np.random.default_rng(0).normal(size=(8, 4, 2)),
        np.array([0, 0, 2.0, 0, 0, 0]),
    )
    actions[1:, 1:] = 0.5
    words = "environments that act as another one under the policy is 2, not 0; "
    assert describe_constant_envs(counts, actions) == f"{words}3 of 4 environments do not explore"
    assert describe_constant_envs(counts, 0 * actions) == ""
    assert describe_constant_envs(0 * counts, actions) == ""
