"""The hook at the head of a script's loop: where it is, and what it saves and restores."""

import numpy as np
import pytest
import support
import torch

from parallax.adapters.cleanrl.script_runner import HOOK_NAME, CheckpointHook, compile_script
from parallax.adapters.cleanrl.scripts import read_script
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.state_codec import StateMismatchError

SCRIPT = """
import numpy as np
import torch
if __name__ == "__main__":
    rng = np.random.default_rng(3)
    network = torch.nn.Linear(2, 1)
    seen, total = [], 0.0
    class envs:
        step = seen.append
    for step in range(6):
        envs.step(step)
        total = noise = total + rng.normal()
        with torch.no_grad():
            network.weight += total
    done = True
"""


class KilledError(Exception):
    pass


class Boundary:
    """Takes the state at a step, kills at another one, and may lay a state in at the first."""

    def __init__(self, take=None, kill=None, lay_in=None):
        self.take, self.kill, self.state, self.calls = take, kill, lay_in, 0
        self.names = {"__name__": "__main__"}
        self.make_env_hooks = CheckpointHook(self.names, self, lambda: [])
        self.names["__builtins__"] = vars(__import__("builtins")) | {HOOK_NAME: self.make_env_hooks}
        torch.manual_seed(0)

    def __call__(self):
        if self.state is not None and self.calls == 0:
            self.make_env_hooks.make_checkpointable().load_state(self.state)
        if self.calls == self.take:
            self.state = self.make_env_hooks.make_checkpointable().state()
            # The continued training may change these arrays.
            self.state["names"]["network"] = copied(self.state["names"]["network"])
        if self.calls == self.kill:
            raise KilledError
        self.calls += 1

    def run(self):
        exec(compile_script(SCRIPT, "script.py"), self.names)
        return self


def copied(state):
    if isinstance(state, dict):
        return {name: copied(part) for name, part in state.items()}
    if isinstance(state, list):
        return [copied(part) for part in state]
    return state.copy() if isinstance(state, np.ndarray) else state


def test_loop_resumes_with_the_saved_variables():
    whole = Boundary().run()
    broken = Boundary(take=2, kill=3)
    with pytest.raises(KilledError):
        broken.run()
    resumed = Boundary(lay_in=broken.state).run()
    assert (whole.calls, resumed.calls) == (6, 4) and resumed.names["done"]
    assert resumed.names["seen"] == whole.names["seen"] == list(range(6))
    assert resumed.names["total"] == resumed.names["noise"] == whole.names["total"]
    assert torch.equal(resumed.names["network"].weight, whole.names["network"].weight)


def test_state_that_lacks_a_script_variable_is_refused():
    """The script would continue with the state of its set-up, at another step."""
    state = Boundary(take=3).run().state
    del state["names"]["network"]
    with pytest.raises(StateMismatchError, match=r"^network is not in it$"):
        Boundary(lay_in=state).run()


def test_variable_that_cannot_be_restored_is_named_in_the_error():
    hook = CheckpointHook({}, lambda: None, lambda: [])
    with pytest.raises(StateMismatchError, match="helper does not exist"):
        hook.make_checkpointable().load_state({"at": 1, "names": {"helper": {"kind": "code"}}})


@pytest.mark.parametrize("algorithm", support.algorithms_of("cleanrl"))
def test_every_script_has_its_one_loop_and_its_own_lines(algorithm):
    path, source = read_script(algorithm)
    code, plain = compile_script(source, str(path)), compile(source, str(path), "exec")
    assert HOOK_NAME in code.co_names and HOOK_NAME not in plain.co_names
    assert lines(code) == lines(plain)


def lines(code):
    return {line for _, _, line in code.co_lines() if line}


@pytest.mark.parametrize("loops", [0, 2])
def test_script_with_another_number_of_loops_is_refused(loops):
    source = 'if __name__ == "__main__":\n    pass\n'
    source += "    for i in range(2): envs.step(i)\n" * loops
    with pytest.raises(SpecError, match=f"has {loops or 'no'} loops"):
        compile_script(source, "script.py")
