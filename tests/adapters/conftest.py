"""Which of the shipped conformance checks wait for `make test-long`."""

import pytest

# There is a training for each hyperparameter; the loops, networks and settings of TD3 and DQN are
# those of the two algorithms that wait.
WAITING = ("sac", "ddpg")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        name = getattr(item, "originalname", "")
        if name != "test_hyperparameter_is_honoured_or_refused":
            continue
        if item.callspec.params["algorithm"] in WAITING:
            item.add_marker(pytest.mark.long)
