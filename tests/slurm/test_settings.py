"""Settings that end up in a script."""

import os

import pytest

from parallax.harness.contract.fields import SpecError
from parallax.slurm.settings import (
    PROFILES,
    SlurmSettings,
    load_settings,
    override_settings,
    parse_time,
    settings_from_dict,
    settings_from_record,
)

UNSHOWN = ["a\nb", "a\tb", "a\x1b[2J", "a\x00", "a\u202eb"]


@pytest.mark.parametrize("value", UNSHOWN)
@pytest.mark.parametrize("setting", ["partition", "account", "qos", "constraint", "python"])
def test_settings_that_cannot_be_shown_are_refused(setting, value):
    with pytest.raises(SpecError, match="cannot be shown") as refused:
        load_settings("default", {setting: value})
    assert f"{setting}={value!r}" in str(refused.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"setup": ["module a\nrm -r b"]}, r"setup='module a\\nrm -r b' .* an entry of its own"),
        ({"sbatch": {"nice": "1\n#SBATCH --x"}}, r"sbatch\.nice='1\\n#SBATCH --x' holds"),
        ({"sbatch": {"nice\n": 1}}, r"sbatch: 'nice\\n' must be a long option"),
        ({"sbatch": {"--nice": 1}}, "without its dashes"),
        ({"sbatch": {"nice": [1]}}, r"sbatch\.nice=\[1\] must be a text, a number, or true"),
    ],
)
def test_script_options_with_line_breaks_are_refused(settings, words):
    with pytest.raises(SpecError, match=words):
        load_settings("default", settings)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        *(("00:00:01", 1), ("00:01:00", 1), ("00:01:01", 2), ("01:00:00", 60)),
        *(("1-00:00:00", 1440), ("2-03:04:05", 3065), ("100:00:00", 6000)),
    ],
)
def test_limits_are_whole_minutes_rounded_up(text, minutes):
    loaded = load_settings("default", {"time": {"ppo": text, "default": "00:05:00"}})
    assert (loaded.get_time_limit("ppo"), loaded.get_minutes("ppo")) == (text, minutes)
    assert (loaded.get_time_limit("new"), loaded.get_minutes("new")) == ("00:05:00", 5)


@pytest.mark.parametrize(
    "text",
    [
        *("1:2:3", "01:00", "-01:00:00", "1-2-03:04:05", "00:00:00 ", 60),
        *(f"{'9' * 5000}:00:00", f"{'9' * 5000}-01:00:00"),
    ],
)
def test_invalid_times_are_refused(text):
    with pytest.raises(SpecError) as error:
        parse_time(text)
    words = "must be 'HH:MM:SS' or 'D-HH:MM:SS', in quotes where it is in a file."
    assert str(error.value) == f"time: {text!r} {words}"


def test_options_are_added_replaced_or_unchanged():
    base = load_settings("default", {})
    values = vars(base) | {"time": {"default": "1:00:00", "ppo": "2:00:00"}, "sbatch": {"x": 1}}
    changes = {"mem_gb": 0.5, "cpus": None, "sbatch": None, "time": {"ppo": None, "sac": "3:00:00"}}
    found = override_settings(values, changes)
    times = {"default": "1:00:00", "ppo": "2:00:00", "sac": "3:00:00"}
    assert found == SlurmSettings(**(values | {"mem_gb": 0.5, "time": times}))
    older = {name: value for name, value in values.items() if name not in ("malloc", "cpus")}
    again = settings_from_record(older, {"qos": "long"}, "a")
    usual = {"qos": "long", "malloc": base.malloc, "cpus": base.cpus}
    assert again == SlurmSettings(**(values | usual | {"time": dict(base.time) | values["time"]}))
    with pytest.raises(SpecError, match=r"^a: mem_gbb"):
        settings_from_record({"mem_gbb": 1}, {}, "a")
    with pytest.raises(SpecError, match=r"^a: time=\[\] must hold settings as"):
        settings_from_record({"time": []}, {}, "a")
    with pytest.raises(SpecError, match=r"^time=7 must hold settings as `name: value`\.$"):
        settings_from_dict(vars(base) | {"time": 7})


def test_a_profile_is_a_name_or_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("mem_gb: 7\n")
    (tmp_path / "profile").write_text("mem_gb: 8\n")
    (tmp_path / "empty.yaml").write_text("")
    profiles = ("mine.yaml", "./profile", str(tmp_path / "profile"))
    assert [load_settings(name, {}).mem_gb for name in profiles] == [7, 8, 8]
    assert load_settings("empty.yaml", {}) == load_settings("default", {})
    with pytest.raises(SpecError) as error:
        load_settings("profile", {})
    known = "default, example. For a file of your own, give its path."
    place = PROFILES / "profile.yaml"
    words = f"profile=profile: {place} does not exist. Known: {known}"
    assert str(error.value) == words
    os.mkfifo("pipe.yaml")
    with pytest.raises(SpecError, match=r"pipe.yaml:1: the profile cannot be read"):
        load_settings("pipe.yaml", {})
