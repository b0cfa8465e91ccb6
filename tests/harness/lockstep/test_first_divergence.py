"""First changed bit of trainings of one framework, and further trainings that show more."""

import dataclasses
import re

import numpy as np
import pytest

from parallax.harness.contract.probing.protocol import GeneratorEvent
from parallax.harness.lockstep.comparison import LockstepOptions, LockstepSide, LockstepTrainings
from parallax.harness.lockstep.experiments import load_variants
from parallax.harness.lockstep.first_divergence import find_first_change


@pytest.fixture(scope="module")
def trainings():
    sides = LockstepSide("cleanrl"), LockstepSide("cleanrl")
    return LockstepTrainings(sides, "dqn", LockstepOptions())


def replace_record(run, **changes):
    return dataclasses.replace(run, record=dataclasses.replace(run.record, **changes))


def replace_step(run, number, **changes):
    steps = list(run.record.steps)
    steps[number] = dataclasses.replace(steps[number], **changes)
    return replace_record(run, steps=tuple(steps))


def change_entry(arrays, name, row, value):
    changed = np.array(arrays[name], float)
    changed[row] = value
    return {**arrays, name: changed}


def change_options(run):
    step = run.record.steps[1]
    options = {"critic1": {**step.settings["critic1"], "weight_decay": 0.01}}
    after = change_entry(step.after, "critic1.out.bias", 0, 9.0)
    return replace_step(run, 1, settings=options, after=after)


def change_draw(run):
    draws = list(run.draws)
    place = next(i for i, draw in enumerate(draws) if draw.steps == run.record.steps[1].env_steps)
    draws[place] = dataclasses.replace(draws[place], high=7, with_replacement=False)
    return dataclasses.replace(run, draws=tuple(draws))


def move_target(run):
    target = change_entry(run.record.steps[2].before, "critic1_target.0.bias", 3, 9.0)
    return replace_step(run, 2, before=target)


CHANGES = {
    "update 2, in gradients of the critic1": lambda run: replace_step(
        run, 1, gradients=change_entry(run.record.steps[1].gradients, "critic1.0.bias", 0, np.nan)
    ),
    "update 2, in learning rate of the critic1, by 1 of": lambda run: replace_step(
        run, 1, settings={"critic1": {**run.record.steps[1].settings["critic1"], "lr": 0.0}}
    ),
    r"update 2, in weights of the critic1, by .*\(optimizer's weight_decay: 0 and 0.01\)": (
        change_options
    ),
    "update 2, in minibatch.* and 24 of 0 to 6 without replacement": change_draw,
    "update 2, in weights of the critic1_target": move_target,
    "update 3, in weights of the critic1, which only one": lambda run: replace_record(
        run, steps=run.record.steps[:2]
    ),
    "the steps before updates, in stored rewards": lambda run: replace_record(
        run, stored=change_entry(run.record.stored, "rewards", 3, 9.0)
    ),
    "the steps after update 2, in stored rewards": lambda run: replace_record(
        run, stored=change_entry(run.record.stored, "rewards", run.record.steps[1].env_steps, 9.0)
    ),
    "the steps after update 1, in actions (epsilon)": lambda run: dataclasses.replace(
        run, thresholds=(*run.thresholds, (run.record.steps[0].env_steps, 0.1))
    ),
    "the steps before updates, in initial weights of the critic1": lambda run: replace_record(
        run, created=change_entry(run.record.created, "critic1.0.bias", 0, 9.0)
    ),
    "in random generators.*torch.manual_seed": lambda run: replace_record(
        run, generator_events=(GeneratorEvent(30, 1, "torch.manual_seed"),)
    ),
}


@pytest.mark.parametrize("place", CHANGES)
def test_the_first_changed_value_is_named(place, trainings):
    run = trainings.record_updates(0, 4)
    assert find_first_change(run, run) is None
    found = str(find_first_change(run, CHANGES[place](run)))
    pattern = place if ".*" in place else place.replace("(", r"\(").replace(")", r"\)")
    assert re.search(pattern, found), found


def test_framework_equals_itself_in_all_variants(trainings):
    assert trainings.find_difference_in_variants(0, 1) == ("", None)


def test_demanding_settings_leave_out_what_a_framework_refuses():
    sides = LockstepSide("cleanrl"), LockstepSide("cleanrl")
    trainings = LockstepTrainings(sides, "td3", LockstepOptions())
    variants = {each.name: each for each in load_variants("td3", one_framework=True)}
    made = trainings.record_updates(0, 1, variants["demanding settings"]).experiment
    assert made.changes["buffer_size"] == made.scripted_data.minibatch_window == 28
    # One learning rate and one gradient step per environment step are all that the script has.
    rates = (made.changes["policy_learning_rate"], made.changes["critic_learning_rate"])
    assert rates == (0.002, 0.002) and made.changes["gradient_steps"] == 1
    assert made.scripted_data.high == (3.0, 2.0)


def test_two_frameworks_are_not_compared_where_settings_differ_in_meaning():
    names = [each.name for each in load_variants("ppo", one_framework=False)]
    assert names == ["normalized advantages", "clipped values", "a limit of the divergence"]
