"""Actors of R2D2 in separate processes, by TorchRL's asynchronous collector."""

import contextlib
import copy
import ctypes
import functools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase
from tensordict.nn import TensorDictModuleBase, TensorDictSequential
from torch import nn
from torchrl.collectors import MultiAsyncCollector
from torchrl.envs import Compose, EnvBase, Transform, TransformedEnv
from torchrl.weight_update import SharedMemWeightSyncScheme

from parallax.adapters.torchrl.loop import make_envs, seed_generators
from parallax.harness.contract.events import TrainingError

WAIT_SECONDS = 300.0
"""Seconds without a step of any actor after which a run fails."""
_FIRST_ENV = "first_env"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class StepLabel(TensorDictModuleBase):  # type: ignore[misc]
    """Labels each step with its environments and the update that the parameters were of.

    The number of the update is a buffer, and arrives with the parameters.
    """

    def __init__(self, first_env: int, version: int) -> None:
        self.in_keys, self.out_keys = ["is_init"], [_FIRST_ENV, "version"]
        super().__init__()
        self._first_env = first_env
        self.register_buffer("version", torch.tensor(version))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add the labels."""
        shape = (*tensordict.shape, 1)
        tensordict.set(_FIRST_ENV, torch.full(shape, self._first_env))
        return tensordict.set("version", self.version.expand(shape).clone())


class ActorProcesses:
    """Processes that step equal shares of the environments while the learner updates.

    They are forked: environments need not be serialized. Each environment is stepped by one of
    them, and its steps are reported here, through the copy that stays behind.
    """

    def __init__(
        self,
        hooks: Sequence[Any],
        actors: int,
        explorer: TensorDictSequential,
        settings: Mapping[str, Any],
        transforms: Sequence[Transform],
        safe_point: Callable[[], None],
        start: tuple[int, int] = (0, 0),
    ) -> None:
        """Start the processes, each with new episodes.

        Args:
            hooks: All environments.
            actors: Number of processes.
            explorer: The actors' network, and an exploration with an epsilon per environment.
            settings: Native settings.
            transforms: Transforms of the environments.
            safe_point: Called before each wait for steps.
            start: Steps that have been taken, fewer than there are to be, and the number of updates
                that the network's parameters are of.

        Raises:
            TrainingError: One does not start, or wrappers hide what the task itself reports.
        """
        if not all(hasattr(hook, "replay") for hook in hooks):
            raise TrainingError(
                f"actors={actors} takes no wrappers around training environments alone. "
                "Use actors=1."
            )
        self._hooks, steps, version = hooks, *start
        self._safe_point, self._threads = safe_point, torch.get_num_threads()
        self._collector: Any = None
        share = len(hooks) // actors
        firsts = range(0, len(hooks), share)
        # Among the actors' data, the queue holds what the learner takes next. A collector whose
        # queue is full for a second would drop its steps, so that each waits for its turn.
        self._turn = turn = multiprocessing.get_context("fork").Semaphore(1)
        envs = [hooks[first : first + share] for first in firsts]
        # A resumed run must not repeat the episodes of its start.
        seeds = np.random.SeedSequence((settings["seed"], steps)).generate_state(actors)
        with self._limit_wait(), _fork_processes():
            self._collector = MultiAsyncCollector(
                [
                    functools.partial(_make_actor_env, own, transforms, int(seed))
                    for own, seed in zip(envs, seeds, strict=True)
                ],
                policy_factory=[
                    functools.partial(_make_policy, explorer, version, first, share)
                    for first in firsts
                ],
                frames_per_batch=settings["Collector.frames_per_batch"] // actors,
                total_frames=settings["Collector.total_frames"] - steps,
                device="cpu",
                storing_device="cpu",
                num_threads=self._threads,
                # Without waiting for an answer, which a dead process never gives.
                weight_sync_schemes={"policy": SharedMemWeightSyncScheme(sync=False)},
                init_fn=functools.partial(_start_actor, os.getpid()),
                post_collect_hook=lambda data: turn.acquire() and None,
                auto_register_policy_transforms=False,
            )

    def __iter__(self) -> Iterator[tuple[int, TensorDictBase]]:
        """Yield the first environment of an actor and its steps, and report these.

        Raises:
            TrainingError: An actor has ended, or none sends steps.
        """
        batches = iter(self._collector)
        while True:
            self._safe_point()
            with self._limit_wait():
                data = next(batches, None)
            if data is None:
                return
            self._turn.release()
            first = int(data[_FIRST_ENV].flatten()[0])
            self._report(first, data if data.ndim == 2 else data.unsqueeze(0))
            yield first, data

    def send_parameters(self, network: nn.Module, updates: int) -> None:
        """Write the network's parameters after `updates` into the memory of all actors."""
        own = TensorDict.from_module(network).data
        label = TensorDict({"version": torch.tensor(updates)})
        parts = TensorDict({"module": TensorDict({"0": label, "1": own})})
        self._collector.update_policy_weights_(parts)

    def close(self) -> None:
        """End the processes."""
        for process in self._collector.procs:
            with contextlib.suppress(ValueError):  # which the collector has closed
                process.kill()
        self._collector.shutdown(raise_on_error=False)
        torch.set_num_threads(self._threads)

    def _report(self, first: int, data: TensorDictBase) -> None:
        actions, after = data["action"].argmax(-1).numpy(), data["next"]
        observations, rewards, terminated, truncated = (
            after[name].numpy() for name in ("observation", "reward", "terminated", "truncated")
        )
        starts = data["is_init"].numpy()
        for t in range(data.shape[1]):
            for env in range(len(data)):
                at = env, t
                ends = bool(terminated[at].item()), bool(truncated[at].item())
                step = actions[at], observations[at], rewards[at].item(), *ends
                self._hooks[first + env].replay(bool(starts[at].item()), *step)

    @contextlib.contextmanager
    def _limit_wait(self) -> Iterator[None]:
        """Raise an error that names an ended actor; end all actors that send nothing."""
        before, silent = set(multiprocessing.active_children()), threading.Event()

        def end_actors() -> None:
            silent.set()
            for process in {*multiprocessing.active_children()} - before | set(self._processes):
                with contextlib.suppress(ValueError):
                    process.kill()

        timer = threading.Timer(WAIT_SECONDS, end_actors)
        timer.daemon = True
        timer.start()
        try:
            yield
        except BaseException as error:  # also a stop of the run: Python would wait for them
            reason = f"no actor sent steps for {WAIT_SECONDS:g} s" if silent.is_set() else ""
            reason = reason or self._describe_dead()
            end_actors()
            if reason and isinstance(error, Exception):
                raise TrainingError(f"{reason}. The same command resumes the run.") from error
            raise
        finally:
            timer.cancel()

    @property
    def _processes(self) -> Sequence[Any]:
        return getattr(self._collector, "procs", ())

    def _describe_dead(self) -> str:
        found = []
        for number, process in enumerate(self._processes):
            with contextlib.suppress(ValueError):  # the collector ended it because of another one
                if (code := process.exitcode) is not None:
                    found.append((code == -signal.SIGTERM, number, process.pid, code))
        if not found:
            return ""
        _, number, pid, code = min(found)
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
        return f"actor {number} of {len(self._processes)} (process {pid}) {how}"


@contextlib.contextmanager
def _fork_processes() -> Iterator[None]:
    """Let TorchRL fork, which it does where the global start method says so."""
    before = torch.multiprocessing.get_start_method(allow_none=True)
    torch.multiprocessing.set_start_method("fork", force=True)
    try:
        yield
    finally:
        torch.multiprocessing.set_start_method(before, force=True)


def _start_actor(learner: int) -> None:
    """End with the learner, however that ends, and leave the handling of signals to it."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != learner:
        os._exit(1)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both


def _make_actor_env(envs: Sequence[Any], transforms: Sequence[Transform], seed: int) -> EnvBase:
    for hook in envs:
        hook.silence()
    seed_generators(seed)
    queue = iter(envs)
    env = TransformedEnv(make_envs(lambda: next(queue), len(envs)), Compose(*transforms))
    env.set_seed(seed)
    return env


def _make_policy(
    explorer: TensorDictSequential, version: int, first: int, share: int
) -> TensorDictSequential:
    network, exploration = copy.deepcopy(explorer)
    own = exploration.eps[first : first + share].clone()
    exploration.eps = own if share > 1 else own[0]
    return TensorDictSequential(StepLabel(first, version), network, exploration)
