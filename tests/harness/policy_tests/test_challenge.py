"""Test generators of muPRL: configurations, quality of control, and what is chosen."""

import dataclasses
import json
import types

import numpy as np
import pytest
import recorded
import support

from parallax.envs.make import make_training_env
from parallax.envs.tasks import make_task_env
from parallax.harness.cli.main import main
from parallax.harness.contract.fields import SpecError
from parallax.harness.policies.loading import load_policy
from parallax.harness.policy_tests import challenge
from parallax.harness.policy_tests.challenge import (
    STRONG_COUNT,
    WEAK_COUNT,
    MutantChange,
    MutationTestSetting,
    MutationTestStudy,
    collect_predictor_data,
    generate_strong_tests,
    generate_weak_tests,
    parse_change,
)
from parallax.harness.policy_tests.tasks import (
    PlayResult,
    collect_start_configurations,
    find_test_task,
    play_configurations,
)
from parallax.harness.record.reading import read_run
from parallax.harness.record.trace import read_metric

CARTPOLE, LANDER, PARKING = map(find_test_task, ("CartPole-v1", "LunarLander-v3", "parking-v0"))


def upright(observations):
    """Pushes where the pole falls: survives from every usual start."""
    lean = observations[:, 2] + 0.5 * observations[:, 3] + 0.1 * observations[:, 1]
    return (lean + 0.05 * observations[:, 0] > 0).astype(int)


def left(observations):
    return np.zeros(len(observations), int)


def test_balancing_agent_succeeds_and_passive_agent_fails():
    where = CARTPOLE.draw(np.random.default_rng(0), 5, 4)
    assert where.shape == (5, 4) and np.abs(where).max() <= 0.05
    good, bad = (
        play_configurations(CARTPOLE, "CartPole-v1", policy, where) for policy in (upright, left)
    )
    assert good.success.all() and (good.quality > 0).all()
    assert not bad.success.any() and (bad.quality < 0).all()


def test_quality_of_control_is_the_remaining_margin():
    env = make_training_env("CartPole-v1", wrappers="none", gamma=1, before_step=lambda: None)
    env.reset(seed=0)
    CARTPOLE.begin(env.unwrapped, np.array([1.2, 0, 0, 0]))
    assert CARTPOLE.quality(env.unwrapped) == pytest.approx(0.5)
    CARTPOLE.begin(env.unwrapped, np.array([0, 0, np.radians(9), 0]))
    assert CARTPOLE.quality(env.unwrapped) == pytest.approx(0.25)


def test_a_replay_begins_where_episodes_of_a_training_began():
    def made():
        env = make_training_env("CartPole-v1", wrappers="none", gamma=1, before_step=lambda: None)
        return env, env.reset(seed=3)[0]

    env, first = made()
    seen = [first]
    for _ in range(3):
        ended = False
        while not ended:
            _, _, ended, _, _ = env.step(0)
        seen.append(env.reset()[0])
    again, _ = made()
    assert np.allclose(collect_start_configurations(again, CARTPOLE, [9, 9, 9]), seen)


class TestLander:
    """LunarLander: the terrain and the push of a reset are scripted, and read back."""

    @pytest.fixture(autouse=True)
    def _needs_box2d(self):
        pytest.importorskip("Box2D")

    @staticmethod
    def apply_replacement():
        return make_task_env("LunarLander-v3", disable_env_checker=True)

    def test_a_reset_is_read_and_begun_again(self):
        env, other = self.apply_replacement(), self.apply_replacement()
        env.reset(seed=1)
        env.step(2)
        seen, _ = env.reset()  # not the first one of its generator
        found = LANDER.read(env.unwrapped)
        other.reset(seed=7)
        assert np.array_equal(LANDER.begin(other, found), seen)
        assert other.unwrapped.sky_polys == env.unwrapped.sky_polys
        low, high = (LANDER.draw(np.random.default_rng(0), 500, 9)).min(0), found
        assert low.shape == high.shape == (9,) and low[7] < -900 and low[:7].min() >= 0

    def test_a_replay_begins_where_episodes_of_a_training_began(self):
        env, again = self.apply_replacement(), self.apply_replacement()
        env.reset(seed=3)
        again.reset(seed=3)
        begun, lengths = [LANDER.read(env.unwrapped)], []
        for action in (0, 2):  # engines that fire need the numbers that all steps draw
            lengths.append(0)
            ended = False
            while not ended:
                _, _, ended, _, _ = env.step(action)
                lengths[-1] += 1
            env.reset()
            begun.append(LANDER.read(env.unwrapped))
        assert np.array_equal(collect_start_configurations(again, LANDER, lengths), begun)

    def test_uncontrolled_lander_crashes(self):
        where = LANDER.draw(np.random.default_rng(0), 2, 9)
        fallen = play_configurations(LANDER, "LunarLander-v3", left, where)
        assert not fallen.success.any() and (fallen.quality == 0).all()

    def test_well_steered_lander_lands(self):
        from gymnasium.envs.box2d.lunar_lander import heuristic

        where = LANDER.draw(np.random.default_rng(0), 3, 9)

        one = self.apply_replacement()

        def steered(observations):
            return [heuristic(one, observation) for observation in observations]

        landed = play_configurations(LANDER, "LunarLander-v3", steered, where)
        assert landed.success.any() and (landed.quality[landed.success] > 0).all()


class TestParking:
    """highway-env's parking, which shows its dictionary flat."""

    @pytest.fixture(autouse=True)
    def _needs_highway_env(self):
        pytest.importorskip("highway_env")

    def test_a_reset_is_read_and_begun_again(self):
        env, other = make_task_env("parking-v0"), make_task_env("parking-v0")
        seen, _ = env.reset(seed=1)
        found = PARKING.read(env.unwrapped)
        other.reset(seed=2)
        assert np.allclose(PARKING.begin(other, found), seen)
        assert seen.shape == (18,) and 0 <= found[0] < 28 and found[2:].tolist() == [0, 0]
        drawn = PARKING.draw(np.random.default_rng(0), 200, 4)
        assert drawn[:, 0].max() == 18 and np.all(drawn.max(0)[1:] <= [1, 10, 5])

    def test_car_succeeds_in_its_bay_with_higher_quality_if_sooner(self):
        goal = np.array([3.0, 0.25, 0.0, 0.0])
        env = make_task_env("parking-v0")
        env.reset(seed=0)
        PARKING.begin(env.unwrapped, goal)
        assert PARKING.quality(env.unwrapped) == 1 and not PARKING.reached(env.unwrapped)
        env.unwrapped.vehicle.position = env.unwrapped.vehicle.goal.position.copy()
        env.unwrapped.vehicle.heading = env.unwrapped.vehicle.goal.heading
        _, _, ended, _, _ = env.step(np.zeros(2, np.float32))
        assert ended and PARKING.reached(env.unwrapped)
        assert PARKING.quality(env.unwrapped) == pytest.approx(0.99)

    def test_stationary_car_runs_out_of_time(self, monkeypatch):
        brief = dataclasses.replace(PARKING, steps=4)
        where = PARKING.draw(np.random.default_rng(0), 1, 4)
        played = play_configurations(
            brief, "parking-v0", lambda seen: np.zeros((len(seen), 2)), where
        )
        assert not played.success.any() and played.quality == pytest.approx([0.96])


def test_passive_humanoid_falls_and_quality_is_its_height():
    kind = find_test_task("Humanoid-v5")
    env = make_task_env("Humanoid-v5", disable_env_checker=True)
    seen, _ = env.reset(seed=0)
    task = env.unwrapped
    where = kind.read(task)
    assert np.allclose(kind.begin(task, where), seen) and kind.quality(task) == pytest.approx(
        0.4, 0.1
    )
    played = play_configurations(
        kind, "Humanoid-v5", lambda seen: np.zeros((len(seen), 17)), where[None]
    )
    assert not played.success[0] and played.quality[0] < 0


def test_weak_generator_selects_the_safest_states_of_originals():
    def original(offset):
        return lambda c: PlayResult(c[:, 1] < offset, 1 - np.abs(c[:, 0]) / 0.05)

    chosen = generate_weak_tests(
        CARTPOLE, 4, [original(0.05), original(0.05), original(0.0)], seed=0
    )
    assert len(chosen) == WEAK_COUNT
    every = CARTPOLE.draw(np.random.default_rng(0), 200, 4)
    assert np.abs(chosen[:, 0]).max() < np.quantile(np.abs(every[:, 0]), 0.3)
    # What looks safe and fails for half of the originals or more is not taken.
    chosen = generate_weak_tests(CARTPOLE, 4, [original(0.05), original(-1)], seed=0)
    assert len(chosen) == 0

    def lost(c):  # a fall, of which the quality tells
        return PlayResult(np.zeros(len(c), bool), -np.abs(c[:, 0]))

    chosen = generate_weak_tests(CARTPOLE, 4, [original(0.05), original(0.05), lost], seed=0)
    assert len(chosen) == WEAK_COUNT
    assert np.abs(chosen[:, 0]).max() < np.quantile(np.abs(every[:, 0]), 0.3)


def test_runs_that_nearly_always_fail_train_no_predictor():
    where = [np.zeros((60, 4))] * 2
    failed = [np.ones(60, bool), np.arange(60) < 54]
    features, lost = collect_predictor_data(where, failed)
    assert features.shape == (60, 5) and set(features[:, -1]) == {1.0} and lost.sum() == 54
    assert collect_predictor_data(where, [np.ones(60, bool)] * 2) is None
    assert (
        collect_predictor_data(where, [np.arange(60) < 20] * 2) is None
    )  # 40 failures are too few


def test_predictor_guides_the_strong_generator_to_failures(monkeypatch):
    from parallax.harness.policy_tests import failure_predictor as network
    from parallax.harness.policy_tests.failure_predictor import train_predictor

    monkeypatch.setattr(network, "EPOCHS", 60)
    monkeypatch.setattr(network, "RATE", 3e-3)
    generator = np.random.default_rng(0)
    where = CARTPOLE.draw(generator, 400, 4)
    failed = where[:, 2] > 0.02
    learned = collect_predictor_data([where[:200], where[200:]], [failed[:200], failed[200:]])
    predictor = train_predictor(*learned, layers=2, seed=0)
    chosen = generate_strong_tests(CARTPOLE, 4, predictor, number=1, seed=0)
    assert len(chosen) == STRONG_COUNT and (chosen[:, 2] > 0.02).mean() > 0.95
    assert predictor.accuracy > 0.8


@pytest.mark.parametrize("framework", ["cleanrl", pytest.param("sb3", marks=pytest.mark.long)])
def test_a_replay_of_a_run_begins_where_its_episodes_began(framework, tmp_path, monkeypatch):
    from gymnasium.envs.classic_control.cartpole import CartPoleEnv

    begun, reset = [], CartPoleEnv.reset

    def watched(self, **arguments):
        found = reset(self, **arguments)
        begun.append(self.state)
        return found

    spec = support.spec(
        framework,
        "dqn",
        hyperparameters={"learning_starts": 500, "buffer_size": 1000},
        env="CartPole-v1",
        **{"steps": 300, "eval_every": 300, "eval_episodes": 1, "alignment": "common"},
    )
    monkeypatch.setattr(CartPoleEnv, "reset", watched)
    folder, run = support.run(spec, tmp_path)
    assert run["status"] == "completed", run["failure"]
    monkeypatch.undo()
    agent, (_, lengths) = (
        load_policy(folder),
        read_metric(folder / "trace.parquet", "episode/length"),
    )
    assert len(lengths) > 5
    (folder / "trace.parquet").write_bytes(b"PAR1")
    test = types.SimpleNamespace(_options=challenge.MutationTestOptions())
    with pytest.raises(SpecError, match=r"seed=.*: corrupted trace.parquet.* Train the run again"):
        challenge.MutationTest._collect_training_starts(test, agent)
    assert np.array_equal(
        collect_start_configurations(agent.env, CARTPOLE, lengths), begun[: len(lengths) + 1]
    )


@pytest.mark.long
def test_parallel_settings_are_played_as_sequential_ones(tmp_path):
    for hps, name in (
        ("original", "none"),
        ("original", "sdf-0.9"),
        ("zoo", "none"),
        ("zoo", "srs-10"),
    ):
        spec = support.spec(
            "cleanrl",
            "dqn",
            hyperparameters={"learning_starts": 500, "buffer_size": 1000},
            **{"env": "CartPole-v1", "hps": hps, "intervention": name, "alignment": "common"},
            **{"steps": 200, "eval_every": 200, "eval_episodes": 1},
        )
        assert support.run(spec, tmp_path)[1]["status"] == "completed"
    written = []
    for jobs in ("1", "2"):
        output = tmp_path / f"{jobs}.json"
        words = [
            str(tmp_path),
            "--replay-configurations",
            "3",
            "--jobs",
            jobs,
            "--output",
            str(output),
        ]
        assert main(["mutation", "test", *words]) == 0
        written.append(json.loads(output.read_text()))
    assert written[0] == written[1]
    assert [item["mutants"][0]["operator"] for item in written[0]["settings"]] == ["sdf", "srs"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--jobs", "0"], "--jobs: '0' must be from 1 to 1024, or -1"),
        (["--jobs", "1000000"], "--jobs: '1000000' must be from 1 to 1024, or -1"),
        (["--seed", "-1"], "--seed: '-1' must be from 0 to"),
        (["--replay-configurations", "0"], "'0' must be from 1 to 1000"),
    ],
)
def test_numbers_out_of_bounds_are_refused(words, message, tmp_path, capsys):
    assert main(["mutation", "test", str(tmp_path), *words]) == 2
    assert message in capsys.readouterr().err


def test_too_many_pairs_are_refused_before_playing(tmp_path, monkeypatch, capsys):
    runs = dict.fromkeys(range(1334), tmp_path)
    setting = MutationTestSetting("CartPole-v1", "dqn", "zoo", "sb3")
    study = MutationTestStudy(setting, runs, {MutantChange("nrs"): runs}, {})
    assert dataclasses.replace(study, originals={0: tmp_path}).count_pairs() == 1
    monkeypatch.setattr(challenge, "find_mutation_studies", lambda root: [study])
    assert main(["mutation", "test", str(tmp_path)]) == 2
    assert "4,002 pairs, at most 4,000: name a study." in capsys.readouterr().err


def test_a_run_without_an_adapter_is_refused(tmp_path, capsys):
    for name in ("none", "sdf-0.9"):
        folder = recorded.complete_run(tmp_path, env="CartPole-v1", intervention=name)
        content = json.loads((folder / "run.json").read_text())
        del content["adapter"]
        content.pop("checksum", None)
        (folder / "run.json").write_text(json.dumps(content))
    assert main(["mutation", "test", str(tmp_path)]) == 2
    assert "has no policy: " in capsys.readouterr().err


def find_comparable_studies(root):
    studies = challenge.find_mutation_studies(root)
    for study in studies:
        challenge.check_comparable(study, {each: read_run(each).record for each in study.folders})
    return studies


def test_mutants_that_differ_in_more_than_their_fault_are_refused(tmp_path):
    for steps in (2, 3):  # the shorter originals are mutants of NEI
        recorded.complete_run(tmp_path, steps, env="CartPole-v1")
    (study,) = find_comparable_studies(tmp_path)
    assert list(study.mutants) == [MutantChange("nei", 4096.0)]
    recorded.complete_run(tmp_path, env="CartPole-v1", intervention="sdf-0.9")
    (study,) = find_comparable_studies(tmp_path)
    assert MutantChange("sdf", 0.9) in study.mutants
    recorded.complete_run(tmp_path, 2, env="CartPole-v1", intervention="sdf-0.45")
    with pytest.raises(SpecError, match=r"steps=4096, and its originals 6144: .* without this run"):
        find_comparable_studies(tmp_path)


def test_runs_that_mutation_tests_leave_out_are_printed(tmp_path, capsys):
    for name in ("none", "sdf-0.9", "sdf-0.45"):
        folder = recorded.complete_run(tmp_path, env="CartPole-v1", intervention=name)
    recorded.edit(folder, status="failed", failure="it diverged")
    find_comparable_studies(tmp_path)
    assert "Not used: 1 runs: " in capsys.readouterr().out


def test_different_versions_of_originals_and_mutants_are_printed(tmp_path, capsys):
    folders = [
        recorded.complete_run(tmp_path, env="CartPole-v1", intervention=name)
        for name in ("none", "sdf-0.9")
    ]
    for versions, text in ((("1", "1"), ""), (("1", "2"), "different versions of torch 1 and 2.")):
        for folder, version in zip(folders, versions, strict=True):
            recorded.edit(folder, provenance={"packages": {"torch": version, "numpy": "2"}})
        find_comparable_studies(tmp_path)
        printed = capsys.readouterr().out.strip()
        assert printed.endswith(text) and bool(printed) == bool(text)


def test_tasks_without_a_test_definition_are_refused():
    with pytest.raises(
        SpecError, match=r"env=Pendulum-v1: .* CartPole, Humanoid, Hopper, LunarLander, parking"
    ):
        find_test_task("Pendulum-v1")
    assert find_test_task("Hopper-v5").steps == 200


def test_names_of_interventions_are_operators_and_values():
    assert parse_change("sdf-0.9") == MutantChange("sdf", 0.9) and parse_change(
        "nrs"
    ) == MutantChange("nrs")
    assert parse_change("mutant-022") == MutantChange("mutant-022")
    assert parse_change("sdf-0.9+nrs") == MutantChange("sdf-0.9+nrs")
    with pytest.raises(
        SpecError, match=r"^intervention=sdf-abc: abc is not a number. Omit the run"
    ):
        parse_change("sdf-abc")
