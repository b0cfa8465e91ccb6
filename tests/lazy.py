"""The scripted task, as slow as `LAZY_SECONDS` says, so that a run lasts as long everywhere."""

import os
import time

import gymnasium

from parallax.envs.scripted import TIME_LIMIT, ScriptedEnv


class LazyEnv(ScriptedEnv):
    def step(self, action):
        time.sleep(float(os.environ.get("LAZY_SECONDS", "0")))
        return super().step(action)


gymnasium.register("Lazy-v0", LazyEnv, max_episode_steps=TIME_LIMIT)
