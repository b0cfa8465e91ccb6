"""Runs of a sweep are those that Hydra composes one by one, whatever is swept."""

import contextlib
import itertools
import shutil
import types
from pathlib import Path

import hydra
import pytest
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import HydraException
from hydra.types import RunMode
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from parallax.harness.cli.hydra_app import register_config_groups, spec_from_config
from parallax.harness.cli.sweep_composer import SweepLauncher, compose_sweep_specs
from parallax.harness.contract.fields import SpecError

CONF = Path(__file__).parents[3] / "harness" / "conf"
REFUSALS = (SpecError, HydraException, OmegaConfBaseException, ValueError)  # its own bugs too
JOBS = [
    ["framework=sb3", "algorithm=td3", "seed=3", "hyperparameters.tau=0.01"],
    ["framework=sb3", "algorithm=td3", "seed=4", "hyperparameters.tau=0.01"],
    ["seed=4", "framework=sb3", "algorithm=td3", "hyperparameters.tau=0.02"],
    ["framework=cleanrl", "algorithm=ppo", "seed=3", "evaluation_seed=${seed}"],
    ["framework=cleanrl", "algorithm=ppo", "seed=5", "evaluation_seed=${seed}"],
]


@contextlib.contextmanager
def sweep(folder=None, overrides=()):
    """Hydra's loader and the configuration of a sweep, from the project's files or copies."""
    register_config_groups()
    place = (
        hydra.initialize_config_dir(str(folder), version_base="1.3")
        if folder
        else hydra.initialize_config_module("parallax.harness.conf", version_base="1.3")
    )
    with place:
        loader = GlobalHydra.instance().config_loader()
        yield loader, loader.load_configuration("config", list(overrides), RunMode.MULTIRUN)


def outcome(make):
    try:
        return make()
    except REFUSALS:
        return "refused"


def check(loader, master, jobs):
    fast = outcome(lambda: compose_sweep_specs(loader, master, jobs)[0])
    slow = outcome(
        lambda: [spec_from_config(loader.load_sweep_config(master, job))[0] for job in jobs]
    )
    assert fast == slow
    return slow


def product(*axes):
    return [[word for word in job if word] for job in itertools.product(*axes)]


def test_values_that_a_study_computes_can_be_set_on_the_command_line():
    sizes = ["steps=4096", "eval_every=2048", "eval_episodes=2"]
    with sweep(overrides=["study=demo", *sizes]) as (loader, master):
        specs = check(loader, master, [["algorithm=ppo", *sizes], ["algorithm=td3", *sizes]])
        assert [(spec.steps, spec.eval_every) for spec in specs] == [(4096, 2048)] * 2
        assert check(loader, master, [["+demo_stepz.ppo=4096"]]) == "refused"


def test_runs_equal_single_compositions_by_hydra():
    with sweep(overrides=["seed=1,2"]) as (loader, master):
        specs = check(loader, master, JOBS)
    assert [spec.seed for spec in specs] == [3, 4, 4, 3, 5]
    assert [spec.evaluation_seed for spec in specs[3:]] == [3, 5]


def test_slash_in_a_task_name_creates_no_config_package():
    names = ["CartPole-v1", "MinAtar/Breakout-v1", "MinAtar/Freeway-v1"]
    jobs = [["algorithm=dqn", "hps=sb3", f"env={name}"] for name in names]
    with sweep(overrides=["seed=1,2"]) as (loader, master):
        assert [spec.env for spec in check(loader, master, jobs)] == names
        assert outcome(lambda: check(loader, master, [["env=MinAtar/Nothing-v1"]])) == "refused"


def test_value_may_replace_an_interpolation_of_a_study(tmp_path):
    own = tmp_path / "study" / "mine.yaml"
    own.parent.mkdir()
    own.write_text(
        "# @package _global_\nstudy: {name: mine}\nsteps: ${my_steps.${algorithm.name}}\n"
        "my_steps: {ppo: 4096}\n"
    )
    for study, table in (("demo", "demo_steps"), ("mine", "my_steps")):
        search, words = f"hydra.searchpath=[file://{tmp_path}]", [f"study={study}", "steps=2048"]
        with sweep(overrides=[search, *words]) as (loader, master):
            specs, _ = compose_sweep_specs(loader, master, [[*words, "eval_every=2048"]])
            assert specs[0].study == study and specs[0].steps == 2048
            with pytest.raises(SpecError, match=f"{table}s is not known"):
                compose_sweep_specs(loader, master, [[*words, f"+{table}s=1"]])


FRAMEWORKS = st.sampled_from(["framework=sb3", "framework=cleanrl", "framework=nobody"])
ENVS = st.sampled_from(["env=Ant-v4", "env=Hopper-v4", "env=Reacher-v5", "env=null"])
SEEDS = st.sampled_from(["seed=0", "seed=7", "seed=007", "seed=1e3", "seed=-1", "++seed=4"])
REST = [
    "algorithm=td3",
    "hps=sb3",
    "study=demo",
    "steps=50000",
    "env.name=Swimmer-v4",
    "framework.python=/other/python",
    "framework@env=cleanrl",
    "hps@framework=sb3",
    "seed=9",
    "+env@env.more=Ant-v4",
    "~env",
    "evaluation_seed=${seed}",
    "eval_episodes=${evaluation_seed}",
    "study.name=${env.name}-${framework.name}",
    "study.name=${.nothing}",
    "study.name=${hydra.runtime.choices.env}",
    "study.name='${hydra:runtime.choices.framework}'",
    "study.name=${oc.select:hydra.runtime.choices.env}",
    "study.name=${${hps.name}.name}",
    "hydra.job.name=x",
]


@st.composite
def sweeps(draw):
    rest = draw(st.lists(st.sampled_from(REST), max_size=3, unique=True))
    axes = [
        draw(st.lists(FRAMEWORKS, min_size=1, max_size=2, unique=True)),
        draw(st.lists(ENVS, min_size=1, max_size=2, unique=True)),
        draw(st.lists(SEEDS, max_size=2, unique=True)) or [""],
        [" ".join(rest)],
    ]
    order = draw(st.permutations(range(4)))
    return [[word for at in order for word in job[at].split()] for job in itertools.product(*axes)]


def check_random_sweeps(count):
    # Shrinking takes minutes, and a failing sweep is short enough to read.
    @settings(max_examples=count, deadline=None, phases=[Phase.explicit, Phase.generate])
    @given(sweeps())
    def check_sweep(jobs):
        with sweep(overrides=["seed=1,2"]) as (loader, master):
            check(loader, master, jobs)

    check_sweep()


def test_random_sweeps_equal_those_of_hydra():
    check_random_sweeps(4)


@pytest.mark.long
def test_many_random_sweeps_equal_those_of_hydra():
    check_random_sweeps(40)


@pytest.mark.long
@pytest.mark.parametrize("word", REST)
def test_each_further_override_is_composed_as_by_hydra(word):
    jobs = product(["framework=sb3", "framework=cleanrl"], ["env=Ant-v4", "env=Hopper-v4"], [word])
    with sweep(overrides=["seed=1,2"]) as (loader, master):
        check(loader, master, jobs)


STUDIES = {
    "writes to the task": "env: {name: Fixed-v0}",
    "writes to the task's place": "env: {more: 1}",
    "refers in its defaults": "defaults:\n  - override /hyperparameters: ${algorithm}/${framework}",
    "chooses the task": "defaults:\n  - override /env: Ant-v5",
    "chooses into the task": "defaults:\n  - /hps@env.hps: sb3",
    "refers to a choice": "study: {name: '${hydra.runtime.choices.env}'}",
    "refers to the task": "study: {name: '${env.name}'}",
}


@pytest.fixture
def conf(tmp_path):
    return shutil.copytree(CONF, tmp_path / "conf")


# More ways of touching the task or referring to it; the others are the widest of their kind.
ALSO = ("writes to the task", "chooses into the task", "refers to a choice", "refers to the task")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(text, id=name, marks=pytest.mark.long if name in ALSO else ())
        for name, text in STUDIES.items()
    ],
)
def test_user_studies_are_composed_as_by_hydra(text, conf):
    name = "" if "study:" in text else "\nstudy: {name: own}"
    (conf / "study" / "own.yaml").write_text(f"# @package _global_\n{text}{name}\n")
    frameworks, envs = ["framework=sb3", "framework=cleanrl"], ["env=Ant-v4", "env=Hopper-v4"]
    with sweep(conf) as (loader, master):
        # Three of the four differ in what is swept.
        check(loader, master, product(frameworks, envs, ["study=own"])[:3])


def test_the_name_of_a_recipe_comes_with_its_values(conf):
    text = "# @package _global_\nhps: {name: zoo}\nstudy: {name: own}\n"
    (conf / "study" / "own.yaml").write_text(text)
    with sweep(conf) as (loader, master):
        config = loader.load_sweep_config(master, ["study=own"])
        with pytest.raises(SpecError, match="hps=zoo names a recipe, but the run has other values"):
            spec_from_config(config)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("replay: null", "replay=null must be one of"),
        ("hyperparameters: null", "hyperparameters=None must hold values by name"),
    ],
)
def test_unusable_groups_of_a_study_are_refused(text, found, conf):
    (conf / "study" / "own.yaml").write_text(f"# @package _global_\n{text}\nstudy: {{name: own}}")
    with sweep(conf) as (loader, master):
        config = loader.load_sweep_config(master, ["study=own"])
        with pytest.raises(SpecError, match=found):
            spec_from_config(config)


def test_removed_hyperparameters_are_refused():
    with sweep() as (loader, master):
        config = loader.load_sweep_config(master, ["hyperparameters=[]"])
        with pytest.raises(SpecError, match=r"hyperparameters=\[\] must hold values by name"):
            spec_from_config(config)
        assert check(loader, master, [["hyperparameters=[]"]]) == "refused"


@pytest.mark.parametrize("text", ["replay: per", "replay: {name: per}"])
def test_a_study_sets_the_replay_and_the_diagnosis_of_its_runs(text, conf):
    text = f"# @package _global_\n{text}\ndiagnosis: strict\nstudy: {{name: own}}"
    (conf / "study" / "own.yaml").write_text(text)
    with sweep(conf) as (loader, master):
        config = loader.load_sweep_config(master, ["study=own", "algorithm=td3"])
        spec, _ = spec_from_config(config)
        assert (spec.replay.name, spec.diagnosis["mode"]) == ("per", "strict")


TASKS = [
    "# @package _global_\nenv: {name: Ant-v4}\nsteps: 50000\n",
    "name: Other-v4\n",
    "name: Ant-v4\ndefaults:\n  - /hps@_global_.hps: sb3\n",
]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        *((text, "in front") for text in TASKS),
        (TASKS[0], "by searchpath"),
        *(pytest.param(text, "by searchpath", marks=pytest.mark.long) for text in TASKS[1:]),
    ],
)
def test_user_tasks_are_composed_as_by_hydra(text, found, conf, tmp_path):
    place = conf if found == "in front" else tmp_path / "further"
    (place / "env").mkdir(parents=True)
    (place / "env" / "Ant-v4.yaml").write_text(text)
    overrides = [] if found == "in front" else [f"hydra.searchpath=[file://{place}]"]
    with sweep(conf, overrides) as (loader, master):
        check(loader, master, product(["env=Ant-v4", "env=Hopper-v4"], ["seed=0", "seed=1"])[:3])


@pytest.mark.long
def test_the_study_of_the_thesis_is_composed_a_dozen_times(monkeypatch):
    with sweep(overrides=["study=thesis"]) as (loader, master):
        swept = OmegaConf.to_container(master.hydra.sweeper.params)
        axes = [[f"{name}={value}" for value in str(v).split(",")] for name, v in swept.items()]
        jobs = product(["study=thesis"], *axes)
        composed = []
        compose = loader.load_sweep_config
        monkeypatch.setattr(
            loader, "load_sweep_config", lambda *given: composed.append(given) or compose(*given)
        )
        specs, _ = compose_sweep_specs(loader, master, jobs)
        assert len(composed) == 12
        sample = slice(0, len(jobs), 241)
        alone = [spec_from_config(compose(master, job))[0] for job in jobs[sample]]
    assert len(set(specs)) == 1440 and specs[sample] == alone


@pytest.mark.parametrize("folder", ["", "sweep"])
def test_settings_of_a_sweep_are_written_once_its_runs_are_checked(folder):
    class Launcher(SweepLauncher):
        def launch_runs(self, specs, results_dir):
            launched.extend(specs)

    launcher, launched = Launcher(), []
    with sweep(overrides=[f"hydra.sweep.dir='{folder}'"]) as (loader, master):
        context = types.SimpleNamespace(config_loader=loader)
        launcher.setup(hydra_context=context, task_function=None, config=master)
        with pytest.raises(SpecError, match="steps=-1"):
            launcher.launch([["seed=1"], ["steps=-1"]], 0)
        assert not list(Path.cwd().iterdir()) and not launched
        launcher.launch([["seed=1"]], 0)
    assert len(launched) == 1
    written = [path.as_posix() for path in Path().rglob("*.yaml")]
    assert written == (["sweep/multirun.yaml"] if folder else [])
