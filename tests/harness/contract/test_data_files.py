"""Files of users: sizes, damage and JSON."""

import json
import os
import time

import numpy as np
import pytest

from parallax.harness.contract import data_files
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import read_own_script
from parallax.harness.imports import return_curves


def test_files_of_users_have_a_size_and_a_number_of_values(tmp_path, monkeypatch):
    file = tmp_path / "a.yaml"
    monkeypatch.setattr(data_files, "_MAX_BYTES", 10)
    file.write_text("a: 1".ljust(10))
    assert data_files.load_yaml(file, "recipe") == {"a": 1}
    file.write_text("a: 1".ljust(11))
    with pytest.raises(SpecError, match=r"the recipe cannot be read .over 10 bytes"):
        data_files.load_yaml(file, "recipe")
    monkeypatch.setattr(data_files, "_MAX_BYTES", 1000)
    monkeypatch.setattr(data_files, "_MAX_VALUES", 4)
    file.write_text("[1, 2, 3]")  # with the list itself
    assert data_files.load_yaml(file, "recipe") == [1, 2, 3]
    for text in ("[1, 2, 3, 4]", "{a: &x [1], b: *x}", "&x [*x]"):
        file.write_text(text)
        with pytest.raises(SpecError, match="stands for more than 4 values, with its aliases"):
            data_files.load_yaml(file, "recipe")


@pytest.mark.parametrize("depth", [100, 600, 900, 5000])
def test_deep_yaml_is_read_or_refused(tmp_path, depth):
    file = tmp_path / "a.yaml"
    file.write_text("[" * depth + "]" * depth)
    if depth == 100:
        assert data_files.load_yaml(file, "recipe")
    else:
        with pytest.raises(
            SpecError, match=r"a\.yaml:1: the recipe (cannot be read|is not valid YAML)"
        ):
            data_files.load_yaml(file, "recipe")


@pytest.mark.parametrize(
    "number", ["1" + ":1" * 500_000, "0x" + "f" * 5000, "0b" + "1" * 9000, "9" * 5000]
)
def test_numbers_that_no_message_can_show_are_refused(tmp_path, number):
    """Sexagesimal numbers take time that grows with their square: a minute for 1 MB."""
    file = tmp_path / "args.yml"
    file.write_text(f"a: {number}\n")
    started = time.process_time()
    with pytest.raises(SpecError, match=r"a number of [0-9,]+ characters"):
        data_files.load_yaml(file, "recipe")
    assert return_curves._read_yaml_pairs(file) == {}
    assert time.process_time() - started < 10


def test_damaged_yaml_is_named_with_its_line(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\nb: [\n")
    with pytest.raises(SpecError, match=r"a\.yaml:3: the recipe is not valid YAML"):
        data_files.load_yaml(file, "recipe")
    file.write_text("a: !!timestamp now\n")
    with pytest.raises(SpecError, match=r"a\.yaml:1: the recipe cannot be read"):
        data_files.load_yaml(file, "recipe")
    file.write_text("a: 2000-99-99\n")
    with pytest.raises(SpecError, match=r"a\.yaml:1: the recipe cannot be read"):
        data_files.load_yaml(file, "recipe")
    with pytest.raises(SpecError, match=r"cannot be read .No such file"):
        data_files.load_yaml(tmp_path / "missing.yaml", "recipe")


@pytest.mark.parametrize("load", [data_files.load_yaml, read_own_script])
def test_pipes_and_devices_are_not_opened(tmp_path, load):
    """Nobody may ever write to a pipe, and /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "link.py").symlink_to("/dev/zero")
    for name in ("pipe.py", "link.py", "."):
        with pytest.raises(SpecError, match=r"cannot be read.*not a regular file"):
            load(tmp_path / name, *["recipe"] * (load is data_files.load_yaml))
    (tmp_path / "mine.py").write_text("text")
    (tmp_path / "own.py").symlink_to("mine.py")
    assert data_files.read_user_file(tmp_path / "own.py", 4) == b"text"


def test_json_of_users_is_read_up_to_a_size(tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    content = json.dumps([1, 2])
    file.write_text(content)
    monkeypatch.setattr(data_files, "_MAX_JSON_BYTES", len(content))
    assert data_files.load_json(file, list[int], "numbers") == [1, 2]
    monkeypatch.setattr(data_files, "_MAX_JSON_BYTES", len(content) - 1)
    with pytest.raises(SpecError, match=r"a\.json .over 5 bytes. holds no numbers"):
        data_files.load_json(file, list[int], "numbers")
    with pytest.raises(SpecError, match=r"No such file or directory. holds no numbers"):
        data_files.load_json(tmp_path / "b.json", list[int], "numbers")
    with pytest.raises(SpecError, match=r"not a regular file. holds no numbers"):
        data_files.load_json(tmp_path, list[int], "numbers")


def test_json_lines_are_read_and_invalid_ones_numbered(tmp_path):
    file = tmp_path / "a.jsonl"
    assert data_files.load_json_lines(file, int, "numbers") == []
    file.write_text("1\n\n2\n")
    assert data_files.load_json_lines(file, int, "numbers") == [1, 2]
    file.write_text("NaN\n")
    assert np.isnan(data_files.load_json_lines(file, float, "numbers")).tolist() == [True]
    file.write_text('1\n"b"\n')
    with pytest.raises(SpecError, match=r"value 2: .* holds no numbers"):
        data_files.load_json_lines(file, int, "numbers")
    assert data_files._describe(OSError(2, "No such file")) == "No such file"
    assert data_files._describe(ValueError("a\nb" + "c" * 300)) == "ab" + "c" * 198
    assert data_files._describe(ValueError()) == "ValueError"


@pytest.mark.parametrize("number", ["010", "-07", "1:30", "1:30:00", "0_7"])
def test_numbers_that_are_not_decimal_in_yaml_are_refused(number, tmp_path):
    (tmp_path / "a.yaml").write_text(f"b: 1\nseed: {number}\n")
    with pytest.raises(SpecError, match=rf"a.yaml:2: .*\({number} needs quotes to be a text\)"):
        data_files.load_yaml(tmp_path / "a.yaml", "file")
    (tmp_path / "a.yaml").write_text("[0, -3, 1_000, 0x1F, 0b11, '010', 1.5, 1e3, 2000-01-01]")
    assert data_files.load_yaml(tmp_path / "a.yaml", "file")[:5] == [0, -3, 1000, 31, 3]


def test_answers_of_many_lists_fit_into_memory(tmp_path):
    """Nested lists take 50 times as much memory as in the file: 32 MB took 1.6 GB."""
    (tmp_path / "answers.json").write_bytes(b"[" + b"[]," * (2**24 // 3) + b"[]]")
    for load in (data_files.load_json, data_files.load_json_lines):
        with pytest.raises(SpecError, match="over 16,777,216 bytes"):
            load(tmp_path / "answers.json", dict, "answers")
