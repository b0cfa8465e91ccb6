"""Damaged run folders among healthy ones; `tests/long` reads many more."""

from damaged_studies import check_studies, table


def test_readers_handle_every_damage(tmp_path):
    faults, counts = check_studies(tmp_path, total=16, size=16, seed=1)
    assert not faults, table(faults, counts)
