"""Cost of replay strategies: transitions drawn per second, and CPU time of a gradient step.

    python benchmarks/replay.py draws --size 1000000
    python benchmarks/replay.py steps --algorithms dqn ddpg

`draws` fills memories with random priorities and draws minibatches, with importance weights and
without the transitions, then stores errors, for this project's strategies and for the frameworks'
own buffers; it also prints the additional bytes per stored transition. `steps` trains
Stable-Baselines3 a little with each strategy, with two sweeps if there are any, and then times its
updates without the environment and further sweeps; parts are the sampling of minibatches
with their transitions (corrections of all priorities included), the storing of errors, and the
rest. CPU time: for `draws` the smallest of several repeats; for `steps` the mean over `--turns` of
`--updates` each, in which the strategies alternate, and for the ratios of two strategies
within a turn the median and the quartiles.
"""

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from tabulate import tabulate

from parallax.adapters.torch_common.sum_tree import CompiledSumTree
from parallax.envs.make import make_training_env
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.recipes import read_recipe
from parallax.harness.contract.replay import REPLAY_CONFIGS
from parallax.harness.contract.run_spec import RUN_DEFAULTS, make_run_spec
from parallax.harness.interventions.catalogue import make_replacement
from parallax.harness.replay.replayer import make_replay_strategy
from parallax.harness.train.prepare import prepare_run

BATCH = 256
WARM_UP = 1_000
"""Environment transitions before updates are timed."""
TASKS = {"dqn": "CartPole-v1", "ddpg": "Pendulum-v1", "td3": "Pendulum-v1", "sac": "Pendulum-v1"}
_Memory = tuple[Callable[[], Any], Callable[[Any], None], int]
"""Draws indices, stores errors at them, and the bytes that it needs besides transitions."""


def build_strategy(name: str, size: int) -> _Memory:
    """Return functions of one of this project's strategies that draw, and store errors."""
    made: Any = make_replay_strategy({"name": name}, size, size, CompiledSumTree)
    places = made.add(size)
    numbers = np.random.default_rng(0)
    made.update(places, numbers.exponential(size=size))
    if name in ("atdc", "imp"):
        made.sweep(lambda values: made.errors[values] * 0.9)
    errors = numbers.exponential(size=BATCH)
    extra_bytes = sum(part.nbytes for part in vars(made).values() if isinstance(part, np.ndarray))
    extra_bytes += made._tree._tree._value.nbytes
    draw = lambda: made.sample(numbers, BATCH)[0]  # noqa: E731
    return draw, lambda indices: made.update(indices, errors), extra_bytes


def build_tianshou_prioritized(size: int) -> _Memory:
    """Return Tianshou's prioritised buffer, without the storage of transitions."""
    from tianshou.data import PrioritizedReplayBuffer

    buffer: Any = PrioritizedReplayBuffer(size, alpha=0.6, beta=0.4)
    buffer._size = size
    buffer.update_weight(np.arange(size), np.random.default_rng(0).exponential(size=size))
    errors = np.random.default_rng(1).exponential(size=BATCH)

    def draw() -> Any:
        indices = buffer.sample_indices(BATCH)
        weights = buffer.get_weight(indices)
        weights / weights.max()
        return indices

    extra_bytes = buffer.weight._value.nbytes
    return draw, lambda indices: buffer.update_weight(indices, errors), extra_bytes


def build_tianshou_uniform(size: int) -> _Memory:
    """Return Tianshou's buffer, without the storage of transitions."""
    from tianshou.data import ReplayBuffer

    buffer: Any = ReplayBuffer(size)
    buffer._size = size
    return lambda: buffer.sample_indices(BATCH), lambda indices: None, 0


def build_torchrl_uniform(size: int) -> _Memory:
    """Return TorchRL's random sampler on a storage of one number per transition."""
    import torch
    from torchrl.data import LazyTensorStorage, RandomSampler

    sampler, storage = RandomSampler(), LazyTensorStorage(size)
    storage.set(range(size), torch.zeros(size))
    return lambda: sampler.sample(storage, BATCH)[0], lambda indices: None, 0


def build_torchrl_prioritized(size: int) -> _Memory:
    """Return TorchRL's prioritised sampler on a storage of one number per transition."""
    import torch
    from torchrl.data import LazyTensorStorage, PrioritizedSampler

    sampler: Any = PrioritizedSampler(size, alpha=0.6, beta=0.4)
    storage: Any = LazyTensorStorage(size)
    storage.set(range(size), torch.zeros(size))
    sampler.extend(torch.arange(size))
    sampler.update_priority(torch.arange(size), torch.rand(size))
    errors = torch.rand(BATCH)
    return (
        lambda: sampler.sample(storage, BATCH)[0],
        lambda indices: sampler.update_priority(indices, errors),
        0,
    )


def build_uniform(size: int) -> _Memory:
    """Return NumPy's draws of as many indices."""
    numbers = np.random.default_rng(0)
    return lambda: numbers.integers(size, size=BATCH), lambda indices: None, 0


def measure_seconds(work: Callable[[], Any], repeats: int, rounds: int) -> float:
    """Return the CPU time of one round, the smallest of some repeats."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(rounds):
            work()
        times.append((time.process_time() - started) / rounds)
    return min(times)


def measure_draws(size: int, repeats: int, rounds: int) -> list[list[Any]]:
    """Return a row for each memory, with the reason if it cannot be measured."""
    makers: dict[str, Callable[[], _Memory]] = {"uniform (numpy)": lambda: build_uniform(size)}
    names = [name for name in REPLAY_CONFIGS if name != "uniform"]
    makers |= {name: lambda name=name: build_strategy(name, size) for name in names}  # type: ignore[misc]
    makers["tianshou's uniform"] = lambda: build_tianshou_uniform(size)
    makers["torchrl's uniform"] = lambda: build_torchrl_uniform(size)
    makers["tianshou's prioritized"] = lambda: build_tianshou_prioritized(size)
    makers["torchrl's prioritized"] = lambda: build_torchrl_prioritized(size)
    rows = []
    for name, make in makers.items():
        try:
            draw, store, extra_bytes = make()
        except Exception as error:  # from another package
            rows.append([name, f"not measured: {' '.join(str(error).split())[:60]}", "", ""])
            continue
        indices = draw()
        few = max(1, rounds // 50) if name == "atdc" else rounds  # each draw passes over the memory
        drawn = measure_seconds(draw, repeats, few)
        stored = measure_seconds(lambda: store(indices), repeats, rounds)  # noqa: B023
        rows.append(
            [
                name,
                f"{BATCH / drawn:,.0f}",
                f"{1e6 * stored:.0f}",
                f"{extra_bytes / size:.1f}" if extra_bytes else "",
            ]
        )
    return rows


@contextlib.contextmanager
def time_method(owner: Any, name: str, spent: dict[str, float]) -> Iterator[None]:
    """Add the CPU time of a method to `spent`."""
    method = getattr(owner, name)

    def measured(*arguments: Any, **named: Any) -> Any:
        started = time.process_time()
        try:
            return method(*arguments, **named)
        finally:
            spent[name] = spent.get(name, 0.0) + time.process_time() - started

    setattr(owner, name, measured)
    try:
        yield
    finally:
        delattr(owner, name)


class TimedTraining:
    """SB3 with one replay strategy, trained a little, whose updates are timed."""

    def __init__(self, algorithm: str, name: str) -> None:
        """Collect transitions, and sweep twice if the strategy sweeps."""
        from parallax.adapters.sb3 import train

        recipe = read_recipe(algorithm, "sb3")
        values = {"study": "x", "framework": "sb3", "algorithm": algorithm, "hps": "sb3", "seed": 0}
        values = RUN_DEFAULTS | values | {"env": TASKS[algorithm], "steps": WARM_UP}
        sweeping = {"sweep_every": WARM_UP // 2} if name in ("atdc", "imp") else {}
        values |= {"replay": {"name": name, **sweeping}, "eval_every": WARM_UP}
        run = prepare_run(make_run_spec(values, recipe, recipe), load_adapter("sb3"))
        env = lambda: make_training_env(  # noqa: E731
            run.spec.env, wrappers="none", gamma=0.99, before_step=lambda: None
        )
        self._interventions, self._uniform = run.interventions, name == "uniform"
        self.turns: list[float] = []
        self.add_seconds: dict[str, float] = {}
        with make_replacement(self._interventions).apply_replacement():
            self._model: Any = train.build_model(algorithm, run.native, run.context, env)
            self._model.learn(WARM_UP)

    def turn(self, updates: int) -> None:
        """Make some updates."""
        buffer = self._model.replay_buffer
        with (
            make_replacement(self._interventions).apply_replacement(),
            contextlib.ExitStack() as stack,
        ):
            stack.enter_context(time_method(buffer, "sample", self.add_seconds))
            if not self._uniform:
                stack.enter_context(
                    time_method(buffer.replayer.strategy, "update", self.add_seconds)
                )
            started = time.process_time()
            self._model.train(updates, 32)
            self.turns.append(time.process_time() - started)


def measure_steps(algorithms: list[str], updates: int, turns: int) -> list[list[Any]]:
    """Return a row for each algorithm and replay strategy."""
    torch.set_num_threads(1)  # as in runs
    rows = []
    for algorithm in algorithms:
        trainings = {name: TimedTraining(algorithm, name) for name in REPLAY_CONFIGS}
        # In short turns, since the speed of a machine varies over time.
        for _ in range(turns):
            for training in trainings.values():
                training.turn(updates)
        for name, training in trainings.items():
            parts = (
                sum(training.turns),
                training.add_seconds["sample"],
                training.add_seconds.get("update", 0.0),
            )
            whole, drawn, stored = (1e6 * part / updates / turns for part in parts)
            times = [f"{part:.0f}" for part in (whole, drawn, stored, whole - drawn - stored)]
            ratios = (
                np.divide(training.turns, trainings[other].turns) for other in ("uniform", "per")
            )
            rows.append([algorithm, name, *times, *map(_format_quartiles, ratios)])
    return rows


def _format_quartiles(ratios: Any) -> str:
    low, middle, high = np.percentile(ratios, [25, 50, 75])
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["draws", "steps"])
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--algorithms", nargs="+", default=["dqn", "ddpg"], choices=list(TASKS))
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=500)
    options = parser.parse_args()
    if options.what == "draws":
        rows = measure_draws(options.size, options.repeats, options.rounds)
        headers = ["memory", "transitions drawn per s", f"us to store {BATCH} errors", "bytes each"]
    else:
        rows = measure_steps(options.algorithms, options.updates, options.turns)
        parts = ["us per step", "drawing", "storing", "rest"]
        headers = ["algorithm", "replay", *parts, "/ uniform", "/ per"]
    print(" ".join(sys.argv))
    print(tabulate(rows, headers=headers, disable_numparse=True))


if __name__ == "__main__":
    main()
