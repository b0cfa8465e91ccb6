"""3,000 damaged run folders: none ends a command, none is waited for, none passes for complete."""

import os

import pytest
from damaged_studies import check_studies, table

TOTAL = int(os.environ.get("PARALLAX_DAMAGED", "3000"))
SEED = int(os.environ.get("PARALLAX_DAMAGED_SEED", "0"))


@pytest.mark.long
def test_every_reader_survives_every_damage(tmp_path, capsys):
    faults, counts = check_studies(tmp_path, TOTAL, 200, SEED, pages=2)
    with capsys.disabled():
        print("\n" + table(faults, counts))
    assert not faults, table(faults, counts)
