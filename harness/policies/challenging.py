"""Plays originals and mutants of a study against three test generators, pair by pair."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract.fields import SpecError
from harness.contract.run_spec import NO_INTERVENTION
from harness.interventions.faults import FAULTS
from harness.policies.configurations import Floats, Played, Tested, kind_of, play, starts
from harness.policies.generators import FEWEST_FAILURES, MOST_FAILING, lessons, strong, weak
from harness.policies.loading import LoadedPolicy, load
from harness.record.layout import TRACE_FILE, find_runs
from harness.record.reading import read_run
from harness.record.run_json import Record
from harness.record.trace import values

SCHEMA = 1
FILE = "mutation.json"
REPLAY, WEAK, STRONG = "replay", "weak", "strong"


@dataclasses.dataclass(frozen=True)
class Setting:
    """What originals and mutants have in common."""

    env: str
    algorithm: str
    hps: str
    framework: str


@dataclasses.dataclass(frozen=True, order=True)
class Change:
    """What a mutant's configuration is.

    Attributes:
        operator: As in the paper; the name of another intervention.
        value: That it has; None where it has none.
    """

    operator: str
    value: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Study:
    """Complete runs of one setting.

    Attributes:
        setting: What they have in common.
        originals: Folders by seed.
        mutants: Folders by change and seed.
        hyperparameters: Of the originals, with their steps.
    """

    setting: Setting
    originals: Mapping[int, Path]
    mutants: Mapping[Change, Mapping[int, Path]]
    hyperparameters: Mapping[str, Any]


def studies(root: Path) -> list[Study]:
    """Every setting below a folder that has originals and mutants.

    Runs without an intervention are originals, but for those of fewer steps (NEI), and those
    without wrappers where others have them (MNO).

    Raises:
        SpecError: There is none.
    """
    runs: dict[Setting, list[tuple[Path, Record]]] = {}
    for folder in find_runs(root).runs:
        reading = read_run(folder)
        if reading.complete and reading.record is not None:
            spec = reading.record.spec
            key = Setting(spec.env, spec.algorithm, spec.hps, spec.framework)
            runs.setdefault(key, []).append((folder, reading.record))
    found = [
        study for key, members in sorted(runs.items(), key=str) if (study := _study(key, members))
    ]
    if not found:
        raise SpecError(
            f"{root}: no setting has complete runs both as they are and with a fault. "
            "parallax train -m study=mutation trains some."
        )
    return found


def _study(setting: Setting, members: Sequence[tuple[Path, Record]]) -> Study | None:
    plain = [record.spec for _, record in members if record.spec.intervention == NO_INTERVENTION]
    if not plain:
        return None
    steps = max(spec.steps for spec in plain)
    wrapped = any(spec.wrappers == "normalized" for spec in plain)
    originals: dict[int, Path] = {}
    mutants: dict[Change, dict[int, Path]] = {}
    hyperparameters: dict[str, Any] = {}
    for folder, record in members:
        spec = record.spec
        change: Change | None
        if spec.intervention != NO_INTERVENTION:
            change = change_of(spec.intervention)
        elif spec.steps < steps:
            change = Change("nei", float(spec.steps))
        elif wrapped and spec.wrappers == "none":
            change = Change("mno")
        else:
            change = None
            hyperparameters = {**record.hyperparameters, "steps": spec.steps}
        runs = originals if change is None else mutants.setdefault(change, {})
        if spec.seed in runs:
            raise SpecError(
                f"{folder} and {runs[spec.seed]} are the same run of one study with other options: "
                "name a folder that holds one of them."
            )
        runs[spec.seed] = folder
    return Study(setting, originals, mutants, hyperparameters) if originals and mutants else None


def change_of(name: str) -> Change:
    """What an intervention's name says: `sdf-0.9` is the operator SDF with 0.9."""
    operator, _, value = name.partition("-")
    if operator not in FAULTS:
        return Change(name)
    return Change(operator, float(value) if value else None)


@dataclasses.dataclass(frozen=True)
class Options:
    """How agents are played.

    Attributes:
        replay: Configurations of the training that are played again, at most.
        seed: Of what generators draw.
    """

    replay: int = 200
    seed: int = 0


class Challenge:
    """One setting's agents, each loaded once."""

    def __init__(self, study: Study, options: Options, tell: Callable[[str], object]) -> None:
        """Loads the originals and finds what they were trained on.

        Raises:
            SpecError: The task is not known, or a run has no policy.
        """
        self._study, self._options, self._tell = study, options, tell
        self._kind: Tested = kind_of(study.setting.env)
        agents = {seed: load(folder) for seed, folder in sorted(study.originals.items())}
        self._size = self._kind.size(next(iter(agents.values())).env)
        self._replays = {seed: self._training(agent) for seed, agent in agents.items()}
        self._originals = {seed: self._player(agent) for seed, agent in agents.items()}
        self._weak = weak(self._kind, self._size, list(self._originals.values()), options.seed)
        self._played: dict[tuple[str, int], NDArray[np.bool_]] = {}

    def results(self) -> dict[str, Any]:
        """What came of every pair, as plain data."""
        return {
            **dataclasses.asdict(self._study.setting),
            "originals": sorted(self._study.originals),
            "steps": self._study.hyperparameters["steps"],
            "mutants": [self._mutant(change) for change in sorted(self._study.mutants, key=str)],
        }

    def _mutant(self, change: Change) -> dict[str, Any]:
        self._tell(f"{change.operator} {'' if change.value is None else change.value}".strip())
        folders = self._study.mutants[change]
        seeds = sorted(folders.keys() & self._originals.keys())
        agents = {seed: self._player(load(folders[seed])) for seed in seeds}
        replay = {seed: agents[seed](self._replays[seed]).success for seed in seeds}
        tests: dict[str, Any] = {
            REPLAY: self._pairs(seeds, self._replays, replay, REPLAY),
            WEAK: self._safest(seeds, agents),
            STRONG: self._strong(change, seeds, agents, replay),
        }
        field = FAULTS[change.operator].field if change.operator in FAULTS else ""
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

    def _safest(
        self, seeds: Sequence[int], agents: Mapping[int, Callable[[Floats], Played]]
    ) -> dict[str, Any]:
        if not len(self._weak):
            return {
                "why_not": "in every configuration half of the originals or more fail, though "
                "none of them loses control on the way"
            }
        played = {seed: agents[seed](self._weak).success for seed in seeds}
        return self._pairs(seeds, dict.fromkeys(seeds, self._weak), played, WEAK)

    def _strong(
        self,
        change: Change,
        seeds: Sequence[int],
        agents: Mapping[int, Callable[[Floats], Played]],
        replay: Mapping[int, NDArray[np.bool_]],
    ) -> dict[str, Any]:
        learned = lessons([self._replays[s] for s in seeds], [~replay[s] for s in seeds])
        if learned is None:
            return {
                "why_not": f"fewer than {FEWEST_FAILURES} failures of mutants that fail in at most "
                f"{MOST_FAILING:.0%} of the replay, so that there is nothing to learn from"
            }
        from harness.policies.predictor import learn  # PyTorch

        layers = 2 if "CartPole" in self._study.setting.env else 3
        predictor = learn(*learned, layers, self._options.seed)
        chosen = {
            seed: strong(self._kind, self._size, predictor, number, self._options.seed + number)
            for number, seed in enumerate(seeds)
        }
        played = {seed: agents[seed](chosen[seed]).success for seed in seeds}
        told = self._pairs(seeds, chosen, played, f"{STRONG} {change}")
        return {**told, "predictor_accuracy": predictor.accuracy}

    def _pairs(
        self,
        seeds: Sequence[int],
        configurations: Mapping[int, Floats],
        mutant: Mapping[int, NDArray[np.bool_]],
        name: str,
    ) -> dict[str, Any]:
        for seed in seeds:
            if (name, seed) not in self._played:
                success = self._originals[seed](configurations[seed]).success
                self._played[name, seed] = success
        return {
            "original": [self._played[name, seed].astype(int).tolist() for seed in seeds],
            "mutant": [mutant[seed].astype(int).tolist() for seed in seeds],
        }

    def _player(self, agent: LoadedPolicy) -> Callable[[Floats], Played]:
        env = self._study.setting.env
        if agent.remembers:
            raise SpecError(
                f"{agent.folder}: its policy remembers what it has seen of an episode, and "
                "configurations are played without memory. Challenge agents of another algorithm."
            )
        return lambda configurations: play(self._kind, env, agent, configurations)

    def _training(self, agent: LoadedPolicy) -> Floats:
        if agent.spec.n_envs != 1:
            raise SpecError(
                f"{agent.folder}: n_envs={agent.spec.n_envs} begins episodes of several copies; "
                "a replay is of trainings with n_envs=1."
            )
        _, lengths = values(agent.folder / TRACE_FILE, "episode/length")
        wanted = lengths[: self._options.replay - 1].astype(int).tolist()
        return starts(agent.env, self._kind, wanted)
