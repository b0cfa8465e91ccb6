"""Rates of the diagnosis for five classes of faults: how many it finds and names.

    python benchmarks/diagnosis_classes.py measure --keep FOLDER     trainings; skips those it has
    python benchmarks/diagnosis_classes.py report --keep FOLDER      counts, with intervals

A fault is *found* if the training with it has an error or a warning of a check that none of the
healthy trainings of the same implementation has, or if it is refused before it starts. It is
*named* if one of the class's own checks is among them (`CLASSES`), or the refusal names the
setting. Both were written down before the first measurement.
"""

import argparse
import collections
import contextlib
import dataclasses
import importlib
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium

from benchmarks.diagnosis_runs import FRAMEWORKS, TASKS, train_with_diagnosis

os.environ.setdefault("JAX_PLATFORMS", "cpu")

ALGORITHMS = ("ppo", "td3", "dqn", "sac")
STEPS = {"ppo": 1600, "dqn": 1300}
PERIOD, LATE_PERIOD = 60, 1000
"""Environment steps between checks; the second is longer than until the first updates."""
RATES = ("learning_rate", "policy_learning_rate", "critic_learning_rate")
STEP_OF_NAN = 350
"""Step of each environment whose reward is NaN: after learning began."""
ENTROPY_WEIGHT = 0.05
"""Weight of PPO's entropy, in healthy trainings too: at 0 its sign has no effect."""


@dataclasses.dataclass(frozen=True)
class FaultClass:
    """One class of faults.

    Attributes:
        words: The class in words.
        named_by: Checks that name it.
        setting: Name of the setting that a refusal must mention; empty if none is expected.
        algorithms: Algorithms that it is planted into.
        changes: Changed settings, by algorithm; `""` is for the others.
        period: Steps between checks.
    """

    words: str
    named_by: frozenset[str]
    setting: str = ""
    algorithms: tuple[str, ...] = ("ppo", "td3", "dqn")
    changes: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)
    period: int = PERIOD


def _set_rates(rate: float) -> dict[str, dict[str, Any]]:
    return {"": dict.fromkeys(RATES, rate)}


def _set_wrapper(name: str) -> dict[str, dict[str, Any]]:
    return {"": {"env_wrappers": (f"benchmarks.diagnosis_classes:{name}",)}}


_HIGH_RATE = frozenset({"learning-rate-too-high"})
CLASSES = {
    "entropy-sign": FaultClass(
        "entropy with the wrong sign in the policy's loss",
        frozenset(
            {"entropy-drop", "entropy-rises", "low-initial-entropy", "entropy-bonus-has-wrong-sign"}
        ),
        algorithms=("ppo", "sac"),
    ),
    "diverges-early": FaultClass(
        "losses diverge before the first check (rewards of 1e25)",
        frozenset({"loss-diverges", "not-a-number", "vanishing-or-exploding-gradients"}),
        changes=_set_wrapper("HugeRewards"),
        period=LATE_PERIOD,
    ),
    "nan": FaultClass(
        "one reward is NaN", frozenset({"not-a-number"}), changes=_set_wrapper("OneNaNReward")
    ),
    "never-learns": FaultClass(
        "learning never begins: learning_starts (PPO: rollout_steps) is as long as the run",
        frozenset({"weights-not-updated"}),
        setting="learning_starts|rollout_steps",
        changes={
            "ppo": {"rollout_steps": 3200},
            "td3": {"learning_starts": 1200},
            "dqn": {"learning_starts": 1300},
        },
    ),
    "rate-0.5": FaultClass("learning rates of 0.5", _HIGH_RATE, changes=_set_rates(0.5)),
    "rate-0.02": FaultClass("learning rates of 0.02", _HIGH_RATE, changes=_set_rates(0.02)),
}

ENTROPY_SEGMENTS: dict[tuple[str, str], tuple[str, str, str, str]] = {
    # framework, algorithm: module, function, text, replacement
    ("sb3", "ppo"): (
        "stable_baselines3.ppo.ppo",
        "PPO.train",
        "policy_loss + self.ent_coef * entropy_loss",
        "policy_loss - self.ent_coef * entropy_loss",
    ),
    ("cleanrl", "ppo"): (
        "cleanrl.ppo_continuous_action",
        "",
        "pg_loss - args.ent_coef * entropy_loss",
        "pg_loss + args.ent_coef * entropy_loss",
    ),
    ("torchrl", "ppo"): (
        "torchrl.objectives.ppo",
        "PPOLoss._weighted_loss_entropy",
        "return -self.entropy_coeff * entropy",
        "return self.entropy_coeff * entropy",
    ),
    ("tianshou", "ppo"): (
        "tianshou.algorithm.modelfree.ppo",
        "PPO._update_with_batch",
        "- self.ent_coef * ent_loss",
        "+ self.ent_coef * ent_loss",
    ),
    ("skrl", "ppo"): (
        "skrl.agents.torch.ppo.ppo",
        "PPO.update",
        "entropy_loss = -self.cfg.entropy_loss_scale *",
        "entropy_loss = self.cfg.entropy_loss_scale *",
    ),
    ("sbx", "ppo"): (
        "sbx.ppo.ppo",
        "PPO._one_update",
        "total_policy_loss = policy_loss + ent_coef * entropy_loss",
        "total_policy_loss = policy_loss - ent_coef * entropy_loss",
    ),
    ("sb3", "sac"): (
        "stable_baselines3.sac.sac",
        "SAC.train",
        "(ent_coef * log_prob - min_qf_pi).mean()",
        "(-ent_coef * log_prob - min_qf_pi).mean()",
    ),
    ("cleanrl", "sac"): (
        "cleanrl.sac_continuous_action",
        "",
        "((alpha * log_pi) - min_qf_pi).mean()",
        "((-alpha * log_pi) - min_qf_pi).mean()",
    ),
    ("torchrl", "sac"): (
        "torchrl.objectives.sac",
        "SACLoss.actor_loss",
        "self._alpha * log_prob - min_q_logprob",
        "-self._alpha * log_prob - min_q_logprob",
    ),
    ("tianshou", "sac"): (
        "tianshou.algorithm.modelfree.sac",
        "SAC._update_with_batch",
        "self.alpha.value * obs_result.log_prob.flatten() - torch.min",
        "-self.alpha.value * obs_result.log_prob.flatten() - torch.min",
    ),
    ("skrl", "sac"): (
        "skrl.agents.torch.sac.sac",
        "SAC.update",
        "self._entropy_coefficient * log_prob - torch.min(critic_1_values, critic_2_values)",
        "-self._entropy_coefficient * log_prob - torch.min(critic_1_values, critic_2_values)",
    ),
    ("sbx", "sac"): (
        "sbx.sac.sac",
        "SAC.update_actor",
        "(ent_coef_value * log_prob - min_qf_pi).mean()",
        "(-ent_coef_value * log_prob - min_qf_pi).mean()",
    ),
}
"""The sign of the entropy in each framework's own code."""


class HugeRewards(gymnasium.RewardWrapper[Any, Any]):
    """Multiplies rewards by 1e25, whose square is no float32 number."""

    def reward(self, reward: Any) -> float:
        """Return the reward, much larger."""
        return float(reward) * 1e25


class OneNaNReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Returns NaN as the reward of one step."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._steps = 0

    def step(self, action: Any) -> Any:
        """Take a step; the reward of step `STEP_OF_NAN` is NaN."""
        observation, reward, *rest = self.env.step(action)
        self._steps += 1
        return observation, float("nan") if self._steps == STEP_OF_NAN else reward, *rest


def main() -> None:
    """Measure or report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["measure", "report"])
    parser.add_argument("--keep", type=Path, default=Path("results/diagnosis-classes"))
    parser.add_argument("--seeds", type=int, default=3, help="healthy trainings of each")
    parser.add_argument("--frameworks", nargs="*", default=FRAMEWORKS)
    parser.add_argument("--algorithms", nargs="*", default=ALGORITHMS)
    parser.add_argument("--classes", nargs="*", default=["healthy", *CLASSES])
    options = parser.parse_args()
    if options.what == "report":
        print_report(options.keep)
        return
    import torch

    torch.set_num_threads(1)
    options.keep.mkdir(parents=True, exist_ok=True)
    for key in list_trainings(options):
        measure_training(key, options.keep)


Key = tuple[str, str, str, int]
"""Class (or `healthy`), framework, algorithm and seed."""


def list_trainings(options: argparse.Namespace) -> list[Key]:
    """Return all trainings: first one of each, then the further healthy ones."""
    found: list[Key] = []
    for seed in range(options.seeds):
        for algorithm in options.algorithms:
            for framework in options.frameworks:
                for name in options.classes:
                    planted = name != "healthy"
                    if planted and (seed or algorithm not in CLASSES[name].algorithms):
                        continue
                    found.append((name, framework, algorithm, seed))
    return found


def measure_training(key: Key, folder: Path) -> None:
    """Train once and store the findings, unless they are there."""
    from parallax.harness.contract.fields import SpecError

    name, framework, algorithm, seed = key
    path = folder / ("-".join(map(str, key)) + ".json")
    if path.exists():
        return
    fault = CLASSES.get(name)
    changes = {"ent_coef": ENTROPY_WEIGHT}
    if fault:
        changes |= fault.changes.get(algorithm, fault.changes.get("", {}))
    task = TASKS["discrete" if algorithm == "dqn" else "continuous"][0]
    begun = time.process_time()
    content: dict[str, Any] = {"findings": {}, "refusal": "", "failure": ""}
    plant: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if name == "entropy-sign":
        plant = plant_entropy_sign(framework, algorithm)
    elif fault and fault.setting:
        plant = leave_warm_up()
    with tempfile.TemporaryDirectory() as results, plant:
        try:
            run, report = train_with_diagnosis(
                *(framework, algorithm, task, seed, Path(results), "on"),
                steps=STEPS.get(algorithm, 1200),
                period=fault.period if fault else PERIOD,
                changes=changes,
            )
            content["failure"] = str(run["failure"] or "")
            content["problems"] = report["problems"] if report else "no diagnosis.json"
            content["findings"] = {
                one["id"]: [one["level"], one["first_step"], one["seen"]]
                for one in (report["findings"] if report else [])
            }
        except SpecError as error:
            content["refusal"] = str(error)
    content["seconds"] = round(time.process_time() - begun, 1)
    path.write_text(json.dumps(content, indent=1) + "\n")
    loud = [n for n, (level, *_) in content["findings"].items() if level != "note"]
    end = (content["refusal"] or content["failure"]).partition("\n")[0][:120]
    print(*key, f"{content['seconds']} s:", ", ".join(loud), "|", end, flush=True)


@contextlib.contextmanager
def plant_entropy_sign(framework: str, algorithm: str) -> Iterator[None]:
    """Train with the entropy's sign changed in upstream's code, besides a run's own changes."""
    from parallax.harness.interventions.source import SourceReplacement, SourceSegment

    run: Any = importlib.import_module("parallax.harness.train.run")
    planted = SourceSegment(*ENTROPY_SEGMENTS[framework, algorithm])
    before = run.make_replacement
    run.make_replacement = lambda items: SourceReplacement(
        [planted, *(segment for item in items for segment in item.source)]
    )
    try:
        yield
    finally:
        run.make_replacement = before


@contextlib.contextmanager
def leave_warm_up() -> Iterator[None]:
    """Leave a warm-up as long as it is set, which short trainings otherwise shorten."""
    import support

    before = support.shorten_warm_up
    support.shorten_warm_up = lambda requested, steps: requested
    try:
        yield
    finally:
        support.shorten_warm_up = before


def print_report(folder: Path) -> None:
    """Print both rates, and what was said about each fault."""
    stored = {}
    for path in sorted(folder.glob("*.json")):
        name, framework, algorithm, seed = path.stem.rsplit("-", 3)
        stored[name, framework, algorithm, int(seed)] = json.loads(path.read_text())
    healthy = {key: value for key, value in stored.items() if key[0] == "healthy"}
    _print_false_positives(healthy)
    usual: dict[tuple[str, str], set[str]] = collections.defaultdict(set)
    for (_, framework, algorithm, _), content in healthy.items():
        usual[framework, algorithm] |= _list_loud(content)
    total = collections.Counter[str]()
    for name, fault in CLASSES.items():
        counts = collections.Counter[str]()
        for (which, framework, algorithm, _), content in stored.items():
            if which != name:
                continue
            new = _list_loud(content) - usual[framework, algorithm]
            refused = any(word in content["refusal"] for word in fault.setting.split("|") if word)
            named = bool(new & fault.named_by) or refused
            found = bool(new) or bool(content["refusal"])
            counts.update(n=1, found=int(found), named=int(named))
            verdict = "named" if named else "found" if found else "MISSED"
            if verdict != "named":
                said = content["refusal"] or ", ".join(sorted(new)) or content["failure"]
                print(f"    {verdict} {name} {framework} {algorithm}: {said[:150]}")
        total += counts
        print(f"{name}: {fault.words}: {_format_counts(counts)}")
    print(f"all: {_format_counts(total)}")


def _list_loud(content: dict[str, Any]) -> set[str]:
    return {name for name, (level, *_) in content["findings"].items() if level != "note"}


def _print_false_positives(healthy: dict[Key, dict[str, Any]]) -> None:
    n = len(healthy)
    for level in ("error", "warning"):
        hit = [
            (key, name)
            for key, content in healthy.items()
            for name, (at, *_) in content["findings"].items()
            if at == level
        ]
        runs = len({key for key, _ in hit})
        low, high = compute_wilson_interval(runs, n)
        print(f"healthy: {runs} of {n} with {level}s ({low:.1%} to {high:.1%})")
        for key, name in hit:
            print(f"    {name}: {' '.join(map(str, key[1:]))}")
    ended = [key for key, content in healthy.items() if content["failure"] or content["refusal"]]
    print(f"healthy: {len(ended)} of {n} failed or were refused {ended or ''}")


def _format_counts(counts: collections.Counter[str]) -> str:
    parts = [f"{counts['n']} planted"]
    for what in ("found", "named"):
        low, high = compute_wilson_interval(counts[what], counts["n"])
        parts.append(f"{counts[what]} {what} ({low:.0%} to {high:.0%})")
    return ", ".join(parts)


def compute_wilson_interval(hits: int, n: int) -> tuple[float, float]:
    """Return the 95% Wilson interval of a share."""
    if not n:
        return 0.0, 1.0
    z, p = 1.959964, hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
    return max(middle - half, 0.0), min(middle + half, 1.0)


if __name__ == "__main__":
    main()
