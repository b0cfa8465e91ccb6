"""A framework that trains nothing, quickly, and has the accidents it is told to have.

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

from harness.contract.adapter import Native, Setting


class StandinAdapter:
    name = "standin"

    def supports(self, algorithm):
        return True

    def check_installed(self):
        pass

    def sources(self, algorithm):
        return {}

    def own_defaults(self, algorithm, defaults, context):
        return defaults

    def translate(self, algorithm, hyperparameters, context):
        settings = dataclasses.asdict(hyperparameters)
        rows = [Setting(name, value, "aligned", name, value) for name, value in settings.items()]
        cadence = hyperparameters.cadence(context.steps)
        return Native(settings, tuple(rows), context.steps, context.steps, cadence)

    def train(self, algorithm, native, context, make_env, monitor):
        key = f"{algorithm}-{context.seed}"
        tell(key, "begin")
        env = make_env()
        rng = np.random.default_rng(context.seed)
        sizes = [env.observation_space.shape[0], env.action_space.shape[0]]
        weights = rng.normal(size=sizes).astype(np.float32)
        monitor.attach(lambda observations: np.tanh(observations @ weights), lambda: {"w": weights})
        env.reset(seed=context.seed)
        for step in range(context.steps):
            if step == context.steps // 2:
                follow_orders(key, weights)
            weights += 0.1 * rng.normal(size=sizes).astype(np.float32)
            _, _, terminated, truncated, _ = env.step(env.action_space.low)
            if terminated or truncated:
                env.reset()
        tell(key, "end")


def tell(key, word):
    """One write, so that lines of processes that write together stay whole."""
    line = f"{word} {os.getpid()} {time.time()}\n"
    with (Path(os.environ["STANDIN_ORDERS"]) / f"trainings-{key}").open("a") as file:
        file.write(line)


def follow_orders(key, weights):
    order = wait_for_order(key)
    if order == "raise":
        raise RuntimeError("the stand-in was told to fail")
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
