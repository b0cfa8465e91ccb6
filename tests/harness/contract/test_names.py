"""Names that become folders."""

from pathlib import Path

import pytest
import support

from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict

UNSHOWN = ["a\nb", "a\tb", "a\x1b[2J", "a\x00", "a\u202eb", "a\u200b", "a\udc80"]


def a_spec(name, value):
    hps = {} if name == "hps" else {"hps": "sb3"}
    return spec_to_dict(support.spec(**hps)) | {name: value}


@pytest.mark.parametrize("value", UNSHOWN)
@pytest.mark.parametrize("name", ["study", "env", "hps", "framework"])
def test_names_that_cannot_be_shown_are_refused(name, value):
    with pytest.raises(SpecError, match="cannot be shown") as refused:
        spec_from_dict(a_spec(name, value))
    assert f"{name}={value!r}" in str(refused.value) and str(refused.value).isprintable()


@pytest.mark.parametrize("value", ["a\x1b[2J", " a", "a "])
@pytest.mark.parametrize("name", ["study", "env", "framework"])
def test_new_runs_are_not_named_like_that(name, value):
    with pytest.raises(SpecError, match=r"cannot be shown|begin or end with a space") as refused:
        support.spec(hps="sb3", **{name: value})
    assert f"{name}={value!r}" in str(refused.value)


@pytest.mark.parametrize("study", ["analysis", "slurm"])
def test_names_that_the_project_uses_itself_are_refused(study):
    with pytest.raises(SpecError, match=f"study='{study}' is where .*: choose another"):
        support.spec(study=study)


@pytest.mark.parametrize("name", ["study", "env", "hps", "framework"])
@pytest.mark.parametrize("value", ["", "..", ".x", "/a", "a/", "a/..", "../a", "a/.b", "a/b/c"])
def test_names_that_would_lead_elsewhere_are_refused(name, value):
    with pytest.raises(SpecError, match=f"{name}=.* must be a name that can name a folder"):
        spec_from_dict(a_spec(name, value))


@pytest.mark.parametrize("name", ["study", "hps", "framework"])
def test_slash_is_for_names_of_tasks_only(name):
    with pytest.raises(SpecError, match=f"{name}='a/b' must be a name that can name a folder"):
        spec_from_dict(a_spec(name, "a/b"))
    spec = spec_from_dict(a_spec("env", "a/b"))
    assert "a~b" in spec.folder(Path()).parts
    with pytest.raises(SpecError, match="env='a~/b' must be"):
        spec_from_dict(a_spec("env", "a~/b"))


@pytest.mark.parametrize("study", ["a", "a b", "größe", "a.b", "a ", "slurm2", "Slurm", "研究"])
def test_names_that_were_valid_stay_valid(study):
    assert spec_from_dict(a_spec("study", study)).study == study
