"""Complete runs that other code of an adapter made than is installed now."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.contract.adapter import adapter_code, find_adapter
from harness.record.files import Unusable
from harness.record.reading import read_record

_MOST_NAMED = 3


def remark(folders: Iterable[Path]) -> str:
    """Names complete runs that would come out of other code today; empty where there are none.

    Runs of before adapters' files were recorded say nothing of it, and neither does this.

    Args:
        folders: Run folders.
    """
    now: dict[str, Mapping[str, str]] = {}
    found: dict[Path, set[str]] = {}
    for folder in folders:
        try:
            record, _ = read_record(folder)
        except Unusable:
            continue
        then = record.provenance.adapter.files
        if record.status != "completed" or not then:
            continue
        framework = record.spec.framework
        if framework not in now:
            now[framework] = adapter_code(find_adapter(framework).value)["files"]
        if changed := _changed(then, now[framework]):
            found[folder] = {f"{framework}/{name}" for name in changed}
    return _words(found) if found else ""


def _changed(then: Mapping[str, str], now: Mapping[str, str]) -> set[str]:
    return {name for name in then.keys() | now.keys() if then.get(name) != now.get(name)}


def _words(found: Mapping[Path, set[str]]) -> str:
    files = _listed(sorted(set().union(*found.values())))
    folders = _listed(sorted(map(str, found)))
    return (
        f"{len(found)} complete runs were made by other code of their adapter, which changed since "
        f"in {files}: {folders}. They are kept as they are; to make them anew, remove their "
        "folders or choose another study.name."
    )


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
