import hydra
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode

from harness.cli.app import spec_from_config
from harness.cli.config_groups import register
from harness.cli.sweep_specs import specs_of_sweep

JOBS = [
    ["framework=sb3", "algorithm=td3", "seed=3", "hyperparameters.tau=0.01"],
    ["framework=sb3", "algorithm=td3", "seed=4", "hyperparameters.tau=0.01"],
    ["seed=4", "framework=sb3", "algorithm=td3", "hyperparameters.tau=0.02"],
    ["framework=cleanrl", "algorithm=ppo", "seed=3", "evaluation_seed=${seed}"],
    ["framework=cleanrl", "algorithm=ppo", "seed=5", "evaluation_seed=${seed}"],
]


def test_runs_are_those_that_hydra_composes_one_by_one():
    register()
    with hydra.initialize_config_module("harness.conf", version_base="1.3"):
        loader = GlobalHydra.instance().config_loader()
        master = loader.load_configuration("config", ["seed=1,2"], run_mode=RunMode.MULTIRUN)
        specs, results = specs_of_sweep(loader, master, JOBS)
        alone = [spec_from_config(loader.load_sweep_config(master, job)) for job in JOBS]
    assert specs == [spec for spec, _ in alone]
    assert str(results) == "results"
    assert [spec.seed for spec in specs] == [3, 4, 4, 3, 5]
    assert [spec.evaluation_seed for spec in specs[3:]] == [3, 5]
