"""A run through the harness ends in the same weights as sb3-contrib alone, bit for bit."""

import json

import sb3_contrib
import torch

from parallax.envs.make import make_training_env
from parallax.harness.cli.main import main
from parallax.harness.record.provenance import hash_weights

STEPS, SEED = 300, 5


def test_harness_changes_nothing(tmp_path):
    words = ["framework=sb3", "algorithm=tqc", "hps=sb3", "env=Pendulum-v1", "alignment=exact"]
    words += [f"steps={STEPS}", f"eval_every={STEPS}", f"seed={SEED}", "eval_episodes=2"]
    small = ["batch_size=8", "n_critics=3", "n_quantiles=7", "dropped_quantiles=3"]
    words += [f"hyperparameters.{value}" for value in small]
    assert main(["train", *words, f"results_dir={tmp_path}"]) in (0, None)
    (path,) = tmp_path.rglob("run.json")
    assert json.loads(path.read_text())["weights_sha256"] == alone()


def alone():
    torch.set_num_threads(1)
    env = make_training_env("Pendulum-v1", wrappers="none", gamma=0.99, before_step=lambda: None)
    model = sb3_contrib.TQC(
        "MlpPolicy",
        env,
        batch_size=8,
        top_quantiles_to_drop_per_net=3,
        policy_kwargs={"n_critics": 3, "n_quantiles": 7},
        seed=SEED,
        device="cpu",
    )
    model.learn(STEPS)
    weights = {name: value.numpy() for name, value in model.policy.state_dict().items()}
    return hash_weights({**weights, "log_ent_coef": model.log_ent_coef.detach().numpy()})
