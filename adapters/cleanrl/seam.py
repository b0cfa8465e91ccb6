"""The seam at the head of a script's loop, where a training is kept and goes on.

The script's text stays as it is. It is parsed, and what its one loop counts through is handed to
`Seam` and comes back number by number: a killed training's set-up runs as ever, its names are
laid in at the first number, and the loop goes on with the number of then. Between two numbers all
that the training is lies in the script's global names, in the environments and in the generators.
"""

import ast
from collections.abc import Callable, Collection, Iterator, Sequence
from types import CodeType
from typing import Any

from adapters.torch_common.state import KINDS
from harness.contract.adapter import Resumable
from harness.contract.capture import NotLaidInError, Reader, State, Writer

NAME = "__seam__"
"""What the script's loop calls, among the script's builtins."""

_LOST: Any = object()


def compiled(source: str, path: str) -> CodeType:
    """The script with the seam at the head of its loop.

    Raises:
        ValueError: It does not have one loop at the top level of what it does as `__main__`.
    """
    tree = ast.parse(source, path)
    mains = [node for node in tree.body if isinstance(node, ast.If)]
    loops = [node for main in mains for node in main.body if isinstance(node, ast.For)]
    if len(loops) != 1:
        raise ValueError(f"{path} has {len(loops)} loops at its top level, and needs one")
    numbers = loops[0].iter
    called = ast.Call(ast.Name(NAME, ast.Load()), [numbers], [])
    loops[0].iter = ast.fix_missing_locations(ast.copy_location(called, numbers))
    return compile(tree, path, "exec")


class Seam:
    """Hands a loop its numbers, and tells what goes on from one of them."""

    def __init__(
        self,
        names: dict[str, Any],
        boundary: Callable[[], None],
        outside: Callable[[], Collection[Any]],
    ) -> None:
        """Has handed out nothing yet.

        Args:
            names: The script's global names, which it fills.
            boundary: Called before each number; may ask for the state, or lay one in.
            outside: Objects that somebody else keeps, such as the environments.
        """
        self._names, self._boundary, self._outside = names, boundary, outside
        self._at = 0

    def __call__(self, numbers: Sequence[int]) -> Iterator[int]:
        """The numbers from the first one that is due."""
        self._at = 0
        while self._at < len(numbers):
            self._boundary()
            yield numbers[self._at]
            self._at += 1

    def resumable(self) -> Resumable:
        """How the training goes on."""
        return Resumable(self._state, self._lay_in)

    def _state(self) -> State:
        reader = Reader(KINDS, self._outside())
        own = {name: value for name, value in self._names.items() if not name.startswith("__")}
        return {"at": self._at, "names": {name: reader.read(own[name], name) for name in own}}

    def _lay_in(self, state: State) -> None:
        writer = Writer(KINDS)
        for name, told in state["names"].items():
            found = writer.write(self._names.get(name, _LOST), told, name)
            if found is _LOST:
                raise NotLaidInError(f"{name} is not there and cannot be made again")
            self._names[name] = found
        self._at = state["at"]
