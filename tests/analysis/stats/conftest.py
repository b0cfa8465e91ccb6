import pytest


@pytest.fixture(scope="package", autouse=True)
def _no_garbage_collection():
    # statsmodels' Holm correction collects garbage at each call, which takes seconds where tests
    # before these have left many objects: ten minutes in all.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.collect", lambda generation=2: 0)
        yield
