"""Static checks of a user's own copy of a CleanRL script; the copy is not executed.

The bridge replaces the environments, the command line and the summary writer of a script, and
takes the networks from its global names. A copy that has these parts can be trained.
"""

import ast
import builtins
import difflib
import importlib.util
import symtable
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from parallax.adapters.cleanrl.scripts import read_script
from parallax.adapters.cleanrl.settings import (
    ALGORITHMS,
    BUFFER_SETTING,
    get_script_kind,
    make_script_arguments,
)
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.translation import NativeConfig

STAND_INS = {
    "gym": {"RecordEpisodeStatistics"},
    "gymnasium": {
        *("FlattenObservation", "RecordEpisodeStatistics", "ClipAction"),
        *("NormalizeObservation", "TransformObservation", "NormalizeReward", "TransformReward"),
    },
}
"""Wrappers that the bridge knows, by the module that the script imports them from."""

PROVIDED_MODULES = frozenset({"gym", "gymnasium", "tyro", "cleanrl_utils", "argparse"})
"""Packages that the bridge replaces, so that they need not be installed."""

BUFFER_MODULE = "stable_baselines3.common.buffers"
"""Module that the scripts import their buffer from."""

COPIED_BUFFER_MODULE = "cleanrl_utils.buffers"
"""Module of later scripts, which is a copy of that one."""

_PLAIN = ("make", "spaces")
_ENVIRONMENT_PARTS = (*_PLAIN, "wrappers", "vector")  # of the modules in STAND_INS

_UNUSED_WRAPPERS = {"RecordVideo"}  # of videos, which are never requested

_READ_ATTRIBUTES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "ppo": {"agent": ("actor_mean",)},
    "td3": {"actor": ("forward",)},
    "sac": {"actor": ("forward", "action_scale", "action_bias")},
    "ddpg": {"actor": ("forward",)},
    "dqn": {"q_network": ("forward",)},
}
"""Attributes of networks that the greedy policy reads, by algorithm and network."""

_DISCRETE_PPO_ATTRIBUTES: Mapping[str, Sequence[str]] = {"agent": ("actor",)}


def check_own_script(
    algorithm: str, native: NativeConfig, context: RunContext, here: bool = True
) -> None:
    """Check that a user's own script has the parts that the bridge needs.

    Args:
        algorithm: Name of the algorithm.
        native: Settings of the run, which the script's command line must take.
        context: The run, with the script.
        here: Whether this interpreter trains, and so needs the packages that the script imports.

    Raises:
        SpecError: Names the part that is missing, and the remedy.
    """
    script = context.script
    assert script is not None
    where = f"script={script.name}"
    if context.task.image:
        raise SpecError(
            f"{where}: env={context.task.env_id} shows images, and own scripts are run on flat "
            "observations only. Use another task, or leave script out."
        )
    tree = _parse_script(script.source, where)
    find_main_loop(tree, where)
    defined = _list_defined_names(script.source, script.name)
    _check_algorithm(algorithm, defined, where)
    for name in ("args", "envs", *ALGORITHMS[algorithm].networks):
        if name not in defined:
            raise SpecError(
                f"{where} defines no global variable {name}, which CleanRL's script of "
                f"algorithm={algorithm} has: name it so at the top level of the block __main__."
            )
    _check_undefined_names(tree, script.source, defined, where)
    if here:
        _check_imports(tree, where)
    _check_environment_imports(tree, where)
    _check_wrappers(tree, where)
    if BUFFER_SETTING in native.settings:
        _check_buffer(tree, context.replay.name, where)
    _check_networks(algorithm, bool(context.task.choices), tree, where)
    _check_options(algorithm, native, tree, where)


def _parse_script(source: str, where: str) -> ast.Module:
    try:
        compile(source, where, "exec", dont_inherit=True)  # finds more errors than the parser
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        reason = error.args[0] if error.args else type(error).__name__
        raise SpecError(f"{where}{line} is not valid Python: {reason}.") from error


def find_main_loop(tree: ast.Module, where: str) -> ast.For:
    """Return the loop over environment steps or updates, at the top level of a script's main block.

    Raises:
        SpecError: There is none, there are several, or it does not count with `range`.
    """
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    blocks = [block for block in blocks if "__name__" in _list_read_names(block.test)]
    if not blocks:
        raise SpecError(
            f'{where} has no block `if __name__ == "__main__":` with the training in it, as '
            "CleanRL's scripts have. Move the training there, out of functions."
        )
    inside = [node for block in blocks for node in block.body]
    loops = [node for node in inside if isinstance(node, ast.For | ast.While)]
    loops = [node for node in loops if _has_call(node, "envs", "step")]
    if len(loops) != 1:
        raise SpecError(
            f"{where} has {len(loops) or 'no'} loops with envs.step(...) at the top level of the "
            "block __main__, and needs one, as CleanRL's scripts have."
        )
    loop = loops[0]
    if isinstance(loop, ast.While) or not _is_range(loop.iter):
        raise SpecError(
            f"{where}, line {loop.lineno}: the main loop must count with range, such as "
            "`for global_step in range(args.total_timesteps):`, so that a checkpoint can resume it."
        )
    return loop


def diff_own_script(algorithm: str, context: RunContext) -> str:
    """Return the unified diff from the wheel's script to the user's own."""
    script = context.script
    assert script is not None
    path, shipped = read_script(algorithm, get_script_kind(context.task))
    lines = difflib.unified_diff(
        shipped.splitlines(keepends=True),
        script.source.splitlines(keepends=True),
        f"cleanrl/{path.name}",
        script.name,
    )
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def _is_range(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    )


def _has_call(tree: ast.AST, owner: str, method: str) -> bool:
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(
        isinstance(call, ast.Attribute)
        and call.attr == method
        and isinstance(call.value, ast.Name)
        and call.value.id == owner
        for call in calls
    )


def _list_read_names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _list_defined_names(source: str, name: str) -> set[str]:
    return _collect_global_names(
        symtable.symtable(source, name, "exec"),
        lambda symbol, is_module: (
            (symbol.is_assigned() or symbol.is_imported())
            and (is_module or symbol.is_declared_global())
        ),
    )


def _collect_global_names(
    table: symtable.SymbolTable, is_wanted: Callable[[symtable.Symbol, bool], bool]
) -> set[str]:
    """Return wanted names of a scope and of those inside it."""
    is_module = table.get_type() == "module"
    found = {s.get_name() for s in table.get_symbols() if is_wanted(s, is_module)}
    return found.union(*(_collect_global_names(c, is_wanted) for c in table.get_children()))


def _check_algorithm(algorithm: str, defined: Collection[str], where: str) -> None:
    """Raise an error if a script has the networks of another algorithm.

    Scripts of one algorithm hold names that another needs: TD3's has all of DDPG's and SAC's.
    """
    complete = [name for name, known in ALGORITHMS.items() if set(known.networks) <= set(defined)]
    likeliest = max(complete, key=lambda name: len(ALGORITHMS[name].networks), default=algorithm)
    needed = set(ALGORITHMS[algorithm].networks)
    found = set(ALGORITHMS[likeliest].networks)
    if likeliest == algorithm or (algorithm in complete and not needed < found):
        return
    missing = sorted(needed - set(defined))
    lacking = f" (it lacks {', '.join(missing)})" if 0 < len(missing) < len(needed) else ""
    raise SpecError(
        f"{where} has the networks of {likeliest} ({', '.join(sorted(found))}), and "
        f"algorithm={algorithm} trains {', '.join(sorted(needed))}{lacking}: use "
        f"algorithm={likeliest}, or another script."
    )


def _check_undefined_names(tree: ast.Module, source: str, defined: set[str], where: str) -> None:
    if any(
        isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)
    ):
        return
    known = defined | set(vars(builtins)) | {"__file__", "__name__", "__doc__"}
    read = _collect_global_names(
        symtable.symtable(source, where, "exec"),
        lambda symbol, is_module: symbol.is_referenced() and (is_module or symbol.is_global()),
    )
    for undefined in sorted(read - known):
        raise SpecError(
            f"{where} uses {undefined}, which it neither defines nor imports: add its definition."
        )


def _check_imports(tree: ast.Module, where: str) -> None:
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            top = name.partition(".")[0]
            if top not in PROVIDED_MODULES and not _is_importable(top):
                raise SpecError(
                    f"{where}, line {node.lineno} imports {name}, and {top} is not installed: "
                    "install it, or put its code into the script (modules beside the script are "
                    "no part of a run)."
                )


def _is_importable(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a module of this process that has no spec, such as __main__
        return True


def _check_environment_imports(tree: ast.Module, where: str) -> None:
    """Raise an error for an import that bypasses the stand-ins for modules of environments."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if "." in alias.name]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            if node.module == "gymnasium.spaces":
                continue
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            names = [n for n in names if n not in {f"{m}.{p}" for m in STAND_INS for p in _PLAIN}]
        else:
            continue
        for name in names:
            top, _, rest = name.partition(".")
            if top in STAND_INS:
                raise SpecError(
                    f"{where}, line {node.lineno} imports {name}, for which the bridge cannot "
                    f"stand in: write `import {top} as gym`, and gym.{rest} where it is used."
                )


def _check_buffer(tree: ast.Module, replay: str, where: str) -> None:
    """Raise an error for a script whose buffer the bridge cannot replace."""
    imports = any(
        isinstance(node, ast.ImportFrom)
        and node.module in (BUFFER_MODULE, COPIED_BUFFER_MODULE)
        and "ReplayBuffer" in (alias.name for alias in node.names)
        for node in ast.walk(tree)
    )
    defines = any(
        isinstance(node, ast.ClassDef) and node.name == "ReplayBuffer" for node in ast.walk(tree)
    )
    if defines or not imports:
        raise SpecError(
            f"replay={replay}: {where} has a replay buffer of its own, which the bridge cannot "
            f"replace: write `from {BUFFER_MODULE} import ReplayBuffer`, or use replay=uniform."
        )


def _check_wrappers(tree: ast.Module, where: str) -> None:
    """Raise an error for a wrapper of environments that the harness would not build."""
    modules = _list_environment_modules(tree)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and _get_name(node.value) in modules
            and node.attr not in _ENVIRONMENT_PARTS
        ):
            raise SpecError(
                f"{where}, line {node.lineno} uses {_get_name(node.value)}.{node.attr}, which the "
                f"bridge does not have: it has {', '.join(_ENVIRONMENT_PARTS)}. Take it out."
            )
    for line, alias, kind, name in _iterate_environment_parts(tree, modules):
        if kind == "vector":
            known, remedy = {"SyncVectorEnv"}, "Use SyncVectorEnv."
        else:
            known = STAND_INS[modules[alias]] | _UNUSED_WRAPPERS
            remedy = (
                "Take it out of the script, and set env.wrappers=[module:Class] or "
                "wrappers=normalized for all frameworks alike."
            )
        if name not in known:
            raise SpecError(
                f"{where}, line {line} uses {alias}.{kind}.{name}, which the bridge does not "
                f"build. {remedy}"
            )


def _list_environment_modules(tree: ast.Module) -> dict[str, str]:
    """Return the modules of environments by the names that the script gives them."""
    return {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name in STAND_INS
    }


def _iterate_environment_parts(
    tree: ast.Module, modules: Collection[str]
) -> Iterator[tuple[int, str, str, str]]:
    """Yield line, alias, `wrappers` or `vector`, and name of each `gym.wrappers.NAME`."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr in ("wrappers", "vector")
            and isinstance(node.value.value, ast.Name)
            and node.value.value.id in modules
        ):
            yield node.lineno, node.value.value.id, node.value.attr, node.attr


def _check_networks(algorithm: str, discrete: bool, tree: ast.Module, where: str) -> None:
    read = _READ_ATTRIBUTES[algorithm]
    if discrete and algorithm == "ppo":
        read = _DISCRETE_PPO_ATTRIBUTES
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for network, attributes in read.items():
        name = _find_network_class(network, tree, classes)
        if name is None:
            continue  # made in a way that only running it would show
        has = _list_member_names(classes[name], classes)
        if has is None:
            continue
        for attribute in attributes:
            if attribute not in has:
                kind = "discrete" if discrete else "continuous"
                raise SpecError(
                    f"{where}: class {name}, the {network}, has no {attribute}, which the greedy "
                    f"policy of algorithm={algorithm} for {kind} actions reads. Name it so, or "
                    "use a task and algorithm that the script is for."
                )


def _find_network_class(
    network: str, tree: ast.Module, classes: Mapping[str, ast.ClassDef]
) -> str | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and network in map(_get_name, node.targets):
            found = _list_read_names(node.value) & set(classes)
            if len(found) == 1:
                return found.pop()
    return None


def _get_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _list_member_names(owner: ast.ClassDef, classes: Mapping[str, ast.ClassDef]) -> set[str] | None:
    """Return names of methods and attributes, and string constants, which register buffers.

    Returns None if the class inherits from a class that the script does not define.
    """
    found: set[str] = set()
    others = {name: node for name, node in classes.items() if name != owner.name}
    for base in owner.bases:
        if _get_name(base) in others:
            inherited = _list_member_names(others[_get_name(base)], others)
            if inherited is None:
                return None
            found |= inherited
        elif not _is_module_class(base):
            return None
    for node in ast.walk(owner):
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def _check_options(algorithm: str, native: NativeConfig, tree: ast.Module, where: str) -> None:
    options = set(list_options(tree))
    if not options:
        raise SpecError(
            f"{where} declares no options, neither with argparse's add_argument nor in a dataclass "
            "for tyro.cli, as CleanRL's scripts do: its hyperparameters cannot be set."
        )
    fields = {row.native_name: row.field for row in native.alignment if row.native_name}
    for word in make_script_arguments(native)[::2]:
        name = word.removeprefix("--")
        if name not in options:
            field = fields.get(name)
            what = f" (hyperparameters.{field})" if field else ""
            raise SpecError(
                f"{where} has no option {word}{what}, which the script of algorithm={algorithm} "
                "has: declare it, and use it."
            )


def list_options(tree: ast.Module) -> Sequence[str]:
    """Return the options of a script's command line, without leading dashes."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_attribute(node.func, "add_argument"):
            words = [a.value for a in node.args if isinstance(a, ast.Constant)]
            found += [str(word).lstrip("-").replace("_", "-") for word in words]
    names = {
        argument.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _is_attribute(node.func, "cli")
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in names:
            fields = (item.target for item in node.body if isinstance(item, ast.AnnAssign))
            found += [_get_name(field).replace("_", "-") for field in fields]
    return found


def _is_module_class(node: ast.expr) -> bool:
    return _is_attribute(node, "Module") or _get_name(node) in ("Module", "object")


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name
