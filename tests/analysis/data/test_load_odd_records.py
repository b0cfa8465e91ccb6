"""Runs with odd records are listed and excluded: no command ends with an error."""

import json

import pytest

from parallax.analysis.data.load import load_runs
from parallax.harness.cli.main import main

COMMANDS = (
    "compare",
    "study verdicts",
    "study plan",
    "study verdicts --tables",
    "study figures",
    "report",
)
ODD = {
    "threads": (None, "", "4", -1, 0, 1.5, [1], {}, 1e400, True),
    "seed": (None, "0", -1, 2**40, 0.5),
    "steps": (None, "20000", 0, -5, 1e308),
    "hyperparameters": (None, [], "x", {"gamma": {"a": 1}}),
    "overridden": (None, "gamma", [1], {"a": 1}),
    "eval_episodes": (None, 0, "4"),
    "study": (None, 3, ""),
    "alignment": (None, 1, []),
}


@pytest.fixture(scope="module")
def odd(tmp_path_factory, writer):
    """Two whole pairs of runs beside one of each oddity, all in one study."""
    results = tmp_path_factory.mktemp("odd")
    for framework in ("sb3", "cleanrl"):
        for seed in range(2):
            writer(results, framework=framework, seed=seed, score=100 * seed)
    seed = 10
    for name, values in ODD.items():
        for value in values:
            seed += 1
            path = writer(results, framework="sb3", seed=seed) / "run.json"
            record = json.loads(path.read_text())
            record["spec"][name] = value
            path.write_text(json.dumps(record))
    return results, seed - 10


def test_each_odd_record_is_listed_with_its_reason(odd):
    results, count = odd
    loaded = load_runs(results)
    assert loaded.used == 4
    assert len(loaded.excluded) == count
    assert all("run.json" in item.reason for item in loaded.excluded)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_excludes_odd_records(odd, tmp_path, capsys, command):
    results, _ = odd
    words = [*command.split(), str(results), "--output", str(tmp_path)]
    words += ["--jobs", "1"] if command in ("study figures", "report") else []
    words += ["--families", "intervals"] if command == "study figures" else []
    assert main([*words]) == 0
    assert "Traceback" not in "".join(capsys.readouterr())
