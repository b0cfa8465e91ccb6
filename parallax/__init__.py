"""Parallax: compare implementations of deep reinforcement learning algorithms.

The names in `__all__` are the public interface; everything else can change. Importing the package
loads neither numerical libraries nor frameworks: each function imports what it needs.

    import parallax

    scores = parallax.load_study("results/demo")
    parallax.compute_interval([210.5, 199.0, 230.1])
    parallax.compute_aggregates({"sb3": sb3_scores, "cleanrl": cleanrl_scores})
    folder = parallax.train(framework="sb3", algorithm="ppo", env="CartPole-v1", steps=20_000)
    policy = parallax.load_policy(folder)
    diagnosis = parallax.Diagnosis(steps=20_000, gamma=0.99)
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    from numpy.typing import ArrayLike

    from parallax.analysis.stats.intervals import ConfidenceInterval
    from parallax.harness.diagnosis.user_loop import Diagnosis
    from parallax.harness.policies.loading import LoadedPolicy

__all__ = [
    "Diagnosis",
    "compute_aggregates",
    "compute_difference",
    "compute_improvement",
    "compute_interval",
    "load_policy",
    "load_study",
    "train",
]


def load_study(results: str | Path) -> "pandas.DataFrame":
    """Load all complete runs of a study.

    Args:
        results: A results folder, a study, a folder in it, or a file of packed runs.

    Returns:
        One row per evaluation, with the columns `study`, `env`, `algorithm`, `hps`, `variant`,
        `framework`, `seed`, `step` (environment steps), `mean_return` (over the episodes of the
        evaluation), `episodes` and `is_final`. `attrs["excluded"]` maps the folders of runs that
        are not in the table to the reason.

    Raises:
        FileNotFoundError: There is no such folder or file.
    """
    import pandas

    from parallax.analysis.data.load import load_runs

    path = Path(results)
    if not path.exists():
        raise FileNotFoundError(
            f"{path}: no such folder or file. Give a results folder or a study."
        )
    loaded = load_runs(path)
    rows = [
        {
            "study": run.id.cell.study,
            "env": run.id.cell.env,
            "algorithm": run.id.cell.algorithm,
            "hps": run.id.cell.hps,
            "variant": run.id.cell.variant,
            "framework": run.id.framework,
            "seed": run.id.seed,
            "step": int(step),
            "mean_return": float(returns.mean()),
            "episodes": len(returns),
            "is_final": i == len(run.timesteps) - 1,
        }
        for run in loaded.runs
        for i, (step, returns) in enumerate(zip(run.timesteps, run.results, strict=True))
    ]
    columns = ["study", "env", "algorithm", "hps", "variant", "framework", "seed", "step"]
    columns += ["mean_return", "episodes", "is_final"]
    frame = pandas.DataFrame(rows, columns=columns)
    frame.attrs["excluded"] = {str(item.path): item.reason for item in loaded.excluded}
    return frame


def compute_interval(scores: "ArrayLike", method: str = "t", seed: int = 0) -> "ConfidenceInterval":
    """Compute the 95% confidence interval of the mean of independent scores.

    Args:
        scores: One score per seed.
        method: `t` (Student), `thesis` (1.96 standard errors), `bootstrap` (percentile) or `bca`
            (bias-corrected and accelerated bootstrap).
        seed: Random seed of the bootstrap.

    Returns:
        An interval with `mean`, `low`, `high`, `n` and `method`; `low` and `high` are NaN below
        two scores.

    Raises:
        ValueError: A score is not finite, or the method is not known.
    """
    import numpy as np

    from parallax.analysis.stats.intervals import compute_interval as compute

    return compute(_to_scores(scores, "scores"), method, np.random.default_rng(seed))


def compute_difference(first: "ArrayLike", second: "ArrayLike") -> "ConfidenceInterval":
    """Compute the 95% Welch interval of `mean(first) - mean(second)`.

    Args:
        first: One score per seed.
        second: One score per seed; the number of seeds and the variance may differ.

    Raises:
        ValueError: A score is not finite.
    """
    from parallax.analysis.stats.intervals import compute_welch_interval

    return compute_welch_interval(_to_scores(first, "first"), _to_scores(second, "second"))


def compute_aggregates(
    scores: Mapping[str, "ArrayLike | Sequence[ArrayLike]"],
    *,
    resamples: int = 50_000,
    seed: int = 0,
) -> "dict[str, dict[str, ConfidenceInterval]]":
    """Compute aggregate scores over tasks, with intervals of the stratified bootstrap.

    The statistics are those of rliable (Agarwal et al. 2021).

    Args:
        scores: Per implementation an array of shape (runs, tasks), or one array of runs for each
            task; normalised so that 0 is a random policy and 1 the reference.
        resamples: Bootstrap resamples.
        seed: Random seed of the bootstrap.

    Returns:
        Per implementation the 95% intervals of `median`, `iqm` (interquartile mean), `mean` and
        `optimality_gap`.

    Raises:
        ValueError: A score is not finite, or a task has no run.
    """
    import numpy as np

    from parallax.analysis.stats.aggregates import AGGREGATE_NAMES
    from parallax.analysis.stats.aggregates import compute_aggregates as compute
    from parallax.analysis.stats.intervals import ConfidenceInterval

    tasks = {name: _split_tasks(values, name) for name, values in scores.items()}
    found = compute(tasks, np.random.default_rng(seed), resamples)
    return {
        name: {
            statistic: ConfidenceInterval(
                float(found.point[i, j]),
                float(found.low[i, j]),
                float(found.high[i, j]),
                sum(found.seeds[i]),
                "bootstrap",
            )
            for j, statistic in enumerate(AGGREGATE_NAMES)
        }
        for i, name in enumerate(found.names)
    }


def compute_improvement(
    scores: Mapping[str, "ArrayLike | Sequence[ArrayLike]"],
    *,
    resamples: int = 2_000,
    seed: int = 0,
) -> "dict[tuple[str, str], ConfidenceInterval]":
    """Compute the probability that a run of one implementation beats a run of another.

    Args:
        scores: As for `compute_aggregates`.
        resamples: Bootstrap resamples.
        seed: Random seed of the bootstrap.

    Returns:
        Per pair of implementations the probability, averaged over tasks, with its 95% interval;
        ties count half.

    Raises:
        ValueError: A score is not finite, or a task has no run.
    """
    import numpy as np

    from parallax.analysis.stats.aggregates import compute_improvement as compute
    from parallax.analysis.stats.intervals import ConfidenceInterval

    tasks = {name: _split_tasks(values, name) for name, values in scores.items()}
    found = compute(tasks, np.random.default_rng(seed), resamples)
    sizes = {name: sum(map(len, values)) for name, values in tasks.items()}
    return {
        (first, second): ConfidenceInterval(
            float(found.point[i]),
            float(found.low[i]),
            float(found.high[i]),
            sizes[first] + sizes[second],
            "bootstrap",
        )
        for i, (first, second) in enumerate(found.pairs)
    }


def train(
    framework: str,
    algorithm: str,
    env: str,
    *,
    results_dir: str | Path = "results",
    hps: str = "original",
    hyperparameters: Mapping[str, Any] | None = None,
    **options: Any,
) -> Path:
    """Train one run in a separate process, unless it is complete already.

    Args:
        framework: Name of the adapter, such as `sb3`.
        algorithm: Name of the algorithm, such as `ppo`.
        env: Name of the task, such as `CartPole-v1`.
        results_dir: Folder for results.
        hps: Recipe of hyperparameters.
        hyperparameters: Values in place of those of the recipe.
        options: Further options of `parallax train` with their names there, such as `seed=1` or
            `steps=20_000`; groups such as `replay` are named by their option: `replay="per"`.

    Returns:
        The run folder.

    Raises:
        ValueError: A value cannot be used; the message names it and what to write instead.
        RuntimeError: The run failed; the message says why.
    """
    from parallax.harness.cli.hydra_app import spec_from_config
    from parallax.harness.contract.interpreter import exclude_current_folder
    from parallax.harness.sweep.sweep import run_sweep

    values = {"framework": framework, "algorithm": algorithm, "hps": hps, **options}
    for name, value in (hyperparameters or {}).items():
        values[f"hyperparameters.{name}"] = value
    values["results_dir"] = str(results_dir)
    config = _compose_config(env, values)
    with exclude_current_folder():
        spec, folder = spec_from_config(config)
        (outcome,) = run_sweep([spec], folder, n_jobs=1)
    if outcome.status not in ("completed", "skipped"):
        raise RuntimeError(f"{outcome.folder}: {outcome.failure or outcome.status}")
    return outcome.folder


def load_policy(folder: str | Path, *, trust: bool = False) -> "LoadedPolicy":
    """Load the greedy policy of a complete run.

    Args:
        folder: The run folder.
        trust: Whether code that the folder names, such as the module of its task, may run.

    Returns:
        A function from a batch of observations to a batch of actions.

    Raises:
        ValueError: The run has no policy, or names code that is not trusted.
    """
    from parallax.harness.contract.interpreter import exclude_current_folder

    with exclude_current_folder():
        from parallax.harness.policies.loading import load_policy as load

        return load(folder, trust=trust)


def __getattr__(name: str) -> Any:
    # A class is looked up when it is used, so that importing the package stays cheap.
    if name == "Diagnosis":
        from parallax.harness.diagnosis.user_loop import Diagnosis

        return Diagnosis
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _compose_config(env: str, values: Mapping[str, Any]) -> Any:
    """Return the configuration of `parallax train` with these values of its options.

    Raises:
        SpecError: There is no option of a name.
    """
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    from parallax.harness.cli.config_groups import list_group_options
    from parallax.harness.cli.hydra_app import register_config_groups
    from parallax.harness.contract.fields import SpecError

    register_config_groups()
    groups = ("framework", "algorithm", "hps", "replay", "diagnosis", "study")
    overrides = [f"{name}={values[name]}" for name in groups if name in values]
    # Hydra looks an option up as a file, in which `/` and `:` have a meaning.
    is_option = "/" not in env and ":" not in env and env in list_group_options()["env"]
    overrides.append(f"{'env' if is_option else 'env.name'}={env}")
    with initialize_config_module("parallax.harness.conf", version_base="1.3"):
        config = compose("config", overrides)
    OmegaConf.set_struct(config, True)
    for name in [name for name in values if name not in groups]:
        try:
            OmegaConf.update(config, name, values[name])
        except Exception as error:
            raise SpecError(f"{name} is not an option of `parallax train`.") from error
    return config


def _to_scores(values: "ArrayLike", name: str) -> Any:
    import numpy as np

    scores = np.asarray(values, np.float64)
    if scores.ndim != 1 or not np.isfinite(scores).all():
        raise ValueError(f"{name} must be one finite score per seed.")
    return scores


def _split_tasks(values: Any, name: str) -> list[Any]:
    import numpy as np

    if isinstance(values, np.ndarray):
        if values.ndim != 2:
            raise ValueError(f"{name}: the scores must have the shape (runs, tasks).")
        values = list(values.T)
    tasks = [_to_scores(task, name) for task in values]
    if not tasks or not all(map(len, tasks)):
        raise ValueError(f"{name}: each task needs at least one run.")
    return tasks
