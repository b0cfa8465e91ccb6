"""Names that become folders."""

from pathlib import Path

import pytest
import support

from parallax.harness.contract import run_spec
from parallax.harness.contract.fields import SpecError, UnfinishedAdapterError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.record.layout import is_visible

UNSHOWN = ["a\nb", "a\tb", "a\x1b[2J", "a\x00", "a\u202eb", "a\u200b", "a\udc80"]
UNSHOWN += ["a\ufe0f", "a\u3164", "\u034fa", "a\u2800", "a\U000e0100"]  # printable by Python's rule


def a_spec(name, value):
    hps = {} if name == "hps" else {"hps": "sb3"}
    return spec_to_dict(support.spec(**hps)) | {name: value}


@pytest.mark.parametrize("value", UNSHOWN)
@pytest.mark.parametrize("name", ["study", "env", "hps", "framework"])
def test_names_that_cannot_be_shown_are_refused(name, value):
    with pytest.raises(SpecError, match="cannot be shown") as refused:
        spec_from_dict(a_spec(name, value))
    assert f"{name}={value!a}" in str(refused.value)
    assert is_visible(str(refused.value))


@pytest.mark.parametrize("value", ["a\x1b[2J", " a", "a "])
@pytest.mark.parametrize("name", ["study", "env", "framework"])
def test_new_runs_with_invalid_names_are_refused(name, value):
    with pytest.raises(SpecError, match=r"cannot be shown|begin or end with a space") as refused:
        support.spec(hps="sb3", **{name: value})
    assert f"{name}={value!r}" in str(refused.value)


@pytest.mark.parametrize("value", ["e\u0301", "\u0301sb3", "\u212b"])
def test_new_runs_with_names_that_look_like_others_are_refused(value):
    with pytest.raises(SpecError, match="looks like another name") as refused:
        support.spec(study=value)
    assert f"study={value!a}" in str(refused.value)
    assert support.spec(study="\u00e9").study == "\u00e9"


@pytest.mark.parametrize("study", ["analysis", "slurm"])
def test_reserved_names_are_refused(study):
    with pytest.raises(SpecError, match=f"study='{study}' is where .*: choose another"):
        support.spec(study=study)


@pytest.mark.parametrize("name", ["study", "env", "hps", "framework"])
@pytest.mark.parametrize("value", ["", "..", ".x", "/a", "a/", "a/..", "../a", "a/.b", "a/b/c"])
def test_names_that_escape_the_folder_are_refused(name, value):
    with pytest.raises(SpecError, match=f"{name}=.* must be a valid folder name"):
        spec_from_dict(a_spec(name, value))


@pytest.mark.parametrize("name", ["study", "hps", "framework"])
def test_slash_is_for_names_of_tasks_only(name):
    with pytest.raises(SpecError, match=f"{name}='a/b' must be a valid folder name"):
        spec_from_dict(a_spec(name, "a/b"))
    spec = spec_from_dict(a_spec("env", "a/b"))
    assert "a~b" in spec.folder(Path()).parts
    with pytest.raises(SpecError, match="env='a~/b' must be"):
        spec_from_dict(a_spec("env", "a~/b"))


@pytest.mark.parametrize("study", ["a", "a b", "größe", "a.b", "a ", "slurm2", "Slurm", "研究"])
def test_names_that_were_valid_stay_valid(study):
    assert spec_from_dict(a_spec("study", study)).study == study


INTERRUPTED = "Interrupted. Run the same command again to resume."


def test_missing_adapter_part_error_names_file_and_function():
    error = UnfinishedAdapterError("a/train.py", "train", "call the framework")
    assert str(error) == "a/train.py: fill in train(): call the framework."
    assert isinstance(error, SpecError) and isinstance(error, NotImplementedError)


def test_names_of_folders_have_a_largest_size_in_bytes():
    most = run_spec._MAX_NAME_BYTES
    for name in ("a" * most, "\u00fc" * (most // 2)):
        run_spec.check_folder_names({"study": name})
        with pytest.raises(SpecError, match=f"at most {most} bytes"):
            run_spec.check_folder_names({"study": f"{name}bb"})


def test_unsupported_algorithm_is_refused_with_the_supported_ones():
    values = {**run_spec.RUN_DEFAULTS, "framework": "sbx", "algorithm": "r2d2", "hps": "sbx"}
    names = {name: "a" for name in run_spec._FOLDER_NAMES if name not in values}
    with pytest.raises(SpecError, match=r"framework=sbx has no algorithm=r2d2: choose ppo, .*dqn"):
        run_spec._check_names_and_framework(names | values)
    for name in ("study", "env"):
        with pytest.raises(SpecError, match=f"{name}=.* must not begin or end with a space"):
            run_spec._check_names_and_framework(names | values | {name: "a "})
