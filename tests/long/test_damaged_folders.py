"""3,000 damaged run folders: none ends any command, is waited for, or passes for complete."""

import os

import pytest
from damaged_studies import check_studies, table

TOTAL = int(os.environ.get("PARALLAX_DAMAGED", "3000"))
SEED = int(os.environ.get("PARALLAX_DAMAGED_SEED", "0"))


@pytest.mark.long
def test_readers_handle_all_damages(tmp_path, capsys):
    faults, counts = check_studies(tmp_path, TOTAL, 200, SEED, pages=TOTAL)
    with capsys.disabled():
        print("\n" + table(faults, counts))
    assert not faults, table(faults, counts)
