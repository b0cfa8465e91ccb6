"""The table of attacks names tests that exist; `python tests/test_attacks.py` prints it."""

import re
from pathlib import Path

import yaml

FOLDER = Path(__file__).parent
ATTACKS = yaml.safe_load((FOLDER / "attacks.yaml").read_text("utf-8"))


def find_test_names():
    files = FOLDER.rglob("test_*.py")
    return {
        name for file in files for name in re.findall(r"def (test_\w+)\(", file.read_text("utf-8"))
    }


def test_each_attack_has_its_test():
    names = [attack["test"] for attack in ATTACKS]
    assert len(names) >= 20
    assert set(names) <= find_test_names()


def test_rows_are_complete():
    assert all(set(attack) == {"attack", "result", "test"} for attack in ATTACKS)


if __name__ == "__main__":
    print("| attack | result | test |\n|---|---|---|")
    for row in ATTACKS:
        print(f"| {row['attack']} | {row['result']} | `{row['test']}` |")
