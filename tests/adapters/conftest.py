"""Which of the shipped conformance checks wait for `make test-long`."""

import pytest

# A training takes these two frameworks longest, and there is one for each hyperparameter; TD3's
# loops, networks and settings are those of the two algorithms that wait.
SLOW = ("torchrl", "tianshou")
WAITING = ("sac", "ddpg")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        name = getattr(item, "originalname", "")
        if name != "test_hyperparameter_is_honoured_or_refused":
            continue
        if item.path.parent.name in SLOW and item.callspec.params["algorithm"] in WAITING:
            item.add_marker(pytest.mark.long)
