"""A fake framework that trains nothing, quickly, and fails as ordered.

With `STANDIN_RESUMES` in the environment it hands out the state from which a training resumes.

Each run follows orders in the folder `STANDIN_ORDERS`: the file `<algorithm>-<seed>` holds a word,
`all` holds one for those that have no file, and without either a run waits. Runs leave the file
`beats-<algorithm>-<seed>-<pid>` there with the times at which they did something, and a line in
`trainings-<algorithm>-<seed>` when a training begins and when it ends.
"""

import dataclasses
import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from parallax.harness.contract.adapter import Adapter, Checkpointable
from parallax.harness.contract.translation import NativeConfig, TranslatedSetting


class StandinAdapter(Adapter):
    name = "standin"

    def extra_action_spaces(self, algorithm):
        return frozenset()

    def supports(self, algorithm):
        return True

    def check_installed(self):
        pass

    def sources(self, algorithm):
        return {}

    def get_library_defaults(self, algorithm, defaults, context):
        return defaults

    def translate(self, algorithm, hyperparameters, context):
        settings = dataclasses.asdict(hyperparameters)
        rows = [
            TranslatedSetting(name, value, "aligned", name, value)
            for name, value in settings.items()
        ]
        update_schedule = hyperparameters.compute_update_schedule(context.steps)
        return NativeConfig(settings, tuple(rows), context.steps, context.steps, update_schedule)

    def train(self, algorithm, native, context, make_env, monitor):
        key = f"{algorithm}-{context.seed}"
        tell(key, "begin")
        env = make_env()
        rng = np.random.default_rng(context.seed)
        sizes = [env.observation_space.shape[0], env.action_space.shape[0]]
        weights = rng.normal(size=sizes).astype(np.float32)
        step = [0]
        monitor.attach(
            lambda observations: np.tanh(observations @ weights),
            lambda: {"w": weights},
            None,
            resumable(step, weights, rng) if "STANDIN_RESUMES" in os.environ else None,
        )
        env.reset(seed=context.seed)
        while step[0] < context.steps:
            monitor.safe_point()
            if step[0] == context.steps // 2:
                follow_orders(key, weights)
            weights += 0.1 * rng.normal(size=sizes).astype(np.float32)
            _, _, terminated, truncated, _ = env.step(env.action_space.low)
            if terminated or truncated:
                env.reset()
            step[0] += 1
        tell(key, "end")


def resumable(step, weights, rng):
    def lay_in(state):
        step[0], rng.bit_generator.state = state["step"], state["rng"]
        weights[:] = state["weights"]

    return Checkpointable(
        lambda: {"step": step[0], "weights": weights, "rng": rng.bit_generator.state}, lay_in
    )


def tell(key, word):
    """One write, so that lines of processes that write together stay whole."""
    line = f"{word} {os.getpid()} {time.time()}\n"
    with (Path(os.environ["STANDIN_ORDERS"]) / f"trainings-{key}").open("a") as file:
        file.write(line)


def follow_orders(key, weights):
    order = wait_for_order(key)
    if order == "raise":
        raise RuntimeError("the stand-in was ordered to fail")
    if order == "linger":
        time.sleep(random.uniform(0, 2))
    if order == "diverge":
        weights[:] = np.nan
    if order == "fill":
        # The worker's argument is the run folder.
        with suppress(OSError), (Path(sys.argv[1]) / "filler").open("wb", buffering=0) as file:
            for _ in range(2**14):
                file.write(bytes(512))


def wait_for_order(key):
    folder = Path(os.environ["STANDIN_ORDERS"])
    beats = folder / f"beats-{key}-{os.getpid()}"
    while True:
        with beats.open("a") as file:
            file.write(f"{time.time()}\n")
        for name in (key, "all"):
            with suppress(OSError):
                return (folder / name).read_text()
        time.sleep(0.1)
