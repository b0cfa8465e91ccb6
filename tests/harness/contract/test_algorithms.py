import dataclasses

import pytest
import support
from hypothesis import given
from hypothesis import strategies as st

from parallax.envs.tasks import load_task
from parallax.harness.contract.adapter import RunContext
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.algorithms import ALGORITHMS, BUILTIN_ALGORITHMS, collect_algorithms
from parallax.harness.contract.algorithms.ppo import PPO
from parallax.harness.contract.fields import SpecError, build_dataclass
from parallax.harness.contract.recipes import (
    find_recipe_files,
    list_recipe_names,
    load_recipe,
    read_recipe,
)
from parallax.harness.contract.run_spec import RUN_DEFAULTS, spec_from_dict, spec_to_dict
from parallax.harness.train.prepare import prepare_run, resolve_hyperparameters

FURTHER = {"ppo": ["minatar", "zoo"], "dqn": ["minatar", "zoo"], "ddpg": ["zoo"], "r2d2": ["cpu"]}
PAIRS = support.pairs()
TRIPLES = [
    pytest.param(*pair.values, hps, marks=pair.marks)
    for pair in PAIRS
    for hps in [*support.supported(pair.values[1]), "original", *FURTHER.get(pair.values[1], [])]
]
_CLIPPED = "value_clip_range=0.2: in sbx it is fixed at null"
NOT_FOR = {
    ("skrl", "sac", "cleanrl"): "initial_temperature=0.2: in cleanrl it is fixed at 1.0",
    **{(hps, "ppo", "sbx"): _CLIPPED for hps in ("cleanrl", "minatar", "skrl", "tianshou")},
}
"""Recipe, algorithm and framework that do not go together under any alignment, and why."""
WIDE = {"continuous": "HalfCheetah-v4", "discrete": "CartPole-v1"}


def test_each_framework_and_the_papers_have_recipes_in_field_order_with_sources():
    for algorithm, cls in ALGORITHMS.items():
        assert list_recipe_names(algorithm) == sorted(
            [*support.supported(algorithm), "original", *FURTHER.get(algorithm, [])]
        )
        for name in list_recipe_names(algorithm):
            load_recipe(algorithm, name)
            fields = [field.name for field in dataclasses.fields(cls)]
            assert list(read_recipe(algorithm, name)) == fields
            lines = find_recipe_files(algorithm)[name].read_text().splitlines()
            values = [line for line in lines if line.split(":")[0] in fields]
            assert len(values) == len(fields)
            assert all("  # " in line for line in values)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_thesis_fields_are_fields(algorithm):
    assert ALGORITHMS[algorithm].common_fields <= {
        f.name for f in dataclasses.fields(ALGORITHMS[algorithm])
    }


@pytest.mark.parametrize(("framework", "algorithm", "hps"), TRIPLES)
def test_every_recipe_translates_under_the_thesis_alignment(framework, algorithm, hps):
    spec = support.spec(framework, algorithm, hps, steps=10_000)
    if reason := NOT_FOR.get((hps, algorithm, framework)):
        with pytest.raises(SpecError, match=reason):
            prepare_run(spec, load_adapter(framework))
        return
    check_nothing_is_dropped(prepare_run(spec, load_adapter(framework)))


def check_nothing_is_dropped(prepared):
    """Each hyperparameter has a row, which reaches the settings or is what the framework fixes."""
    native, requested = prepared.native, dataclasses.asdict(prepared.hyperparameters)
    assert [row.field for row in native.alignment] == list(requested)
    for row in native.alignment:
        if row.kind == "rounded":
            assert requested[row.field] < row.value == row.native_value, row.field
        else:
            assert row.value == requested[row.field], row.field
        if row.kind == "patched":
            assert row.native_value == row.value, row.field
        elif not row.is_fixed:
            assert native.settings[row.native_name] == row.native_value, row.field


@pytest.mark.parametrize(("framework", "algorithm", "hps"), TRIPLES)
def test_every_recipe_translates_in_full_or_is_refused_with_field_and_framework(
    framework, algorithm, hps
):
    # Bounds of 1: a framework's own noises are in its own units.
    spec = support.spec(
        framework,
        algorithm,
        hps,
        env=WIDE[ALGORITHMS[algorithm].actions],
        steps=10_000,
        alignment="exact",
    )
    try:
        prepared = prepare_run(spec, load_adapter(framework))
    except SpecError as error:
        assert "hyperparameters." in str(error) and f"in {framework} it is" in str(error)
    else:
        assert prepared.hyperparameters == spec.hyperparameters
        check_nothing_is_dropped(prepared)


@pytest.mark.parametrize(("framework", "algorithm"), PAIRS)
def test_own_recipe_in_full_is_the_same_as_under_thesis(framework, algorithm):
    task = load_task(WIDE[ALGORITHMS[algorithm].actions])
    context = RunContext(task, steps=10_000, seed=0)
    own = load_recipe(algorithm, framework)
    adapter = load_adapter(framework)
    assert resolve_hyperparameters(
        adapter, algorithm, own, "common", context
    ) == resolve_hyperparameters(adapter, algorithm, own, "full", context)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": -1}, r"seed=-1 must be at least 0"),
        ({"steps": 0}, r"steps=0 must be at least 1"),
        ({"steps": 1.5}, r"steps=1\.5 must be a whole number"),
        ({"eval_every": 601}, r"eval_every=601 is longer than the run of steps=600"),
        ({"framework": "sb33"}, r"framework=sb33 is not known. Did you mean sb3\?"),
        ({"algorithm": "a2c"}, r"algorithm='a2c' must be one of: ppo, td3, sac, ddpg, dqn"),
        (
            {"alignment": "none"},
            r"alignment='none' must be one of: defaults, common, exact, lockstep",
        ),
        ({"wrappers": "some"}, r"wrappers='some' must be one of"),
        ({"threads": 0}, r"threads=0 must be at least 1"),
        ({"steps": float("inf")}, r"steps=inf must be a whole number"),
        ({"steps": float("nan")}, r"steps=nan must be a whole number"),
        ({"seed": float("nan")}, r"seed=nan must be a whole number"),
        ({"study": "../x"}, r"study='../x' must be a valid folder name"),
    ],
)
def test_bad_values_are_refused_by_name(changes, message):
    hps = "sb3"
    algorithm = changes.pop("algorithm", "ppo")
    with pytest.raises(SpecError, match=message):
        if algorithm == "a2c":
            from parallax.harness.contract.run_spec import make_run_spec

            values = spec_to_dict(support.spec()) | {"algorithm": algorithm}
            make_run_spec(values, {}, {})
        support.spec(algorithm=algorithm, hps=hps, **changes)


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"gamma": 1.1}, r"hyperparameters\.gamma=1\.1 must be at most 1"),
        ({"gama": 0.9}, r"hyperparameters\.gama is not known. Did you mean gamma\?"),
        ({"learning_rate": "fast"}, r"hyperparameters\.learning_rate='fast' must be a number"),
        ({"learning_rate": float("nan")}, r"must be finite"),
        ({"learning_rate": 10**400}, r"hyperparameters\.learning_rate must be below"),
        ({"epochs": 2.5}, r"epochs=2\.5 must be a whole number"),
        ({"hidden_sizes": 64}, r"hidden_sizes=64 must be a list"),
        ({"hidden_sizes": []}, r"hidden_sizes=\[\] must have at least one entry"),
        ({"hidden_sizes": [64, 0]}, r"hidden_sizes=0 must be at least 1"),
        ({"normalize_advantage": 1}, r"must be true or false"),
        ({"learning_rate_schedule": "cosine"}, r"must be one of: constant, linear"),
        ({"gae_lambda": None}, r"gae_lambda=None must be a number"),
    ],
)
def test_bad_hyperparameters_are_refused_by_name(hyperparameters, message):
    with pytest.raises(SpecError, match=message):
        support.spec(hyperparameters=hyperparameters, alignment="exact")


def test_override_without_effect_is_refused():
    with pytest.raises(
        SpecError, match=r"max_grad_norm=0\.1 would have no effect.*alignment=exact"
    ):
        support.spec(hyperparameters={"max_grad_norm": 0.1})
    support.spec(hyperparameters={"max_grad_norm": 0.1}, alignment="exact")


def test_variant_distinguishes_settings_missing_in_the_path():
    plain = support.spec().variant
    others = [
        support.spec(hyperparameters={"gamma": 0.98}).variant,
        support.spec(alignment="exact").variant,
        support.spec(threads=2).variant,
        support.spec(wrappers="normalized").variant,
        support.spec(eval_every=200).variant,
        support.spec(steps=700).variant,
    ]
    assert len({plain, *others}) == 7
    assert support.spec(hyperparameters={"gamma": 0.98}, eval_every=600).variant == (
        "steps=600,eval_every=600,eval_episodes=2,rollout_steps=576,gamma=0.98"
    )


def test_long_variants_fit_a_file_name():
    many = {f.name: 0.123456 for f in dataclasses.fields(PPO) if f.type is float}
    spec = support.spec(hyperparameters=many, alignment="exact")
    assert len(spec.variant) < 200 and "/" not in spec.variant


def test_spec_json_round_trip_is_lossless():
    import json

    spec = support.spec(hyperparameters={"gamma": 0.98})
    assert spec_from_dict(json.loads(json.dumps(spec_to_dict(spec)))) == spec


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": "many"}, r"steps='many' must be a whole number"),
        ({"algorithm": "a2c"}, r"algorithm='a2c' must be one of"),
        ({"study": "../x"}, r"study='../x' must be a valid folder name"),
        ({"hyperparameters": []}, r"hyperparameters=\[\] must be a mapping"),
        ({"hyperparameters": {}}, r"hyperparameters lacks learning_rate"),
        ({"overridden": [["gamma"]]}, r"overridden=.* must list names"),
        ({"overridden": None}, r"overridden=None must list names"),
        ({"python": 3}, r"python=3 must be the path"),
        ({"colour": 1}, r"spec has no field colour"),
    ],
)
def test_stored_spec_that_is_damaged_is_refused_by_name(changes, message):
    with pytest.raises(SpecError, match=message):
        spec_from_dict(spec_to_dict(support.spec()) | changes)


def test_stored_spec_that_lacks_fields_is_refused_by_name():
    stored = spec_to_dict(support.spec())
    later = {"python", "overridden", "diagnosis", "logger", "checkpoint_every", "replay", "patches"}
    later |= {"env_kwargs", "env_wrappers", "script"}
    later |= {"endpoint", "evaluate_untrained"}
    for name in stored.keys() - RUN_DEFAULTS.keys() - later:
        with pytest.raises(SpecError, match=f"spec lacks {name}"):
            spec_from_dict({key: value for key, value in stored.items() if key != name})
    for content in (None, [], "spec"):
        with pytest.raises(SpecError, match="spec is missing"):
            spec_from_dict(content)


@given(st.dictionaries(st.text(), st.none() | st.floats() | st.text() | st.lists(st.integers())))
def test_any_mapping_builds_or_is_refused(values):
    with pytest.raises(SpecError):
        build_dataclass(PPO, values, "hyperparameters")


@pytest.mark.parametrize(
    ("framework", "algorithm", "env", "message"),
    [
        (
            "cleanrl",
            "td3",
            "CartPole-v1",
            r"has discrete .* algorithm=td3 .*=ppo or dqn, or another",
        ),
        ("sb3", "sac", "CartPole-v1", r"has discrete .* algorithm=sac .*=ppo or dqn, or another"),
        ("sb3", "dqn", "Hopper-v4", r"has continuous .*=ppo or td3 or sac or ddpg, or another"),
    ],
)
def test_an_algorithm_for_other_actions_is_refused(framework, algorithm, env, message):
    with pytest.raises(SpecError, match=f"env={env} {message}"):
        prepare_run(support.spec(framework, algorithm, env=env), load_adapter(framework))


class Entry:
    """Fake entry point of a package's algorithm."""

    def __init__(self, name, found):
        self.name, self.value, self._printed_findings = name, f"theirs:{found}", found

    def load(self):
        if isinstance(self._printed_findings, BaseException):
            raise self._printed_findings
        return self._printed_findings


def test_algorithm_entry_points_are_loaded_and_broken_ones_reported():
    entries = [
        Entry("theirs", ALGORITHMS["td3"]),
        Entry("broken", ImportError("no such library")),
        Entry("no_class", 3),
        Entry("ppo", PPO),
        Entry("Not-A-Name", PPO),
    ]
    usable, unusable = collect_algorithms(entries)
    assert list(usable) == [*BUILTIN_ALGORITHMS, "theirs"]
    assert "ImportError: no such library" in unusable["broken"]
    assert set(unusable) == {"broken", "no_class", "ppo", "Not-A-Name"}


def test_a_package_that_ends_python_or_shares_a_name_is_left_out():
    entries = [
        Entry("ends", SystemExit(0)),
        Entry("shared", ALGORITHMS["td3"]),
        Entry("shared", ALGORITHMS["sac"]),
    ]
    usable, unusable = collect_algorithms(entries)
    assert usable == BUILTIN_ALGORITHMS
    assert "SystemExit" in unusable["ends"] and "uninstall one" in unusable["shared"]


@pytest.mark.parametrize(
    ("algorithm", "values", "field"),
    [
        ("ppo", {"minibatch_size": 1}, "minibatch_size=1"),
        ("ppo", {"rollout_steps": 65, "minibatch_size": 32}, "minibatch_size=32"),
        ("dqn", {"exploration_initial": 0.1, "exploration_final": 0.2}, "exploration_final=0.2"),
    ],
)
def test_values_that_no_framework_can_learn_with_are_refused_in_all(algorithm, values, field):
    recipe = dataclasses.replace(load_recipe(algorithm, "original"), **values)
    with pytest.raises(SpecError, match=f"hyperparameters.{field}"):
        recipe.resolve_for_task(load_task("CartPole-v1"))


def test_minibatches_of_one_transition_are_allowed_where_nothing_is_normalized():
    values = {"rollout_steps": 65, "minibatch_size": 32, "normalize_advantage": False}
    recipe = dataclasses.replace(load_recipe("ppo", "original"), **values)
    assert recipe.resolve_for_task(load_task("CartPole-v1")) == recipe
