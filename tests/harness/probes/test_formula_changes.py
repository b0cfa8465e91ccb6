"""The search for the quantity of a formula that is another one."""

import functools

import numpy as np
import pytest
import torch

from parallax.harness import formulas
from parallax.harness.contract.probing.scripted_env import TERMINATED, TRUNCATED
from parallax.harness.probes.families.action_formulas import (
    explain_action,
    explain_annealing,
    explain_epsilon,
    explain_greedy_actions,
    explain_random_actions,
)
from parallax.harness.probes.families.changed_formulas import measure_angle, measure_distance
from parallax.harness.probes.families.critics import describe_error_power
from parallax.harness.probes.formula_changes import (
    FormulaQuantities,
    differentiate_loss,
    find_changed_quantity,
)
from parallax.harness.probes.ppo import changed_formulas
from parallax.harness.probes.ppo.experiments import CLIP, GAMMA, LAMBDA
from parallax.harness.probes.ppo.measurements import (
    RENEWED_ADVANTAGES,
    Minibatch,
    describe_missing_pulls,
)

RNG = np.random.default_rng(0)
REWARD, FIRST, SECOND = RNG.normal(size=(3, 24))


def compute_target(q, rewards=REWARD, first=FIRST, second=SECOND, gamma=0.9):
    reward = q.name("the reward", rewards)
    one, other = q.name("the first value", first), q.name("the second value", second)
    smaller = {"the smaller": one.minimum(other), "the larger": one.maximum(other)}
    q.parts["the sum"] = one + other
    value = q.name("the next value", q.choose("the value", smaller, ["the larger"]))
    return q.name("the target", reward + q.name("the discount", gamma) * value)


SMALLER, LARGER, SUM = np.minimum(FIRST, SECOND), np.maximum(FIRST, SECOND), FIRST + SECOND


@pytest.mark.parametrize(
    ("measured", "words"),
    [
        (REWARD + 0.9 * SMALLER, ""),
        (REWARD + 0.9 * LARGER, "the value: the larger, not the smaller"),
        (REWARD - 0.9 * SMALLER, "the next value has the opposite sign"),
        (REWARD + 0.9 * SMALLER.mean(), "the next value is its mean over the minibatch"),
        (1.9 * REWARD, "the reward in place of the next value"),
        (REWARD + 0.9 * np.roll(SMALLER, 1), "the next value is that of the previous row"),
        (np.trunc(REWARD) + 0.9 * SMALLER, "the reward is a whole number"),
        (REWARD + 0.81 * SMALLER, "the discount is squared"),
        (0.3 * REWARD + 0.9 * SMALLER, "the reward counts 0.3 times"),
        (0.9 * REWARD + 0.9 * SMALLER, "the reward is multiplied by the discount"),
        (REWARD * (np.arange(24) < 23) + 0.9 * SMALLER, "the reward is missing in the last row"),
        (REWARD + 0.9 * np.roll(SMALLER, 2), "the next value is that of two rows earlier"),
        (REWARD + 0.9 * LARGER.mean(), "the next value is its mean over the minibatch"),
        (np.abs(REWARD + 0.9 * SMALLER), "the target is its absolute value"),
        (RNG.normal(size=24), ""),
        (
            REWARD + 0.9 * (0.7 * SMALLER + 0.3 * REWARD),
            "the next value is 0.7 times the next value plus 0.3 times the reward",
        ),
        (
            REWARD + 0.9 * (0.7 * SMALLER + 0.3 * SUM),
            "the next value is 0.7 times the next value plus 0.3 times the sum",
        ),
        (REWARD + 0.9 * np.sin(2 * SMALLER), "the next value is another function of itself: "),
        (
            REWARD + 0.9 * SMALLER * (1 + 0.3 * np.cos(REWARD)),
            "the next value is multiplied by a f",
        ),
        (
            np.append(REWARD[1:], 5) + 0.9 * SMALLER,
            "the reward is that of the next row of the minibatch, for 23 of 24 wrong numbers",
        ),
        (REWARD.mean() + 0.9 * SMALLER.mean(), "the target is its mean over the minibatch"),
        (REWARD + 0.9 * SMALLER + np.random.default_rng(1).normal(size=24), ""),
    ],
)
def test_the_changed_quantity_is_named(measured, words):
    found = find_changed_quantity([compute_target], [measured], measure_distance)
    assert found.startswith(words) and bool(found) == bool(words)


def test_changes_of_one_use_and_of_row_pairs_are_named():
    def compute_objective(q):
        ratio, weight = q.name("the ratio", np.exp(FIRST)), q.name("the weight", SECOND)
        plain = q.name("the plain objective", ratio * weight)
        return plain.minimum(q.name("the clipped objective", ratio.clamp(0.8, 1.2) * weight))

    def explain(measured):
        return find_changed_quantity([compute_objective], [measured], measure_distance)

    ratio, cut = np.exp(FIRST), np.exp(FIRST).clip(0.8, 1.2)
    assert explain(np.minimum(FIRST * SECOND, cut * SECOND)) == (
        "the ratio is its logarithm, as without its exponential, in the plain objective"
    )
    pairs = np.minimum(np.outer(ratio, SECOND), np.outer(cut, SECOND)).mean(1)
    assert explain(pairs) == "the weight is that of all rows of the minibatch, each paired with all"


def test_a_change_of_several_quantities_at_once_is_named():
    def compute_sum(q, one, other):
        q.join("each of both", ("the first", "the second"))
        return q.name("the first", one) + 2 * q.name("the second", other) + 3

    part = functools.partial(compute_sum, one=FIRST, other=SECOND)
    words = find_changed_quantity([part], [3 - FIRST - 2 * SECOND], measure_distance)
    assert words == "each of both has the opposite sign"


def test_a_change_must_explain_every_update():
    parts = [compute_target, functools.partial(compute_target, rewards=2 * REWARD)]
    first, second = REWARD - 0.9 * SMALLER, 2 * REWARD - 0.9 * SMALLER
    assert find_changed_quantity(parts, [first, second], measure_distance)
    assert not find_changed_quantity(parts, [first, second + 0.5], measure_distance)


def test_a_quantity_stands_for_another_of_the_same_update():
    def make_part(one, other):
        return lambda q: q.name("one", one) + 2 * q.name("the other", other)

    parts = [make_part(FIRST, SECOND), make_part(SECOND, REWARD)]
    words = find_changed_quantity(parts, [3 * SECOND, 3 * REWARD], measure_distance)
    assert words == "the other in place of one"
    assert not find_changed_quantity(parts, [3 * SECOND, 3 * SECOND], measure_distance)
    changed = [SECOND + 2 * FIRST, REWARD + 2 * SECOND]
    words = find_changed_quantity(parts, changed, measure_distance)
    assert words == "one and the other have changed places"


def test_a_small_difference_needs_an_exact_change():
    # Rewards that are smaller by 0.1% are near those of many functions.
    words = find_changed_quantity(
        [compute_target], [0.997 * REWARD + 0.9 * SMALLER], measure_distance
    )
    assert words == "the reward counts 0.997 times"


def test_losses_without_a_gradient_have_the_derivative_0():
    leaf = torch.ones(3, requires_grad=True)
    assert differentiate_loss(leaf.detach().sum(), [leaf])[0].tolist() == [0.0] * 3
    assert differentiate_loss((2 * leaf).sum(), [leaf])[0].tolist() == [2.0] * 3


def test_angles_ignore_positive_factors_only():
    assert measure_angle(3 * FIRST, FIRST) < 1e-12
    assert measure_angle(-FIRST, FIRST) == np.inf and measure_angle(0 * FIRST, FIRST) == np.inf


def make_minibatch():
    advantages, old = RNG.normal(size=(2, 32))
    return advantages, old + RNG.normal(scale=0.4, size=32), old


def name_minibatch(goal, new, old):
    others = {"those of the steps after": goal[::-1] ** 2}
    return Minibatch({"those of the minibatch": goal} | others, new, {"the old ones": old})


def test_policy_slopes_equal_the_paper_and_changes_are_named():
    advantages, new, old = make_minibatch()
    minibatch, ratio = name_minibatch(advantages, new, old), np.exp(new - old)
    paper = formulas.compute_surrogate_slope(advantages, ratio, CLIP)
    mine = changed_formulas.compute_policy_slopes(FormulaQuantities(), minibatch).numpy()
    assert np.allclose(mine, paper)
    assert changed_formulas.explain_policy_slopes(3 * paper, [minibatch]) == ""
    beyond = (paper == 0) & (ratio < 1)
    one_sided = np.where(beyond, advantages * ratio, paper)
    assert "from above only" in changed_formulas.explain_policy_slopes(one_sided, [minibatch])
    assert "without clipping" in changed_formulas.explain_policy_slopes(
        advantages * ratio, [minibatch]
    )
    other = formulas.compute_surrogate_slope(advantages[::-1] ** 2, ratio, CLIP)
    words = changed_formulas.explain_policy_slopes(other, [minibatch])
    assert words == "advantages are those of the steps after"


def test_value_slopes_equal_the_authors_code_and_changes_are_named():
    now, old, returns = make_minibatch()
    minibatch = name_minibatch(returns, now, old)
    paper = formulas.compute_clipped_value_slope(now, old, returns, CLIP) / 2
    mine = changed_formulas.compute_value_slopes(FormulaQuantities(), minibatch, True).numpy()
    assert np.allclose(mine, paper)
    explain = functools.partial(changed_formulas.explain_value_slopes, minibatches=[minibatch])
    assert explain(now - returns, clips=False) == "" == explain(paper, clips=True)
    assert "the plain error" in explain(now - returns, clips=True)
    assert "mean over the minibatch" in explain(now - returns.mean(), clips=False)
    words = "the advantage in place of the value's target"
    assert explain(now - (returns - old), clips=False) == words


def normalize(raw, of, eps):
    return (raw - of.mean()) / (of.std(ddof=1) + eps)


def test_normalized_advantages_are_explained():
    every, eps, known = RNG.normal(loc=1.0, size=24), 1e-8, np.full(12, True)

    def explain(normalize):
        halves = [(raw, normalize(raw), known) for raw in (every[:12], every[12:])]
        return changed_formulas.explain_normalized_advantages(halves, every, eps)

    assert explain(lambda x: (x - x.mean()) / (x.std() + eps)) == ""
    for words, sample in (("over the minibatch", None), ("over the whole rollout", every)):
        found = explain(lambda x, of=sample: normalize(x, x if of is None else of, eps))
        assert found.startswith(f"standardization: {words}, with n - 1 in the denominator, not")
    assert explain(lambda x: (x - x.mean()) / (x.var(ddof=1) + eps)) == (
        "the divisor: the variance, not the standard deviation"
    )
    assert explain(lambda x: x / (x.std() + eps)) == (
        "what is subtracted: 0, not the mean of these"
    )


def test_advantages_equal_the_paper_and_changes_are_named():
    rewards, values, next_values = RNG.normal(size=(3, 24))
    ends = RNG.choice([0, 1, 2], size=24, p=[0.8, 0.1, 0.1])
    every = np.full(24, True)
    paper, run_on = (
        formulas.compute_gae(
            *(rewards, values, next_values, ends == TERMINATED),
            *(np.where(runs_on, 0.0, ends > 0), GAMMA, LAMBDA),
        )
        for runs_on in (False, True)
    )
    rollout = rewards, values, next_values, ends

    def explain(found, of_targets=False):
        return changed_formulas.explain_advantages(found, [rollout], [every], of_targets)

    assert explain(paper) == "" == explain(paper + values, of_targets=True)
    assert explain(run_on) == "sums stop at: none, not any end"
    assert (
        explain(paper + next_values, of_targets=True)
        == "the next value in place of the value added"
    )
    masked = np.where(ends == TERMINATED, 0, next_values)
    assert explain(paper + masked, of_targets=True) == (
        "to the advantage is added: the next value, or 0 after ends of the task, not the value"
    )
    estimate = functools.partial(formulas.compute_gae, gamma=GAMMA, lam=LAMBDA)
    masks, is_cut = (ends == TERMINATED, ends > 0), ends == TRUNCATED
    lost = estimate(np.where(ends == TERMINATED, 0, rewards), values, next_values, *masks)
    assert explain(lost) == "the reward is missing, at terminations"
    before = np.where(is_cut, np.roll(next_values, 1), next_values)
    assert explain(estimate(rewards, values, before, *masks)).endswith("at time limits")
    last = estimate(np.full(24, rewards[-1]), values, next_values, *masks)
    assert explain(last) == "the reward is that of the last row of the rollout"
    # As in a buffer of observations: an end that is ignored leads to the next step's value.
    after = np.append(values[1:], next_values[-1])
    paid = rewards + GAMMA * next_values * (ends == TRUNCATED)
    none = np.zeros(24)
    assert explain(formulas.compute_gae(paid, values, after, none, none, GAMMA, LAMBDA)) == (
        "the mask of ends is missing"
    )
    copies = [np.stack([array, array[::-1]], axis=1) for array in rollout]
    found = np.stack(
        [
            formulas.compute_gae(
                *(c[:, i] for c in copies[:3]),
                copies[3][:, i] == TERMINATED,
                copies[3][:, i] > 0,
                GAMMA,
                LAMBDA,
            )
            for i in (0, 1)
        ],
        axis=1,
    )
    explain = functools.partial(
        changed_formulas.explain_advantages,
        rollouts=[tuple(copies)],
        rows=[np.full((24, 2), True)],
        of_targets=False,
    )
    assert explain(found.ravel()) == ""
    given, kinds = (copies[0][:, [0, 0]], *copies[1:3]), copies[3]
    columns = [
        estimate(*(c[:, i] for c in given), kinds[:, i] == TERMINATED, kinds[:, i] > 0)
        for i in (0, 1)
    ]
    words = explain(np.stack(columns, axis=1).ravel())
    assert words == "the reward is that of the first environment"


def test_choices_are_combined():
    def compute(q):
        one = q.choose("one", {"right": FIRST, "wrong": FIRST**2})
        return torch.as_tensor(one + q.choose("other", {"right": SECOND, "wrong": SECOND**3}))

    words = find_changed_quantity([compute], [FIRST**2 + SECOND**3], measure_distance)
    assert words == "one: wrong, not right; other: wrong, not right"


def test_actions_and_epsilons_are_explained():
    outputs, noise = np.linspace(-3, 3, 24), RNG.normal(size=24)
    half = 2 * np.tanh(outputs)
    explain = functools.partial(
        explain_action, outputs=outputs, noise=noise, std=0.1, bounds=(-1.0, 3.0)
    )
    assert explain(np.clip(1 + half + 0.2 * noise, -1, 3)) == ""
    assert "in its units" in explain(np.clip(1 + half + 0.1 * noise, -1, 3))
    assert "nowhere" in explain(1 + half + 0.2 * noise)
    assert "factor of the action before" in explain(1 + half * 0.1 * noise)
    falling = np.clip(1 + half + 0.2 * noise / np.arange(1, 25), -1, 3)
    assert "is divided by the number of the row in the run" in explain(falling)
    steps = np.arange(40.0)
    due = np.where(steps < 4, 1.0, np.maximum(1 - 0.9 * steps / 30, 0.1))
    explain = functools.partial(explain_epsilon, steps=steps, line=(1.0, 0.1, 30.0), warm_up=4)
    assert explain(due) == ""
    late = np.where(steps < 4, 1.0, np.maximum(1 - 0.9 * steps / 60, 0.1))
    assert "counts 0.5 times" in explain(late)


def test_actions_without_noise_and_random_ones_are_explained():
    outputs = [RNG.normal(size=(12, 2)) for _ in range(2)]
    bounds = [(np.array([-1.0, -2.0]), np.array([3.0, 2.0])), (np.full(2, -0.1), np.full(2, 0.5))]
    middles = [(low + high) / 2 for low, high in bounds]
    halves = [(high - low) / 2 for low, high in bounds]

    def explain(scale, squashes=True):
        found = [m + h * scale(x) for m, h, x in zip(middles, halves, outputs, strict=True)]
        return explain_greedy_actions(found, outputs, bounds, squashes)

    assert explain(np.tanh) == ""
    assert explain(lambda x: np.clip(x, -1, 1)).startswith("the sample in the action: cut at -1")
    assert "the sample in the action: scaled without tanh" in explain(lambda x: x)
    assert explain(lambda x: -np.tanh(x)) == "the policy's output has the opposite sign"
    plain = [np.clip(x, *edges) for x, edges in zip(outputs, bounds, strict=True)]
    assert explain_greedy_actions(plain, outputs, bounds, squashes=False) == ""
    numbers = RNG.uniform(size=(12, 2))
    assert explain_random_actions(4 * numbers - 1, numbers, (-1.0, 3.0)) == ""
    assert explain_random_actions(numbers, numbers, (-1.0, 3.0)) != ""
    words = "the smallest action is missing"
    assert explain_random_actions(3 * numbers, numbers, (-1.0, 3.0)) == words


def test_linear_schedules_are_explained():
    done = np.repeat(np.arange(4.0), 5)
    explain = functools.partial(explain_annealing, count=4, start=0.2)
    assert explain(0.2 * (1 - done / 4)) == ""
    assert explain(0.2 * (1 - np.arange(20) / 20)).startswith("it counts: gradient steps")
    assert explain(0.2 * (1 - (done + 1) / 4)) == "the number that are done is one more"
    assert explain(np.full(20, 0.2) * np.repeat([1, 0.75, 0.375, 0.09375], 5)) != ""


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (1 - CLIP, 1 - CLIP, "always at 1 minus the range"),
        (1 + CLIP, 1 + CLIP, "always at 1 plus the range"),
        (1 - CLIP, 1.0, "between 1 minus the range and 1"),
        (1.0, 1 + CLIP, "between 1 and 1 plus the range"),
        (CLIP, 1 + CLIP, "between the range and 1 plus the range"),
        (1 - 2 * CLIP, 1 + CLIP, "the clip range below 1 counts 2 times"),
        (1 - CLIP, 1 + CLIP / 2, "the clip range above 1 counts 0.5 times"),
        (-np.inf, 1 + CLIP, "from above only"),
    ],
)
def test_bounds_of_the_ratio_are_named(low, high, words):
    generator = np.random.default_rng(2)
    old, advantages = generator.normal(size=(2, 200))
    new = old + generator.normal(scale=0.9, size=200)
    ratio, minibatch = np.exp(new - old), name_minibatch(advantages, new, old)
    cut = (ratio < low) | (ratio > high)
    clipped = np.clip(ratio, low, high) * advantages
    counts = (ratio * advantages < clipped) | ~cut
    found = changed_formulas.explain_policy_slopes(ratio * advantages * counts, [minibatch])
    assert words in found


def test_clipped_product_is_named():
    advantages, new, old = make_minibatch()
    product = np.exp(new - old) * advantages
    slopes = product * (product <= np.clip(product, 1 - CLIP, 1 + CLIP))
    minibatch = name_minibatch(advantages, new, old)
    assert "the product of ratio" in changed_formulas.explain_policy_slopes(slopes, [minibatch])


def test_old_log_probs_of_renewed_advantages_are_named():
    # Some implementations recompute advantages: another change is found in addition.
    advantages, new, old = make_minibatch()
    others = {"those of the minibatch": advantages, RENEWED_ADVANTAGES: advantages[::-1] ** 2}
    olds = {"the old ones": old, "those of the step before": old + new**2 / 9}
    slopes = formulas.compute_surrogate_slope(
        others[RENEWED_ADVANTAGES], np.exp(new - olds["those of the step before"]), CLIP
    )
    words = changed_formulas.explain_policy_slopes(slopes, [Minibatch(others, new, olds)])
    assert words == "old log-probabilities are those of the step before"


def test_slopes_missing_at_a_ratio_of_1_are_described():
    advantages = np.random.default_rng(3).normal(size=24)
    found = describe_missing_pulls(2 * advantages.clip(max=0), advantages)
    assert found == "positive advantages have no pull, as if the ratio were cut below 1"
    assert "negative" in describe_missing_pulls(advantages.clip(min=0), advantages)
    assert not describe_missing_pulls(advantages, advantages)
    assert not describe_missing_pulls(0 * advantages, advantages)
    assert not describe_missing_pulls(np.abs(advantages).clip(max=0.1), advantages)


@pytest.mark.parametrize(
    ("pull", "words"),
    [
        (
            lambda e: np.sign(e) * np.abs(e) ** 0.5,
            "the loss is the absolute error to the power 1.5",
        ),
        (lambda e: 7 * e**3, "the loss is the absolute error to the power 4"),
        (lambda e: 2 * e, ""),
        (np.sign, ""),
        (np.tanh, ""),
        (lambda e: -(e**3), ""),
    ],
)
def test_the_power_of_the_error_is_named(pull, words):
    values, targets = np.random.default_rng(4).normal(size=(2, 2, 24))
    pairs = [(v, pull(v - t), t) for v, t in zip(values, targets, strict=True)]
    assert describe_error_power(pairs) == words
