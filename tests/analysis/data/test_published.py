import collections
import hashlib
import itertools
import math
import shutil

import gymnasium
import numpy as np
import pytest
from loops import iterate_some

from parallax.analysis.data import published
from parallax.analysis.data.published import (
    find_reproduction_targets,
    get_reference_score,
    list_tables,
    read_table,
)
from parallax.analysis.verdicts.reproduction import moments_from_published
from parallax.analysis.verdicts.study import group_published_scores

FRAMEWORKS = ("sb3", "cleanrl", "torchrl")
CONFIGURATIONS = (*FRAMEWORKS, "original")


def thesis():
    return read_table("thesis_tables")


def cell(algorithm, env, hps, framework):
    (row,) = (
        row
        for row in thesis()
        if (row.algorithm, row.env, row.hps, row.framework) == (algorithm, env, hps, framework)
    )
    return row.mean, row.spread


def test_thesis_tables_are_complete():
    rows = thesis()
    assert len(rows) == 288
    keys = {(row.algorithm, row.env, row.hps, row.framework) for row in rows}
    envs = {row.env for row in rows}
    assert len(envs) == 8
    assert keys == set(itertools.product(("ppo", "td3", "sac"), envs, CONFIGURATIONS, FRAMEWORKS))
    assert {(row.trials, row.steps, row.version) for row in rows} == {(5, 3_000_000, "v4")}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("ppo", "HalfCheetah", "sb3", "sb3"), (2241.9, 873.1)),
        (("ppo", "Reacher", "original", "torchrl"), (-5.6, 1.3)),
        (("td3", "InvertedPendulum", "sb3", "sb3"), (800.6, 349.6)),
        (("td3", "Swimmer", "cleanrl", "cleanrl"), (135.6, 2.2)),
        (("sac", "HalfCheetah", "cleanrl", "sb3"), (15949.7, 133.7)),
        (("sac", "InvertedDoublePendulum", "original", "torchrl"), (7492.8, 3268.3)),
    ],
)
def test_cells_are_at_the_positions_of_the_thesis(key, value):
    assert cell(*key) == value


def test_the_recovered_deviation_of_four_good_seeds_and_one_bad_one():
    row = next(row for row in thesis() if (row.mean, row.spread) == (800.6, 349.6))
    scores = np.array([1000.0, 1000, 1000, 1000, 3])
    found = moments_from_published(row)
    assert float(found.mean) == pytest.approx(scores.mean())
    assert float(found.sd) == pytest.approx(scores.std(ddof=1), abs=0.2)


@pytest.mark.parametrize(("env", "top"), [("InvertedPendulum", 1000.0), ("Hopper", 6000.0)])
def test_recovered_deviations_are_possible_for_the_range_of_returns(env, top):
    """Population variance is at most (top - mean)(mean - 0): Bhatia and Davis 2000."""
    for row in iterate_some(thesis()):
        if row.env != env:
            continue
        n = row.trials
        lowest = (row.spread - 0.05) * math.sqrt(n) / 1.96
        mean = min(row.mean + 0.05, top)
        assert lowest**2 <= (top - mean + 0.1) * mean + 1e-9, row


def test_the_targets_are_the_eighteen_of_the_thesis():
    rows = read_table("thesis_targets")
    assert collections.Counter(row.algorithm for row in rows) == {"ppo": 7, "td3": 7, "sac": 4}
    assert {row.version for row in rows if row.algorithm != "sac"} == {"v1"}


@pytest.mark.parametrize("name", list_tables())
def test_every_row_has_a_source_and_plausible_values(name):
    rows = read_table(name)
    assert rows
    keys = [
        (row.algorithm, row.env, row.version, row.hps, row.framework, row.source, row.statistic)
        for row in rows
    ]
    assert len(set(keys)) == len(keys)
    for row in rows:
        assert row.source
        assert row.statistic or row.note
        assert math.isfinite(row.mean)
        assert math.isnan(row.spread) or (row.spread >= 0 and row.trials >= 2)
        assert row.steps > 0 or row.algorithm in ("random", "do_nothing")


def test_every_cell_of_the_thesis_has_a_reference_score():
    for row in iterate_some(thesis()):
        found = get_reference_score(row.algorithm, f"{row.env}-v4")
        assert found is not None
        assert "Table 9" not in found[1]


def find_newest_task(name):
    return max(
        (spec for spec in gymnasium.registry.values() if spec.name == name),
        key=lambda spec: spec.version or 0,
    )


@pytest.mark.parametrize("name", sorted(published._SOLVED_SCORES))
def test_tasks_are_solved_at_gymnasiums_thresholds(name):
    spec = find_newest_task(name)
    score, source = published.get_solved_score(spec.id)
    if "gymnasium" in source:
        assert score == spec.reward_threshold
    else:
        assert (spec.reward_threshold, score) == (None, -150.0)
    assert published.get_solved_score(f"{name}Unknown-v1") is None


def test_bounds_of_returns_follow_from_gymnasiums_rewards():
    found = {
        name: published.get_return_bounds(find_newest_task(name).id)
        for name in published._RETURN_BOUNDS
    }
    for name, most in (("InvertedPendulum", 1), ("CartPole", 1), ("InvertedDoublePendulum", 10)):
        assert found.pop(name) == (0, most * find_newest_task(name).max_episode_steps)
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset()
    env.state = np.array([math.pi, env.max_speed])
    _, reward, *_ = env.step(np.array([env.max_torque]))
    steps = find_newest_task("Pendulum").max_episode_steps
    assert found.pop("Pendulum") == (pytest.approx(steps * reward), 0.0)
    assert found == {"Reacher": (-math.inf, 0.0)}
    assert published.get_return_bounds("Ant-v4") == (-math.inf, math.inf)


def test_targets_hold_for_the_hyperparameters_that_they_were_reached_with():
    names = {row.table for row in find_reproduction_targets("td3", "Hopper-v4", "original", "sb3")}
    assert {"thesis_targets", "td3_paper", "thesis_tables"} <= names
    assert "cleanrl" not in names
    assert {
        row.table for row in find_reproduction_targets("td3", "Hopper-v4", "cleanrl", "sb3")
    } == {*("cleanrl", "thesis_tables")}
    own = find_reproduction_targets("td3", "Hopper-v4", "sb3", "torchrl")
    assert [(row.table, row.framework) for row in own] == [("thesis_tables", "torchrl")]


def test_the_tables_make_288_groups_with_sizes():
    groups = group_published_scores("thesis_tables")
    assert len(groups) == 288
    assert {(group.n, group.requested, group.rounding) for group in groups} == {(5, 5, 0.05)}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("ppo,Hopper,v4,,x,,10,abc,,,3,s,", "line 2: mean='abc' is not a number"),
        ("ppo,Hopper,v4,,x,,10,1,2,,3,s,", "line 2: spread_kind='' does not fit spread='2'"),
        ("ppo,Hopper,v4,,x,,10,1,2,se,3,s,", "spread_kind='se'"),
    ],
)
def test_a_row_that_cannot_be_read_names_file_line_and_field(tmp_path, monkeypatch, row, message):
    header = (published.FOLDER / "thesis_tables.csv").read_text().splitlines()[0]
    (tmp_path / "broken.csv").write_text(f"{header}\n{row}\n")
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"broken\.csv") as raised:
        read_table("broken")
    assert message in str(raised.value)


@pytest.fixture
def copied(tmp_path, monkeypatch):
    folder = shutil.copytree(published.FOLDER, tmp_path / "published")
    monkeypatch.setattr(published, "FOLDER", folder)
    return folder


def test_every_table_is_the_one_that_was_released(recwarn):
    """After a change on purpose run what the warning says."""
    files = list(published.FOLDER.rglob("*.csv"))
    for path in files:
        published.read_csv_rows(path.relative_to(published.FOLDER).with_suffix("").as_posix())
    assert len(files) > 10 and not [str(one.message) for one in recwarn]


def test_changed_digit_is_not_used_without_a_warning(copied):
    file = copied / "cleanrl.csv"
    file.write_text(file.read_text().replace("1", "2", 1))
    with pytest.warns(UserWarning, match=r"cleanrl\.csv is not the table that was released"):
        published.read_csv_rows("cleanrl")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(",mean,", ",means,"), "columns must be"),
        (lambda text: text + "one,cell\n", "not as many cells as columns"),
        (lambda text: text + '"open', "is not a table|not as many cells"),
        (lambda text: text + "\0", "is not a table|not as many cells"),
        (lambda text: text[: text.rindex("\n", 0, -1)] + "\n" + "," * 20 + "\n", "not as many"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is not the table")
def test_damaged_table_is_one_message(copied, change, message):
    file = copied / "cleanrl.csv"
    file.write_text(change(file.read_text()))
    with pytest.raises(published.PublishedTableError, match=message):
        read_table.__wrapped__("cleanrl")


@pytest.mark.parametrize("text", ["nan", "inf", "1e999", "9" * 5000, "=1+1"])
@pytest.mark.filterwarnings("ignore:.*is not the table")
def test_invalid_number_is_named_by_line_and_field(copied, text):
    file = copied / "cleanrl.csv"
    head, first, *rest = file.read_text().splitlines()
    cells = first.split(",")
    cells[head.split(",").index("mean")] = text
    file.write_text("\n".join([head, ",".join(cells), *rest]) + "\n")
    with pytest.raises(published.PublishedTableError, match=r"cleanrl\.csv, line 2: mean="):
        read_table.__wrapped__("cleanrl")


def test_a_table_may_have_four_mebibytes_and_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    row = b"x" * 4093 + b",y\n"
    whole = b"a,b\n" + row[4:] + row * 1023
    assert len(whole) == 2**22
    (tmp_path / "whole.csv").write_bytes(whole)
    (tmp_path / "large.csv").write_bytes(whole.replace(b"a", b"aa", 1))
    (tmp_path / "SHA256SUMS").write_text(
        "".join(
            f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
            for path in sorted(tmp_path.glob("*.csv"))
        )
    )
    assert len(published.read_csv_rows("whole")) == 1024
    with pytest.raises(published.PublishedTableError, match=r"large.csv"):
        published.read_csv_rows("large")


@pytest.mark.parametrize(
    ("env", "parts"),
    [
        ("Hopper-v4", ("Hopper", "v4")),
        ("ALE/Pong-v5", ("ALE/Pong", "v5")),
        ("A-v1-v12", ("A-v1", "v12")),
        ("Pendulum-v1,g=9.81", ("Pendulum-v1,g=9.81", "")),
        ("Hopper", ("Hopper", "")),
        ("-v1", ("-v1", "")),
    ],
)
def test_version_is_the_suffix_of_a_task_name(env, parts):
    assert published.split_version(env) == parts


@pytest.mark.parametrize(
    ("table", "find"),
    [("random", published.get_random_score), ("do_nothing", published.get_do_nothing_score)],
)
def test_policies_without_training_are_found_by_version_or_else_by_task(table, find):
    rows = read_table(table)
    for row in iterate_some(rows):
        env = f"{row.env}-{row.version}"
        assert find(env) == (row.mean, row.source) and published.is_version_published(table, env)
    first = next(row for row in rows if row.env == "Hopper")
    assert find("Hopper-v99") == (first.mean, first.source)
    assert not published.is_version_published(table, "Hopper-v99")
    assert find("Unknown-v1") is None


def test_best_score_is_of_any_table_and_top_score_published_or_solved():
    rows = [row for name in list_tables() for row in read_table(name)]
    best = max(row.mean for row in rows if (row.algorithm, row.env) == ("td3", "Reacher"))
    assert published.get_best_published_score("td3", "Reacher-v5") == best
    assert published.get_best_published_score("dqn", "Reacher-v5") is None
    assert published.get_top_score("td3", "Hopper-v4") == get_reference_score("td3", "Hopper-v4")
    assert published.get_top_score("dqn", "Hopper-v4") == published.get_solved_score("Hopper-v4")
    assert published.get_top_score("dqn", "Unknown-v4") is None
    assert get_reference_score("dqn", "Hopper-v4") is None
    target = next(row for row in read_table("thesis_targets") if row.env == "Hopper")
    assert get_reference_score(target.algorithm, "Hopper-v9") == (target.mean, target.source)


def test_targets_begin_with_the_thesis_read_offs_and_end_with_its_tables():
    found = [row.table for row in find_reproduction_targets("td3", "Hopper-v4", "original", "sb3")]
    assert found[0] == "thesis_targets" and found[-1] == "thesis_tables"
    assert found.count("thesis_tables") == 1 and found[1:-1] == sorted(found[1:-1])
    assert find_reproduction_targets("td3", "Unknown-v4", "original", "sb3") == ()


HEADER = (
    "algorithm,env,version,hps,framework,statistic,steps,mean,spread,spread_kind,trials,source,note"
)


def write_table(folder, *rows, header=HEADER):
    (folder / "mine.csv").write_text("\n".join([header, *rows]) + "\n")


@pytest.mark.filterwarnings("ignore:.*is not the table")
def test_cells_may_be_empty_where_a_number_is_not_given(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    write_table(tmp_path, "ppo,A,v1,,x,last,,-1.5,,,,s,n", "ppo,B,,,x,last,7,2,0.5,sd,3,s,")
    first, second = read_table.__wrapped__("mine")
    assert (first.steps, first.trials, first.mean, first.spread_kind) == (0, 0, -1.5, "")
    assert math.isnan(first.spread) and (first.table, first.note, first.env) == ("mine", "n", "A")
    assert (second.steps, second.trials, second.mean, second.spread) == (7, 3, 2.0, 0.5)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("ppo,A,v1,,x,,5,1,,,3,s", "mine.csv, row 3: not as many cells as columns"),
        ("ppo,A,v1,,x,,5.5,1,,,3,s,", "mine.csv, line 3: steps='5.5' is not a number."),
        (
            f"ppo,A,v1,,x,,1{'0' * 400},1,,,3,s,",
            f"mine.csv, line 3: steps='1{'0' * 79}' is not from 0 to 9,007,199,254,740,992.",
        ),
        ("ppo,A,v1,,x,,5,1,,,0,s,", "mine.csv, line 3: trials='0' is not from 1 to 1,000,000."),
        ("ppo,A,v1,,x,,5,1,-1,sd,3,s,", "mine.csv, line 3: spread='-1' is not from 0 to 1e+100."),
        (
            "ppo,A,v1,,x,,5,inf,,,3,s,",
            "mine.csv, line 3: mean='inf' is not from -1e+100 to 1e+100.",
        ),
        ("ppo,A,v1,,x,,5,1,,,x,s,", "mine.csv, line 3: trials='x' is not a number."),
        (
            "ppo,A,v1,,x,,5,1,,sd,3,s,",
            "mine.csv, line 3: spread_kind='sd' does not fit spread=''. Known: sd, population sd, "
            "thesis interval.",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*is not the table")
def test_a_row_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path, monkeypatch, row, message):
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    write_table(tmp_path, "ppo,A,v1,,x,last,,-1.5,,,,s,n", row)
    with pytest.raises(published.PublishedTableError) as raised:
        read_table.__wrapped__("mine")
    assert str(raised.value) == message


def test_missing_table_is_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    with pytest.raises(published.PublishedTableError, match=r"gone\.csv cannot be read: "):
        published.read_csv_rows("gone")
    write_table(tmp_path, header="algorithm,env")
    with pytest.warns(UserWarning, match="its SHA-256 is not in SHA256SUMS"):
        assert published.read_csv_rows("mine") == []


@pytest.mark.filterwarnings("ignore:.*is not the table")
def test_text_after_a_closing_quote_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(published, "FOLDER", tmp_path)
    write_table(tmp_path, '"x"y,z', header="a,b")
    with pytest.raises(published.PublishedTableError, match=r"mine\.csv is not a table: "):
        published.read_csv_rows("mine")
