"""Record videos of policies: one, or several side by side from the same initial state.

Gymnasium's `RecordVideo` writes the file. It records an environment in which every policy plays in
its own copy of the task.
"""

import contextlib
import ctypes.util
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from parallax.envs.tasks import TaskError, make_task_env
from parallax.harness.contract.fields import SpecError
from parallax.harness.policies.loading import LoadedPolicy
from parallax.harness.record.files import find_write_error

Frame = NDArray[np.uint8]
"""Image, uint8[height, width, 3]."""

_BAND = 40  # pixels above a picture, for two lines of text
_DARK, _LIGHT = (24, 24, 24), (240, 240, 240)
_RENDER_LIBRARIES = {"egl": "EGL", "osmesa": "OSMesa"}
_INSTALL_HINT = (
    "MuJoCo renders off screen with EGL or OSMesa: install one of them (apt-get install libegl1, "
    "or libosmesa6); if both are there, choose with MUJOCO_GL"
)


def find_rendering_variables() -> dict[str, str]:
    """Return environment variables that make MuJoCo render off screen.

    MuJoCo reads them at import. Empty if the user has set them, and if no library is found, since
    not every task needs one.
    """
    if "MUJOCO_GL" in os.environ:
        return {}
    for name, library in _RENDER_LIBRARIES.items():
        if ctypes.util.find_library(library):
            return {"MUJOCO_GL": name}
    return {}


def record_video(policies: Mapping[str, LoadedPolicy], path: Path, episode: int = 0) -> list[float]:
    """Record an episode of the last evaluation of the first policy, with all policies side by side.

    Args:
        policies: By title; all of one task. All begin in the same initial state.
        path: File, ending in `.mp4`.
        episode: Index of the episode, from 0.

    Raises:
        SpecError: The tasks differ, or a library that renders or encodes videos is missing.
    """
    first = next(iter(policies.values()))
    tasks = {policy.spec.task_name for policy in policies.values()}
    if len(tasks) > 1:
        raise SpecError(f"policies of different tasks cannot be compared: {', '.join(tasks)}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    # A temporary folder beside the file, so that an unfinished video never has its name.
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as scratch:
        try:
            env = _SideBySideEnv(policies)
            with contextlib.closing(
                gymnasium.wrappers.RecordVideo(env, f"{scratch}/film", disable_logger=True)
            ) as recorder:
                recorder.reset(seed=first.seeds(episode + 1)[episode])
                while not recorder.step(None)[2]:
                    pass
        except (DependencyNotInstalled, ModuleNotFoundError) as error:
            raise SpecError(
                f"{error}. Install it with: pip install 'parallax-drl[video]'"
            ) from error
        (made,) = Path(scratch).glob("film/*.mp4")
        if not _is_whole_video(made.read_bytes()):  # ffmpeg's failures are not raised
            reason = getattr(find_write_error(made, 2**20), "strerror", "ffmpeg has failed")
            raise SpecError(f"{path} cannot be written: {reason}.")
        made.replace(path)
    return env.returns.tolist()


def _is_whole_video(content: bytes) -> bool:
    """Return whether an MP4 file ends with the list of its frames, which ffmpeg writes last."""
    at = content.rfind(b"moov") - 4
    return at >= 0 and at + int.from_bytes(content[at : at + 4], "big") == len(content)


class _SideBySideEnv(gymnasium.Env[Any, Any]):
    """Environment that steps all policies together; finished policies stand still."""

    render_mode = "rgb_array"

    def __init__(self, policies: Mapping[str, LoadedPolicy]) -> None:
        self._policies = dict(policies)
        spec = next(iter(policies.values())).spec
        options = spec.env_options | {"render_mode": self.render_mode}
        try:
            self._envs = [make_task_env(spec.env, **options) for _ in policies]
        except TaskError as error:
            raise SpecError(str(error)) from error
        fps = self._envs[0].metadata.get("render_fps") or 30
        self.metadata = {"render_modes": [self.render_mode], "render_fps": fps}
        self.observation_space = self._envs[0].observation_space
        self.action_space = self._envs[0].action_space
        self.returns = np.zeros(len(self._envs))
        self._steps, self._over = 0, np.zeros(len(self._envs), bool)
        self._seen: list[NDArray[Any]] = []
        self._lengths = np.zeros(len(self._envs), int)
        self._players = [policy.begin() for policy in policies.values()]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self._seen = [env.reset(seed=seed)[0] for env in self._envs]
        self._players = [policy.begin() for policy in self._policies.values()]
        return self._seen[0], {}

    def step(self, action: Any) -> Any:
        for i, (player, env) in enumerate(zip(self._players, self._envs, strict=True)):
            if self._over[i]:
                continue
            chosen = player(np.asarray(self._seen[i])[None])[0]
            self._seen[i], reward, terminated, truncated, _ = env.step(chosen)
            player.observe_rewards(np.array([reward]))
            self.returns[i] += float(reward)
            self._lengths[i] += 1
            self._over[i] = terminated or truncated
        return self._seen[0], 0.0, bool(self._over.all()), False, {}

    def render(self) -> Any:
        pictures = [self._draw(env) for env in self._envs]
        captions = [
            f"return {value:.5g} after {length} steps{' (over)' if over else ''}"
            for value, length, over in zip(self.returns, self._lengths, self._over, strict=True)
        ]
        titled = zip(pictures, self._policies, captions, strict=True)
        return _crop_to_even(np.concatenate([_add_title(*parts) for parts in titled], axis=1))

    def _draw(self, env: gymnasium.Env[Any, Any]) -> Frame:
        try:
            return np.asarray(env.render(), np.uint8)
        except DependencyNotInstalled:
            raise
        except Exception as error:  # libraries raise many kinds of errors without a screen
            name = env.spec.id if env.spec else "the task"
            raise SpecError(f"env={name} cannot be rendered ({error}). {_INSTALL_HINT}.") from error

    def close(self) -> None:
        for env in self._envs:
            env.close()


def _add_title(picture: Frame, *lines: str) -> Frame:
    """Return an image with a band of text above it."""
    from PIL import Image, ImageDraw, ImageFont

    band = Image.new("RGB", (picture.shape[1], _BAND), _DARK)
    pen = ImageDraw.Draw(band)
    for number, line in enumerate(lines):
        size = 14
        font = ImageFont.load_default(size)
        while size > 8 and pen.textlength(line, font=font) > band.width - 12:
            size -= 1
            font = ImageFont.load_default(size)
        pen.text((6, 2 + 18 * number), line, fill=_LIGHT, font=font)
    return np.concatenate([np.asarray(band, np.uint8), picture])


def _crop_to_even(picture: Frame) -> Frame:
    """Crop an odd last row or column, which H.264 does not support."""
    height, width = (size - size % 2 for size in picture.shape[:2])
    return picture[:height, :width]


def make_titles(policies: Sequence[LoadedPolicy]) -> dict[str, LoadedPolicy]:
    """Return policies by the shortest titles that are all different."""
    names = [
        [
            *(policy.spec.framework, policy.spec.algorithm, f"seed {policy.spec.seed}"),
            *(policy.spec.hps, policy.spec.variant, policy.spec.study, str(policy.folder)),
        ]
        for policy in policies
    ]
    for length in range(3, len(names[0]) + 1):
        titles = [" ".join(parts[:length]) for parts in names]
        if len(set(titles)) == len(titles):
            return dict(zip(titles, policies, strict=True))
    raise SpecError(f"{policies[0].folder} is named twice.")
