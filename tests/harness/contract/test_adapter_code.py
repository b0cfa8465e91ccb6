"""Discovery of packages with adapters and algorithms."""

import dataclasses
import importlib
import importlib.metadata
import types

import numpy as np
import pytest
import support

from parallax.envs.tasks import Task
from parallax.harness.cli.arguments import select_frameworks
from parallax.harness.contract import adapter, adapter_discovery
from parallax.harness.contract.algorithms import ALGORITHMS
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.packages import find_entry_points
from parallax.harness.contract.recipes import load_recipe
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
    monkeypatch.setattr(adapter_discovery, "find_adapter_entry_points", lambda: found)
    return tmp_path / "acme_rl"


def test_code_of_an_adapter_has_its_distribution_and_what_that_requires(package):
    found = adapter_discovery.describe_adapter_code("acme_rl:Acme")
    assert (found["distribution"], found["version"]) == ("acme-rl", "1.2")
    assert found["requires"] == ["acme.core", "numpy"]
    assert sorted(found["files"]) == ["__init__.py", "sb3_settings.py"]


def test_modules_of_an_algorithm_package_are_loaded_by_name(package, monkeypatch):
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


def test_entry_points_follow_changes_of_the_module_path(tmp_path, monkeypatch):
    groups = {"own.group": {"a": "json:loads", "b": "json:dumps"}, "other": {"c": "json:loads"}}
    support.register(tmp_path, groups)
    assert list(find_entry_points("own.group")) == []
    monkeypatch.syspath_prepend(tmp_path)
    found = find_entry_points("own.group")
    assert {entry.name: entry.value for entry in found} == groups["own.group"]
    monkeypatch.setattr(importlib.metadata, "entry_points", None)  # they are searched once
    assert find_entry_points("own.group") == found


def test_broken_adapters_hide_no_others_and_names_are_unique(monkeypatch, capsys):
    """Its package may be damaged, and another one may take the name of a framework."""
    own = adapter_discovery.find_adapter_entry_points()["sb3"]
    others = {"aa": "no_such_module:X", "bb": "json:loads", "cc": "json:JSONDecoder"}
    others |= {"dd": "sys:exit"}
    entries = [importlib.metadata.EntryPoint(name, value, "") for name, value in others.items()]
    monkeypatch.setattr(adapter_discovery, "find_entry_points", lambda group: [own, *entries])
    assert adapter_discovery.list_usable_frameworks() == ["sb3"]
    said = capsys.readouterr().err.splitlines()
    for line, (name, value) in zip(said, others.items(), strict=True):
        assert line.startswith(f"Left out: framework={name} cannot be used ({value}: ")
    assert select_frameworks(["sb3", "aa"]) == ["sb3", "aa"]  # `aa` is refused where it is used
    assert capsys.readouterr().err == ""
    clash = importlib.metadata.EntryPoint("sb3", "other:Adapter", "")
    monkeypatch.setattr(adapter_discovery, "find_entry_points", lambda group: [own, clash])
    with pytest.raises(SpecError, match="framework=sb3 is other:Adapter and parallax"):
        adapter_discovery.load_adapter("sb3")


def test_entry_points_that_name_no_object_are_left_out(tmp_path, monkeypatch):
    support.register(tmp_path, {"own.group": {"a": "!!!", "b": "json:dumps"}})
    monkeypatch.syspath_prepend(tmp_path)
    assert [entry.name for entry in find_entry_points("own.group")] == ["b"]


class BareAdapter(adapter.Adapter):
    """An adapter that overrides nothing."""

    name, packages = "bare", ()


def test_minimal_adapter_supports_no_optional_features(tmp_path, monkeypatch):
    bare = BareAdapter()
    monkeypatch.setattr(BareAdapter, "folder", tmp_path)
    assert bare.list_patchable_fields("ppo") == frozenset()
    assert bare.training_modules("ppo") == ()
    assert bare.why_unsupported_replay("dqn", None) == (
        "its adapter supports only the framework's own replay"
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
    found = adapter_discovery.load_adapter("cleanrl")
    fields = found.list_patchable_fields("ppo")
    assert fields and fields <= {f.name for f in dataclasses.fields(ALGORITHMS["ppo"])}
    assert found.list_patchable_fields("unheard") == frozenset()


SETTINGS = """
from parallax.harness.contract.translation import AlgorithmSettings


def translate(translator, hyperparameters, context):
    return translator._patchable, translator._converts_meanings, hyperparameters, translator.options


def set_run_options(translator, context):
    translator.options = f"seed {context.seed}"


ALGORITHMS = {
    "ppo": AlgorithmSettings(translate, None, frozenset({"discrete"})),
    "td3": AlgorithmSettings(translate, lambda recipe, context: (recipe, context)),
}
"""
TRAIN = """
def train(*arguments):
    arguments[-1].append(arguments[:-1])
"""
PROBING = """
def probe_training(*arguments):
    return arguments
"""
TASK = Task("A-v0", 3, (-1.0,), (1.0,), 0, 0)
CONTEXT = adapter.RunContext(TASK, 100, seed=5, acceleration="eager")


@pytest.fixture
def own_adapter(package, monkeypatch):
    """An adapter whose package has a module for each task."""
    (package / "settings.py").write_text(SETTINGS)
    (package / "train.py").write_text(TRAIN)
    (package / "acme_settings.py").write_text("SETTINGS = 7")
    values = {"__module__": "acme_rl", "name": "acme", "packages": ("acme-rl", "torch", "b")}
    kind = type("Acme", (adapter.Adapter,), values | {"rebuilt_packages": ("acme_rl.scripts",)})
    for name in ("acme_rl", "acme_rl.settings", "acme_rl.train", "acme_rl.probing"):
        monkeypatch.delitem(adapter.sys.modules, name, raising=False)
    importlib.import_module("acme_rl")
    return kind()


def test_modules_of_derived_adapters_are_in_their_package(own_adapter, package):
    derived = type("Derived", (type(own_adapter),), {"__module__": "elsewhere"})()
    for one in (own_adapter, derived):
        assert (one.package, one.folder) == ("acme_rl", package)
        assert one.upstream_modules == ("acme_rl", "b", "acme_rl.scripts")
    assert (adapter.Adapter().package, derived.sources("ppo")) == (adapter.__name__, {})
    assert own_adapter.runs_module("ppo", "b", CONTEXT) is True
    assert own_adapter.upstream_defaults("ppo") is None
    assert own_adapter.why_unsupported_actors("ppo") == (
        "it steps its environments in the learner's process"
    )


def test_settings_come_from_the_adapter_or_the_algorithm_package(own_adapter, monkeypatch):
    kind = type("Mine", (), {"__module__": "acme_rl.algorithms", "actions": "discrete"})
    monkeypatch.setitem(ALGORITHMS, "mine", kind)
    assert own_adapter.find_algorithm_settings("mine") == 7
    assert own_adapter.supports("ppo") is own_adapter.supports("mine") is True
    assert own_adapter.find_algorithm_settings("sac") is None and not own_adapter.supports("sac")
    assert adapter.get_action_kinds(own_adapter, "ppo") == {"continuous", "discrete"}
    assert adapter.get_action_kinds(own_adapter, "td3") == {"continuous"}
    for call in (
        own_adapter.extra_action_spaces,
        lambda name: own_adapter.translate(name, load_recipe("sac", "sb3"), CONTEXT),
        lambda name: own_adapter.get_library_defaults(name, None, CONTEXT),
    ):
        with pytest.raises(SpecError, match=r"^framework=acme has no algorithm=sac\.$"):
            call("sac")


def test_defaults_are_coupled_as_declared_by_the_settings(own_adapter):
    recipe = load_recipe("ppo", "sb3")
    assert own_adapter.get_library_defaults("ppo", recipe, CONTEXT) is recipe
    assert own_adapter.get_library_defaults("td3", recipe, CONTEXT) == (recipe, CONTEXT)
    scaled = adapter.scale_cycle_to_envs(
        load_recipe("td3", "sb3"), dataclasses.replace(CONTEXT, n_envs=3)
    )
    own = load_recipe("td3", "sb3")
    assert scaled == dataclasses.replace(own, train_freq=3 * own.train_freq)


def test_patches_and_conversions_are_used_if_the_run_allows_them(own_adapter, package):
    recipe = load_recipe("ppo", "sb3")
    assert own_adapter.translate("ppo", recipe, CONTEXT) == ((), False, recipe, "seed 5")
    (package / "patches.yaml").write_text(
        "gamma: {algorithms: [ppo, td3]}\n"
        "adam_eps: [{algorithms: [sac]}, {algorithms: [ppo]}]\n"
        "tau: {algorithms: [td3]}\n"
    )
    context = dataclasses.replace(CONTEXT, patch_constants=True, converts_meanings=True)
    fields = frozenset({"gamma", "adam_eps"})
    assert own_adapter.translate("ppo", recipe, context) == (fields, True, recipe, "seed 5")
    assert own_adapter.translate("ppo", recipe, CONTEXT)[0] == ()
    assert own_adapter.list_patchable_fields("sac") == {"adam_eps"}
    (package / "patches.yaml").write_text("")
    assert own_adapter.list_patchable_fields("ppo") == frozenset()


def test_trainings_and_probes_are_those_of_the_package_under_the_acceleration(
    own_adapter, package, monkeypatch
):
    active, trained = [], []

    class Accelerated:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            active.append(self.name)

        def __exit__(self, *_):
            active.append("over")

    monkeypatch.setattr(
        type(own_adapter), "apply_acceleration", lambda self, name: Accelerated(name)
    )
    own_adapter.train("ppo", "native", CONTEXT, "make_env", trained)
    assert trained == [("ppo", "native", CONTEXT, "make_env")] and active == ["eager", "over"]
    assert not own_adapter.is_probeable
    (package / "probing.py").write_text(PROBING)
    importlib.invalidate_caches()
    assert own_adapter.is_probeable
    arguments = ("ppo", "native", CONTEXT, "script", "watch")
    assert own_adapter.probe(*arguments) == arguments
    assert active == ["eager", "over"] * 2


def test_a_framework_is_installed_if_all_its_modules_and_its_version_are(own_adapter, monkeypatch):
    kind, checked = type(own_adapter), []
    versions = types.SimpleNamespace(check_installed=lambda: checked.append(True))
    own_adapter.check_installed()
    monkeypatch.setattr(kind, "supported_versions", versions)
    monkeypatch.setattr(kind, "import_names", ("json", "acme_rl"))
    own_adapter.check_installed()
    assert checked == [True]
    monkeypatch.setattr(kind, "import_names", ("json", "no_such_module"))
    monkeypatch.setattr(kind, "install_command", "pip install acme-rl")
    with pytest.raises(SpecError, match=r"^framework=acme needs: pip install acme-rl$"):
        own_adapter.check_installed()
    assert checked == [True]


def test_code_of_an_adapter_in_one_module_or_none(package, tmp_path):
    (tmp_path / "single.py").write_text("class One: pass\n")
    (tmp_path / "other.py").touch()
    importlib.invalidate_caches()
    found = adapter_discovery.describe_adapter_code("single:One")
    assert (found["distribution"], found["version"], found["requires"]) == (None, None, [])
    assert list(found["files"]) == ["single.py"] and len(found["files"]["single.py"]) == 64
    assert adapter_discovery.describe_adapter_code("no_such_module:One")["files"] == {}
    assert (
        adapter_discovery.describe_adapter_code("parallax.adapters.sb3:SB3Adapter")["requires"]
        == []
    )
    assert adapter_discovery._list_requirements(types.SimpleNamespace(requires=None)) == []


def test_a_policy_without_memory_plays_episodes_as_it_acts():
    player = adapter.begin_episodes(lambda observations: observations + 1)
    assert player(np.zeros(2)).tolist() == [1, 1]
    assert player.observe_rewards(np.zeros(2)) is None

    class Recurrent:
        def __call__(self, observations):
            return observations

        def begin(self):
            return "a player"

    assert adapter.begin_episodes(Recurrent()) == "a player"


def test_an_unknown_framework_is_refused_with_the_closest_name():
    with pytest.raises(SpecError, match=r"^framework=SB3 is not known\. Did you mean sb3\?"):
        adapter_discovery.load_adapter("SB3")
    assert adapter_discovery.load_adapter("sb3").name == "sb3"
