"""What a run asks for is bounded by what its task and the machine allow."""

import dataclasses

import pytest
import support

from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.train import limits
from parallax.harness.train.limits import ANY, Machine, check_episodes, check_limits
from parallax.harness.train.prepare import prepare_run

SMALL = Machine(4, 2**33, "this machine")
TASK = load_task("InvertedPendulum-v4")


def off_policy(**changes):
    usual = {"steps": 10**12, "eval_every": 10**9, "alignment": "exact"}
    return support.spec("sb3", "td3", hyperparameters=changes, **usual)


TOO_LARGE = {
    "threads": (support.spec(threads=10**6), r"threads=1000000 .* 4 cores\. Use threads=64 or"),
    "n_envs": (
        support.spec(n_envs=10**6, steps=10**7),
        r"n_envs=1000000 .* 8.0 GiB of memory. Use n_envs=32768 or",
    ),
    "more copies than steps": (support.spec(n_envs=601), r"n_envs=601 .* Use n_envs=600 or less"),
    "eval_episodes": (support.spec(eval_episodes=2**53), r"Use eval_episodes=131072 or less"),
    "eval_every": (
        support.spec(steps=10**10, eval_every=1),
        r"10,000,000,000 evaluations .* use eval_every=10000 or more",
    ),
    "buffer_size": (
        off_policy(buffer_size=10**12),
        r"hyperparameters.buffer_size=1000000000000 .* take 14.5 TiB, .*buffer_size=536870912 or",
    ),
    "batch_size": (off_policy(batch_size=10**300), r"hyperparameters.batch_size=1000"),
    "hidden_sizes": (off_policy(hidden_sizes=[10**6, 10**6]), r"use smaller layers"),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_what_cannot_fit_is_refused_with_the_largest_value_and_an_override(what, monkeypatch):
    spec, message = TOO_LARGE[what]
    with pytest.raises(SpecError, match=message) as error:
        check_limits(spec, TASK, SMALL)
    assert "set the environment variable PARALLAX_LIMITS=off" in str(error.value)
    monkeypatch.setenv("PARALLAX_LIMITS", "off")
    check_limits(spec, TASK, SMALL)


def test_what_fits_is_not_refused():
    largest = support.spec(threads=64, n_envs=600, eval_episodes=10_000)
    for spec in (support.spec(), largest, off_policy(buffer_size=10**8)):
        check_limits(spec, TASK, SMALL)
    short = dataclasses.replace(off_policy(buffer_size=10**12), steps=1000, eval_every=10)
    check_limits(short, TASK, SMALL)  # a buffer holds no more than the run's steps


def test_a_node_that_is_not_known_yet_may_be_large():
    spec = support.spec(threads=128, n_envs=50_000, steps=10**6)
    check_limits(spec, TASK, ANY)
    with pytest.raises(SpecError, match="a node has 1024 cores"):
        check_limits(support.spec(threads=5000), TASK, ANY)


def test_bounds_are_asked_before_anything_is_made(monkeypatch):
    monkeypatch.setattr(limits.Machine, "here", classmethod(lambda cls: SMALL))
    with pytest.raises(SpecError, match="n_envs=1000000 is too large"):
        prepare_run(support.spec(n_envs=10**6, steps=10**7), load_adapter("sb3"))
    with pytest.raises(SpecError, match="episodes=1000000 is too large"):
        check_episodes(10**6)


def test_this_machine_has_something(monkeypatch):
    here = Machine.here()
    assert here.cores >= 1 and here.memory > 2**28
    monkeypatch.setattr(limits.os, "cpu_count", lambda: None)
    assert dataclasses.replace(here, cores=1) == Machine.here()
