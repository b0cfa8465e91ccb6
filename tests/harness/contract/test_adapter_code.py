"""What is found of packages that bring adapters and algorithms."""

import dataclasses
import importlib.metadata
import types

import pytest
import support

from parallax.harness.contract import adapter
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with an adapter of a framework of its own."""
    (tmp_path / "acme_rl").mkdir()
    (tmp_path / "acme_rl" / "__init__.py").write_text("class Acme: pass\n")
    (tmp_path / "acme_rl" / "sb3_settings.py").write_text("VALUE = 7\n")
    support.register(tmp_path, {"parallax.adapters": {"acme": "acme_rl:Acme"}})
    (info,) = tmp_path.glob("*.dist-info")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-rl\nVersion: 1.2\n"
        "Requires-Dist: numpy>=1.20\nRequires-Dist: acme.core[gpu]<2; python_version>'3'\n"
        "Requires-Dist: pytest; extra == 'dev'\n"
    )
    info.rename(tmp_path / "acme_rl-1.2.dist-info")
    monkeypatch.syspath_prepend(tmp_path)
    entries = importlib.metadata.entry_points(group="parallax.adapters")
    found = {entry.name: entry for entry in entries}
    monkeypatch.setattr(adapter, "find_adapter_entry_points", lambda: found)
    return tmp_path / "acme_rl"


def test_code_of_an_adapter_has_its_distribution_and_what_that_requires(package):
    found = adapter.describe_adapter_code("acme_rl:Acme")
    assert (found["distribution"], found["version"]) == ("acme-rl", "1.2")
    assert found["requires"] == ["acme.core", "numpy"]
    assert sorted(found["files"]) == ["__init__.py", "sb3_settings.py"]


def test_a_package_brings_what_adapters_need_for_its_algorithms(package, monkeypatch):
    kind = type("Mine", (), {"__module__": "acme_rl.algorithms.mine"})
    monkeypatch.setitem(ALGORITHMS, "mine", kind)
    assert adapter.load_package_module("mine", "sb3_settings").VALUE == 7
    assert adapter.load_package_module("mine", "torchrl_settings") is None
    assert adapter.load_package_module("unknown", "sb3_settings") is None


def test_steps_are_at_most_what_a_float_counts():
    one = support.spec(steps=600)
    stored = spec_to_dict(one)
    assert spec_from_dict(stored | {"steps": 2**53, "eval_every": 2**53}).steps == 2**53
    with pytest.raises(SpecError, match=f"steps={2**53 + 1} must be at most {2**53}"):
        spec_from_dict(stored | {"steps": 2**53 + 1, "eval_every": 300})


class BareAdapter(adapter.Adapter):
    """An adapter that overrides nothing."""

    name, packages = "bare", ()


def test_an_adapter_that_says_nothing_supports_nothing_special(tmp_path, monkeypatch):
    bare = BareAdapter()
    monkeypatch.setattr(BareAdapter, "folder", tmp_path)
    assert bare.list_patchable_fields("ppo") == frozenset()
    assert bare.training_modules("ppo") == ()
    assert bare.why_unsupported_replay("dqn", None) == (
        "its adapter has no replay strategy besides its own"
    )
    assert bare.why_unsupported_device("ppo", "cuda", True).endswith("Use device=cpu.")
    refuse = bare.why_unsupported_acceleration
    assert refuse("ppo", "compile", "cpu", True) == "its adapter has no acceleration"
    monkeypatch.setattr(BareAdapter, "accelerations", ("eager",))
    assert refuse("ppo", "eager", "cpu", True) == ""
    assert refuse("ppo", "compile", "cpu", True) == "its adapter does not carry it"
    assert bare.why_unobservable_acceleration("compile") == ""
    with bare.apply_acceleration("compile") as nothing:
        assert nothing is None
    assert bare.diff_script("ppo", None) == ""
    with pytest.raises(SpecError, match="script=None: framework=bare runs no script of its own"):
        bare.check_script("ppo", None, types.SimpleNamespace(script=None), here=True)


def test_fields_that_patches_change_are_those_in_the_adapters_file():
    found = adapter.load_adapter("cleanrl")
    fields = found.list_patchable_fields("ppo")
    assert fields and fields <= {f.name for f in dataclasses.fields(ALGORITHMS["ppo"])}
    assert found.list_patchable_fields("unheard") == frozenset()
