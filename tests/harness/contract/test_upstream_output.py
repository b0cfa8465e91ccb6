"""Output of upstream's code, scripts of users, and settings of the diagnosis."""

import hashlib
import logging
import math
import re
import warnings

import pytest
import support

from parallax.harness.contract import own_script, upstream_code
from parallax.harness.contract.events import EnvStep, EnvTransition, TrainingEvents
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import OwnScript, make_own_script, read_own_script
from parallax.harness.contract.upstream_code import (
    rewrite_source,
    silence_future_warnings,
    silence_output,
    use_source_rewriter,
)


def test_progress_messages_and_warnings_are_suppressed_within_the_context(capsys):
    before = logging.root.manager.disable
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with silence_output():
            print("progress")
            warnings.warn("a warning", UserWarning, stacklevel=1)
            assert logging.root.manager.disable == logging.INFO
        with pytest.raises(UserWarning, match="a warning"):
            warnings.warn("a warning", UserWarning, stacklevel=1)
    assert logging.root.manager.disable == before and capsys.readouterr().out == ""


@pytest.mark.parametrize("kind", [DeprecationWarning, FutureWarning])
def test_warnings_of_future_interfaces_are_silent_and_others_are_not(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with silence_future_warnings():
            warnings.warn("later", kind, stacklevel=1)
            with pytest.raises(UserWarning, match="now"):
                warnings.warn("now", UserWarning, stacklevel=1)
        with pytest.raises(kind):
            warnings.warn("later", kind, stacklevel=1)


def test_scripts_are_rewritten_within_the_context_only():
    assert rewrite_source("a.b", "text") == "text"
    with use_source_rewriter(lambda name, text: f"{name}: {text}"):
        assert rewrite_source("a.b", "text") == "a.b: text"
    assert rewrite_source("a.b", "text") == "text"
    assert upstream_code.rewrite_source("c", "") == ""


def test_a_script_has_a_largest_size_in_kibibytes(tmp_path, monkeypatch):
    file = tmp_path / "own.py"
    monkeypatch.setattr(own_script, "_MAX_BYTES", 2048)
    file.write_text("#" * 2048)
    script = read_own_script(file)
    assert (script.name, script.source) == ("own.py", "#" * 2048)
    assert script.sha256 == hashlib.sha256(b"#" * 2048).hexdigest()
    assert make_own_script(script) is script and make_own_script(None) is None
    content = {"name": script.name, "sha256": script.sha256, "source": script.source}
    assert make_own_script(content) == OwnScript(**content)
    file.write_text("#" * 2049)
    with pytest.raises(SpecError, match=r"own\.py cannot be read: over 2,048 bytes"):
        read_own_script(file)
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_own_script(tmp_path / "missing.py")
    file.write_bytes(b"\xff")
    with pytest.raises(SpecError, match="is not text in UTF-8"):
        read_own_script(file)
    for damaged in (5, {}, content | {"more": "x"}, content | {"name": 5}):
        with pytest.raises(SpecError, match="must be the path of a script"):
            make_own_script(damaged)
    with pytest.raises(SpecError):
        make_own_script(content | {"sha256": "0" * 64})


def make_content(name, text=""):
    return {"name": name, "sha256": hashlib.sha256(text.encode()).hexdigest(), "source": text}


def test_scripts_have_names_of_plain_characters_and_texts_of_their_hash():
    for name in ("a.py", "_1.b-c.py", "a" * 60 + ".py"):
        script = make_own_script(make_content(name))
        assert (script.name, script.label) == (name, f"{name[:-3]}-{script.sha256[:8]}")
        assert script.name_implementation("cleanrl") == f"cleanrl@{script.label}"
        assert "source" not in repr(script)
    for name in ("a.txt", ".a.py", "-a.py", "a b.py", "a/b.py", "\u00fc.py", "a" * 61 + ".py"):
        words = f"script={name!r} must be the name of a file that ends in .py, of at most 60 "
        with pytest.raises(SpecError, match=f"^{re.escape(words)}"):
            make_own_script(make_content(name))
    with pytest.raises(SpecError, match=r"^script=a\.py: its text does not have the recorded SHA"):
        make_own_script(make_content("a.py") | {"source": "other"})


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ({"period": 1}, None),
        ({"period": None}, None),
        ({"periods": {"loss": 5}}, None),
        ({"period": 0}, "diagnosis.period=0 must be null or 1 to"),
        ({"period": 2**53}, None),
        ({"period": 10**400}, "diagnosis.period=.* must be null or 1 to"),
        ({"period": -5}, "diagnosis.period=-5 must be"),
        ({"period": 1.5}, "diagnosis.period=1.5 must be"),
        ({"period": True}, "diagnosis.period=true must be"),
        ({"periods": {"loss": 0}}, "diagnosis.loss.period=0 must be"),
        ({"thresholds": {"loss": 2}}, None),
        ({"thresholds": None}, "diagnosis.thresholds=null must hold numbers by check"),
        ({"periods": ["loss"]}, "diagnosis.periods=.*loss.* must hold numbers by check"),
        ({"thresholds": {"loss": True}}, "diagnosis.loss.threshold=true must be a finite number"),
        ({"thresholds": {"loss": "2"}}, "diagnosis.loss.threshold=.*2.* must be a finite number"),
        *(
            ({"thresholds": {"loss": value}}, "diagnosis.loss.threshold=.* must be a finite")
            for value in (math.nan, math.inf, -math.inf, 10**400)
        ),
        ({"thresholds": {"loss": -1e300}}, None),
        ({"only": ["loss"]}, None),
        ({"only": ["a:b"]}, "diagnosis.only=.* must list checks"),
        ({"only": "loss"}, "diagnosis.only=.* must list checks"),
        ({"extra_checks": ["a:b"]}, None),
        ({"extra_checks": ["loss"]}, "diagnosis.extra_checks=.* must list checks"),
        ({"mode": "maybe"}, "diagnosis=maybe must be one of"),
    ],
)
def test_settings_of_the_diagnosis_are_checked(settings, refused):
    given = {"mode": "report"} | settings
    modes = ("off", "report", "stop", "on", "warn")
    if refused is None:
        made = [mode for mode in modes if make_spec(given | {"mode": mode})]
        assert made
    else:
        for mode in modes if "mode" not in settings else [settings["mode"]]:
            with pytest.raises(SpecError, match=refused if is_mode(mode) else "diagnosis="):
                support.spec(diagnosis=given | {"mode": mode})


def is_mode(mode):
    try:
        support.spec(diagnosis={"mode": mode})
    except SpecError:
        return mode == "maybe"
    return True


def make_spec(diagnosis):
    try:
        return support.spec(diagnosis=diagnosis)
    except SpecError as error:
        assert "must be one of" in str(error)
        return None


def test_steps_are_published_before_they_are_counted_and_copies_numbered():
    silent = TrainingEvents()
    silent.make_step_counter()()
    assert silent.steps == 1 and silent.make_env_hooks()["after_step"] is None
    events, seen = TrainingEvents(), []
    events.subscribe(EnvStep, lambda event: seen.append(events.steps))
    events.subscribe(EnvTransition, seen.append)
    count = events.make_env_hooks()["before_step"]
    count(), count()
    assert (seen, events.steps) == ([0, 1], 2)
    first = events.make_env_hooks()["after_step"]
    second = events.make_env_hooks()["after_step"]
    values = range(len(EnvTransition._fields) - 1)
    first(*values), second(*values)
    assert seen[2:] == [EnvTransition(1, *values), EnvTransition(2, *values)]
