"""Mutation tests: originals and mutants of a study play in the scenarios of three test generators.

The generators are those of muPRL; they differ in the initial configurations of an agent. *Replay*
uses the configurations of the original's own training. *Weak* uses configurations in which
originals are safest. *Strong* uses configurations in which a predictor, trained on failures of the
mutant, expects it to fail. `MutationTest` plays all pairs of one setting and returns the outcomes.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import NO_INTERVENTION
from parallax.harness.interventions.user_faults import FAULT_OPERATORS
from parallax.harness.policies.loading import LoadedPolicy, load_policy
from parallax.harness.policy_tests.tasks import (
    Floats,
    PlayResult,
    PolicyTestTask,
    collect_start_configurations,
    find_test_task,
    play_configurations,
)
from parallax.harness.record.files import UnusableError, print_lines
from parallax.harness.record.layout import TRACE_FILE, find_runs
from parallax.harness.record.reading import check_recorded_file, read_run
from parallax.harness.record.run_json import RecordedSpec, RunRecord, describe_differing_versions
from parallax.harness.record.trace import read_metric

WEAK_CANDIDATES, WEAK_COUNT = 200, 50
STRONG_CANDIDATES, STRONG_COUNT = 500, 100
MIN_FAILURES, MAX_FAILURE_SHARE = 50, 0.9
"""Failures that a predictor needs; runs that fail more often than this share are left out."""

PlayFunction = Callable[[Floats], PlayResult]
_FREE_FIELDS = {"intervention", "seed", "study", "python", "checkpoint_every", "overridden"}
"""Fields of a specification in which a mutant and its original may differ."""


def generate_weak_tests(
    kind: PolicyTestTask, size: int, originals: Sequence[PlayFunction], seed: int
) -> Floats:
    """Return the configurations in which originals are safest, float[at most 50, size].

    Of 200 random ones it takes the 50 with the largest minimum quality of control. As in muPRL, a
    configuration with a positive quality in which half of the originals or more fail is left out.
    """
    candidates = kind.draw(np.random.default_rng(seed), WEAK_CANDIDATES, size)
    played = [play(candidates) for play in originals]
    quality = np.min([one.quality for one in played], axis=0)
    success = np.mean([one.success for one in played], axis=0)
    fitting = np.flatnonzero((quality <= 0) | (success > 0.5))
    return candidates[fitting[np.argsort(-quality[fitting], kind="stable")][:WEAK_COUNT]]


def collect_predictor_data(
    configurations: Sequence[Floats], failed: Sequence[NDArray[np.bool_]]
) -> tuple[Floats, NDArray[np.bool_]] | None:
    """Return training data of a predictor from replays of a mutant; None if there is too little.

    Args:
        configurations: Configurations of each run's replay, float[n, size].
        failed: Whether the mutant failed in each, bool[n].

    Returns:
        Features float[rows, size + 1], the last being the index of the run, and bool[rows].
    """
    usable = [
        (number, where, lost)
        for number, (where, lost) in enumerate(zip(configurations, failed, strict=True))
        if lost.mean() <= MAX_FAILURE_SHARE
    ]
    if not usable:
        return None
    features = np.concatenate([append_run_number(where, number) for number, where, _ in usable])
    lost = np.concatenate([lost for _, _, lost in usable])
    if lost.sum() < MIN_FAILURES or (~lost).sum() < 2:
        return None
    return features, lost


def append_run_number(configurations: Floats, number: int) -> Floats:
    """Return configurations with the index of a run as the last feature."""
    return np.column_stack([configurations, np.full(len(configurations), float(number))])


def generate_strong_tests(
    kind: PolicyTestTask, size: int, predict: Callable[[Floats], Floats], number: int, seed: int
) -> Floats:
    """Return configurations in which a predictor expects a run to fail, float[100, size].

    Each has the largest probability of failure among 500 random ones.

    Args:
        kind: Test description of the task.
        size: Length of a configuration.
        predict: Features to probabilities of failure.
        number: Index of the run.
        seed: Seed of the draws.
    """
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(STRONG_COUNT):
        candidates = kind.draw(generator, STRONG_CANDIDATES, size)
        found.append(candidates[int(np.argmax(predict(append_run_number(candidates, number))))])
    return np.array(found)


SCHEMA = 1
MUTATION_FILE = "mutation.json"
REPLAY_GENERATOR, WEAK_GENERATOR, STRONG_GENERATOR = "replay", "weak", "strong"


@dataclasses.dataclass(frozen=True)
class MutationTestSetting:
    """Setting that originals and mutants have in common."""

    env: str
    algorithm: str
    hps: str
    framework: str


@dataclasses.dataclass(frozen=True, order=True)
class MutantChange:
    """Change that makes a mutant.

    Attributes:
        operator: Mutation operator as in the paper (muPRL), or the name of another intervention.
        value: Value of the operator; None if it has none.
    """

    operator: str
    value: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class MutationTestStudy:
    """Complete runs of one setting.

    Attributes:
        setting: Their common setting.
        originals: Folders by seed.
        mutants: Folders by change and seed.
        hyperparameters: Hyperparameters of the originals, with their steps.
    """

    setting: MutationTestSetting
    originals: Mapping[int, Path]
    mutants: Mapping[MutantChange, Mapping[int, Path]]
    hyperparameters: Mapping[str, Any]

    @property
    def folders(self) -> list[Path]:
        """All run folders."""
        mutants = (folder for runs in self.mutants.values() for folder in runs.values())
        return [*self.originals.values(), *mutants]

    def count_pairs(self) -> int:
        """Return the number of mutants with an original of the same seed."""
        return sum(len(runs.keys() & self.originals.keys()) for runs in self.mutants.values())


def find_mutation_studies(root: Path) -> list[MutationTestStudy]:
    """Find all settings below a folder that have originals and mutants, and print unused runs.

    Runs without an intervention are originals, except those with fewer steps (operator NEI) and
    those without wrappers if others have them (operator MNO).

    Raises:
        SpecError: There is none.
    """
    unused: collections.Counter[str] = collections.Counter()
    runs: dict[MutationTestSetting, list[tuple[Path, RunRecord]]] = {}
    for folder in find_runs(root).runs:
        reading = read_run(folder)
        if reading.complete and reading.record is not None:
            spec = reading.record.spec
            key = MutationTestSetting(spec.task_name, spec.algorithm, spec.hps, spec.framework)
            runs.setdefault(key, []).append((folder, reading.record))
        else:
            unused[reading.reason] += 1
    print_lines(f"Not used: {count} runs: {reason}." for reason, count in unused.items())
    found = [
        study
        for key, members in sorted(runs.items(), key=str)
        if (study := _build_study(key, members))
    ]
    if not found:
        raise SpecError(
            f"{root}: no setting has complete runs both with and without a fault. "
            "Train some with: parallax train -m study=mutation"
        )
    return found


def _build_study(
    setting: MutationTestSetting, members: Sequence[tuple[Path, RunRecord]]
) -> MutationTestStudy | None:
    plain = [record.spec for _, record in members if record.spec.intervention == NO_INTERVENTION]
    if not plain:
        return None
    full_steps = max(spec.steps for spec in plain)
    are_normalized = any(spec.wrappers == "normalized" for spec in plain)
    originals: dict[int, Path] = {}
    mutants: dict[MutantChange, dict[int, Path]] = {}
    hyperparameters: dict[str, Any] = {}
    for folder, record in members:
        spec = record.spec
        change = _find_change(spec, full_steps, are_normalized)
        if change is None:
            hyperparameters = {**record.hyperparameters, "steps": spec.steps}
        runs = originals if change is None else mutants.setdefault(change, {})
        if spec.seed is None:
            raise SpecError(f"{folder} was imported without a seed and has no policy to test.")
        if spec.seed in runs:
            raise SpecError(
                f"{folder} and {runs[spec.seed]} are the same run with different options: "
                "give a folder that contains only one of them."
            )
        runs[spec.seed] = folder
    if not originals or not mutants:
        return None
    return MutationTestStudy(setting, originals, mutants, hyperparameters)


def _find_change(spec: RecordedSpec, full_steps: int, are_normalized: bool) -> MutantChange | None:
    """Return what makes a run a mutant, given steps and wrappers of originals; None for these."""
    if spec.intervention != NO_INTERVENTION:
        return parse_change(spec.intervention)
    if spec.steps < full_steps:
        return MutantChange("nei", float(spec.steps))
    if are_normalized and spec.wrappers == "none":
        return MutantChange("mno")
    return None


def check_comparable(study: MutationTestStudy, records: Mapping[Path, RunRecord]) -> None:
    """Refuse runs that differ from an original in more than their fault; print other versions.

    Raises:
        SpecError: A run, of which `records` has the record by folder, differs in more.
    """
    usual = records[next(iter(study.originals.values()))].spec
    members = dict.fromkeys(study.originals.values()) | {
        folder: change for change, runs in study.mutants.items() for folder in runs.values()
    }
    for folder, change in members.items():
        spec = records[folder].spec
        fault = {MutantChange("nei", float(spec.steps)): "steps", MutantChange("mno"): "wrappers"}
        _check_settings(folder, spec, usual, fault.get(change, "") if change else "")
    if text := describe_differing_versions(records[each].provenance for each in members):
        place = study.setting
        print_lines([f"{place.framework} {place.algorithm} {place.env}: {text}"])


def _check_settings(folder: Path, spec: RecordedSpec, usual: RecordedSpec, fault: str) -> None:
    """Refuse a run that differs from an original in more than one field, its fault."""
    found, others = (_collect_settings(one) for one in (spec, usual))
    for name in sorted(found.keys() | others.keys()):
        value, other = found.get(name), others.get(name)
        if name != fault and value != other:
            raise SpecError(
                f"{folder} has {name}={str(value)[:100]}, and its originals {str(other)[:100]}: "
                "their difference would count as the fault's. Give a folder without this run."
            )


def _collect_settings(spec: RecordedSpec) -> dict[str, Any]:
    fields = msgspec.structs.asdict(spec)
    settings = {**fields.pop("hyperparameters"), **fields}
    return {name: value for name, value in settings.items() if name not in _FREE_FIELDS}


def parse_change(name: str) -> MutantChange:
    """Parse the name of an intervention: `sdf-0.9` is the operator SDF with the value 0.9.

    Raises:
        SpecError: The value of an operator is not a number.
    """
    operator, _, value = name.partition("-")
    if operator not in FAULT_OPERATORS or "+" in name:
        return MutantChange(name)
    try:
        return MutantChange(operator, float(value) if value else None)
    except ValueError:
        raise SpecError(f"intervention={name}: {value} is not a number. Omit the run.") from None


@dataclasses.dataclass(frozen=True)
class MutationTestOptions:
    """Options of a mutation test.

    Attributes:
        replay: Largest number of training configurations to replay.
    """

    replay: int = 200
    seed: int = 0


class MutationTest:
    """Mutation test of one setting, which loads each agent once."""

    def __init__(
        self,
        study: MutationTestStudy,
        options: MutationTestOptions,
        report: Callable[[str], object],
    ) -> None:
        """Load the originals, whose code the user trusts, and collect their training starts.

        Raises:
            SpecError: The task is not known, or a run has no policy.
        """
        self._study, self._options, self._report = study, options, report
        self._kind: PolicyTestTask = find_test_task(study.setting.env)
        agents = {
            seed: load_policy(folder, trust=True)
            for seed, folder in sorted(study.originals.items())
        }
        self._size = self._kind.size(next(iter(agents.values())).env.unwrapped)
        self._replays = {
            seed: self._collect_training_starts(agent) for seed, agent in agents.items()
        }
        self._originals = {seed: self._make_player(agent) for seed, agent in agents.items()}
        self._weak = generate_weak_tests(
            self._kind, self._size, list(self._originals.values()), options.seed
        )
        self._played: dict[tuple[str, int], NDArray[np.bool_]] = {}

    def results(self) -> dict[str, Any]:
        """Return the outcomes of all pairs as plain data."""
        return {
            **dataclasses.asdict(self._study.setting),
            "originals": sorted(self._study.originals),
            "steps": self._study.hyperparameters["steps"],
            "mutants": [
                self._test_mutant(change) for change in sorted(self._study.mutants, key=str)
            ],
        }

    def _test_mutant(self, change: MutantChange) -> dict[str, Any]:
        self._report(f"{change.operator} {'' if change.value is None else change.value}".strip())
        folders = self._study.mutants[change]
        seeds = sorted(folders.keys() & self._originals.keys())
        agents = {seed: self._make_player(load_policy(folders[seed], trust=True)) for seed in seeds}
        replay = {seed: agents[seed](self._replays[seed]).success for seed in seeds}
        tests: dict[str, Any] = {
            REPLAY_GENERATOR: self._pair_outcomes(seeds, self._replays, replay, REPLAY_GENERATOR),
            WEAK_GENERATOR: self._test_weak(seeds, agents),
            STRONG_GENERATOR: self._test_strong(change, seeds, agents, replay),
        }
        field = FAULT_OPERATORS[change.operator].field if change.operator in FAULT_OPERATORS else ""
        field = field or ("steps" if change.operator == "nei" else "")
        original = self._study.hyperparameters.get(field)
        return {
            "operator": change.operator,
            "value": change.value,
            "original_value": original if isinstance(original, int | float) else None,
            "trained": sorted(folders),
            "seeds": seeds,
            "tests": tests,
        }

    def _test_weak(
        self, seeds: Sequence[int], agents: Mapping[int, PlayFunction]
    ) -> dict[str, Any]:
        if not len(self._weak):
            return {
                "why_not": "in every configuration half of the originals or more fail, although "
                "none of them loses control before"
            }
        played = {seed: agents[seed](self._weak).success for seed in seeds}
        return self._pair_outcomes(seeds, dict.fromkeys(seeds, self._weak), played, WEAK_GENERATOR)

    def _test_strong(
        self,
        change: MutantChange,
        seeds: Sequence[int],
        agents: Mapping[int, PlayFunction],
        replay: Mapping[int, NDArray[np.bool_]],
    ) -> dict[str, Any]:
        learned = collect_predictor_data(
            [self._replays[s] for s in seeds], [~replay[s] for s in seeds]
        )
        if learned is None:
            return {
                "why_not": f"fewer than {MIN_FAILURES} failures of mutants that fail in at most "
                f"{MAX_FAILURE_SHARE:.0%} of the replay: too few to train a predictor"
            }
        from parallax.harness.policy_tests.failure_predictor import train_predictor  # PyTorch

        layers = 2 if "CartPole" in self._study.setting.env else 3
        predictor = train_predictor(*learned, layers, self._options.seed)
        chosen = {
            seed: generate_strong_tests(
                self._kind, self._size, predictor, number, self._options.seed + number
            )
            for number, seed in enumerate(seeds)
        }
        played = {seed: agents[seed](chosen[seed]).success for seed in seeds}
        outcomes = self._pair_outcomes(seeds, chosen, played, f"{STRONG_GENERATOR} {change}")
        return {**outcomes, "predictor_accuracy": predictor.accuracy}

    def _pair_outcomes(
        self,
        seeds: Sequence[int],
        configurations: Mapping[int, Floats],
        mutant: Mapping[int, NDArray[np.bool_]],
        name: str,
    ) -> dict[str, Any]:
        for seed in seeds:
            if (name, seed) not in self._played:
                self._played[name, seed] = self._originals[seed](configurations[seed]).success
        return {
            "original": [self._played[name, seed].astype(int).tolist() for seed in seeds],
            "mutant": [mutant[seed].astype(int).tolist() for seed in seeds],
        }

    def _make_player(self, agent: LoadedPolicy) -> PlayFunction:
        env = self._study.setting.env
        if agent.is_recurrent:
            raise SpecError(
                f"{agent.folder}: its policy is recurrent, and mutation tests need policies "
                "without memory. Test agents of another algorithm."
            )
        return lambda configurations: play_configurations(self._kind, env, agent, configurations)

    def _collect_training_starts(self, agent: LoadedPolicy) -> Floats:
        if agent.spec.n_envs != 1:
            raise SpecError(
                f"{agent.folder}: n_envs={agent.spec.n_envs} mixes episodes of parallel "
                "environments. Train with n_envs=1."
            )
        try:
            check_recorded_file(read_run(agent.folder), TRACE_FILE)
            _, lengths = read_metric(agent.folder / TRACE_FILE, "episode/length")
        except UnusableError as error:
            raise SpecError(f"{agent.folder}: {error}. Train the run again.") from error
        wanted = lengths[: self._options.replay - 1].astype(int).tolist()
        return collect_start_configurations(agent.env, self._kind, wanted)
