"""Counts planted differences of environments that are found and named, and false positives.

`python tests/harness/environment_probes/detection.py FILE` writes the outcomes to FILE.
"""

import json
import sys
from pathlib import Path

from parallax.harness.environment_probes.answers import FAILED
from parallax.harness.environment_probes.catalogue import QUESTIONS, answer_question


def list_differences(implementation):
    """Differences and failures in words, by question."""
    found = {}
    for question in QUESTIONS:
        if question.role in implementation.roles:
            answer = answer_question(question, implementation)
            failed = (answer.words,) if answer.outcome == FAILED else ()
            found[question.name] = {*answer.differences, *failed}
    return found


def judge_plant(plant):
    """Return whether a planted fault is found and named, and the new description."""
    before, after = (list_differences(each) for each in (plant.healthy, plant.planted))
    new = [words for name in after for words in sorted(after[name] - before[name])]
    named = any(text in words for text in plant.names for words in new)
    return {
        "name": plant.name,
        "found": bool(new),
        "named": named,
        "words": "; ".join(new),
        "healthy": "; ".join(words for name in before for words in sorted(before[name])),
    }


def judge_plants(plants):
    """The outcomes of several plants."""
    return [judge_plant(plant) for plant in plants]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    from tests.plants import environments

    rows = judge_plants(environments.PLANTS)
    for row in rows:
        print(
            row["found"], row["named"], row["name"], "|", row["words"], "| healthy:", row["healthy"]
        )
    print(sum(r["found"] for r in rows), sum(r["named"] for r in rows), "of", len(rows))
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text(json.dumps(rows, indent=1) + "\n")
