"""Settings of torchrl change on purpose only: `tests/native_settings.py` writes it again."""

from native_settings import compare_with_stored

from parallax.adapters.torchrl import settings


def test_settings_of_all_values_are_the_stored_ones():
    assert settings.ALGORITHMS
    assert compare_with_stored("torchrl") == []
