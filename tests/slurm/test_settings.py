"""Settings that end up in a script."""

import pytest

from parallax.harness.contract.fields import SpecError
from parallax.slurm.settings import load_settings

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
def test_lines_of_a_script_stay_lines(settings, words):
    with pytest.raises(SpecError, match=words):
        load_settings("default", settings)
