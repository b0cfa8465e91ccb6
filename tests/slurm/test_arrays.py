import functools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import spec

from parallax.harness.contract.fields import SpecError
from parallax.slurm.arrays import divide_limit, plan_arrays
from parallax.slurm.settings import load_settings, parse_time
from parallax.slurm.submit import render_scripts


@functools.cache
def a_spec(algorithm, seed):
    return spec(algorithm=algorithm, hps="sb3", seed=seed)


def runs(**counts):
    return [
        (a_spec(algorithm, seed), Path(f"{algorithm}-{seed}"))
        for algorithm, count in counts.items()
        for seed in range(count)
    ]


@given(st.integers(0, 50), st.lists(st.integers(1, 30), min_size=1, max_size=8))
def test_shares_add_up_to_the_limit_and_are_positive(limit, sizes):
    shares = divide_limit(limit, sizes)
    assert all(1 <= part <= size for part, size in zip(shares, sizes, strict=True))
    if limit:
        assert sum(shares) == min(max(limit, len(sizes)), sum(sizes))
    else:
        assert shares == sizes


@settings(deadline=None)  # the first example loads the recipes
@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 12))
def test_every_run_is_in_one_job_and_no_array_is_too_large(count, together, size):
    wanted = load_settings("default", {"runs_per_job": together})
    arrays = plan_arrays(runs(ppo=count, sac=3), wanted, size)
    placed = [folder for array in arrays for element in array.elements for folder in element]
    assert sorted(placed) == sorted(folder for _, folder in runs(ppo=count, sac=3))
    for array in arrays:
        assert 1 <= len(array.elements) <= size
        assert all(1 <= len(element) <= together for element in array.elements)
        assert len({folder.name.partition("-")[0] for e in array.elements for folder in e}) == 1


def test_algorithms_have_the_times_of_the_thesis():
    arrays = plan_arrays(runs(ppo=1, td3=1, sac=1), load_settings("default", {}), 10)
    assert [array.resources.minutes / 60 for array in arrays] == [24, 48, 72]
    assert {(array.resources.mem_gb, array.resources.cpus) for array in arrays} == {(4, 1)}


def test_actors_have_cores_besides_the_learner():
    two = spec("torchrl", "r2d2", "cpu", n_envs=2, actors=2, threads=3)
    (array,) = plan_arrays([(two, Path("two"))], load_settings("default", {}), 10)
    assert array.resources.cpus == 5


def test_jobs_of_several_runs_have_the_time_of_each_run():
    wanted = load_settings("default", {"runs_per_job": 3, "time": {"ppo": "0:10:00"}})
    assert plan_arrays(runs(ppo=5), wanted, 10)[0].resources.minutes == 30


def test_command_line_overrides_the_profile_and_the_profile_defaults(tmp_path):
    profile = tmp_path / "mine.yaml"
    profile.write_text("partition: long\nmem_gb: 8\ntime: {sac: '4-00:00:00'}\nsbatch: {nice: 5}\n")
    loaded = load_settings(str(profile), {"mem_gb": 2.5, "partition": None, "sbatch": {"x": 1}})
    assert (loaded.partition, loaded.mem_gb) == ("long", 2.5)
    assert (loaded.get_minutes("sac"), loaded.get_minutes("td3")) == (96 * 60, 48 * 60)
    assert loaded.sbatch == {"nice": 5, "x": 1}
    assert load_settings("example", {}).account == "my-group"


def test_script_has_the_options_of_the_profile():
    example = load_settings("example", {"runs_per_job": 2})
    (array,) = plan_arrays(runs(ppo=4), example, 10)
    (script,) = render_scripts(Path("/results/mine"), [array], example)
    for line in (
        "#SBATCH --account=my-group",
        "#SBATCH --array=0-1%2",
        "#SBATCH --constraint='skylake|cascadelake'",
        "#SBATCH --mail-type=FAIL",
        "#SBATCH --time=2880",
        "module load Python/3.11",
        "#SBATCH --signal=USR2@120",
    ):
        assert f"\n{line}\n" in script


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("partitoin: long", "partitoin"),
        ("mem_gb: -1", "mem_gb"),
        ("time: {ppo: 24}", "must be 'HH:MM:SS'"),
        ("time: 24", "must hold settings as"),
        ("- a", "must hold settings"),
        ("a: [", "the profile is not valid YAML"),
    ],
)
def test_bad_profile_is_refused_by_name(tmp_path, text, words):
    profile = tmp_path / "bad.yaml"
    profile.write_text(text)
    with pytest.raises(SpecError, match=words):
        load_settings(str(profile), {})


def test_unknown_profile_error_lists_the_existing_ones():
    with pytest.raises(SpecError, match="Known: default, example"):
        load_settings("nowhere", {})


def test_times_are_parsed_as_by_slurm():
    assert parse_time("1-02:03:04") == ((24 + 2) * 60 + 3) * 60 + 4
    with pytest.raises(SpecError, match="more than nothing"):
        parse_time("00:00:00")
