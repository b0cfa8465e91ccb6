parallax train --multirun framework=sb3 algorithm=ppo env=CartPole-v1 hps=zoo n_envs=8 \
    steps=25600 eval_every=5120 eval_episodes=5 endpoint=auc study.name=released-bugs \
    intervention=none,bug.gae-ends-shifted seed=0,1,2,3,4
parallax study pack results/released-bugs --anonymize --output docs/history/trainings.parquet
parallax study ablation docs/history/trainings.parquet
parallax versions --page docs/history
