"""A user's own copy of a script: bit-equal if unchanged, recognized or refused before training."""

import dataclasses
import hashlib
import json
import re
from pathlib import Path

import pytest
import support

from parallax.adapters.cleanrl.scripts import read_script
from parallax.analysis.data.load import load_runs
from parallax.analysis.labels import get_label
from parallax.analysis.plan.planning import SeedNeed
from parallax.harness.cli.hydra_app import spec_from_values
from parallax.harness.cli.main import main
from parallax.harness.cli.plan import make_sweeps
from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.contract.own_script import OwnScript, make_own_script, read_own_script
from parallax.harness.contract.replay import make_replay_config
from parallax.harness.contract.run_spec import spec_from_dict, spec_to_dict
from parallax.harness.train.prepare import prepare_run
from parallax.harness.train.trust import list_named_code

ADAPTER = load_adapter("cleanrl")
SHORT = {"rollout_steps": 32, "minibatch_size": 16, "epochs": 1}
PPO = "ppo_continuous_action"


def shipped(algorithm="ppo", discrete=False):
    return read_script(algorithm, "discrete" if discrete else "continuous")[1]


def script(source, name="mine.py"):
    return OwnScript(name, hashlib.sha256(source.encode()).hexdigest(), source)


def own(source, algorithm="ppo", **changes):
    hyperparameters = SHORT if algorithm == "ppo" else {"learning_starts": 48}
    values = {"steps": 64, "eval_every": 64, "eval_episodes": 1, "alignment": "exact", **changes}
    made = source if source is None else script(source)
    return support.spec(
        "cleanrl", algorithm, hyperparameters=hyperparameters, script=made, **values
    )


def with_tyro(source):
    """The script as later versions of CleanRL are: a dataclass in place of argparse."""
    options = re.findall(
        r'add_argument\("--([\w-]+)", type=(.*?), default=(.*?)[,)]\s', source + "\n", re.DOTALL
    )
    fields = [
        f"    {name.replace('-', '_')}: {kind if kind in ('int', 'float', 'str') else 'bool'} = "
        f"{default.partition(', nargs')[0] if 'basename' not in default else repr('mine')}"
        for name, kind, default in options
    ]
    begin, end = source.index("def parse_args"), source.index("def make_env")
    body = "\n".join(["@dataclasses.dataclass", "class Args:", *fields, "\n\n"])
    source = "import dataclasses\nimport tyro\n" + source[:begin] + body + source[end:]
    sizes = "args.batch_size = int(args.num_envs * args.num_steps)\n"
    sizes += "    args.minibatch_size = int(args.batch_size // args.num_minibatches)"
    return source.replace("args = parse_args()", f"args = tyro.cli(Args)\n    {sizes}")


def test_copied_scripts_train_with_their_changed_lines(tmp_path):
    _, wheel = support.run(own(None), tmp_path)
    spec = own(shipped())
    folder, copy = support.run(spec, tmp_path)
    _, later = support.run(own(with_tyro(shipped())), tmp_path)
    changed = shipped().replace("pg_loss1 = -mb_advantages", "pg_loss1 = -2 * mb_advantages")
    other, edited = support.run(own(changed), tmp_path)

    assert wheel["status"] == copy["status"] == later["status"] == edited["status"] == "completed"
    assert wheel["weights_sha256"] == copy["weights_sha256"] == later["weights_sha256"]
    assert edited["weights_sha256"] != wheel["weights_sha256"]
    assert (folder / "script.diff").read_text() == ""
    lines = (other / "script.diff").read_text().splitlines()
    assert lines[:2] == [f"--- cleanrl/{PPO}.py", "+++ mine.py"]
    assert [line for line in lines[2:] if line[0] in "+-"] == [
        "-                pg_loss1 = -mb_advantages * ratio",
        "+                pg_loss1 = -2 * mb_advantages * ratio",
    ]
    digest = hashlib.sha256(shipped().encode()).hexdigest()
    assert copy["provenance"]["sources"] == {"mine.py": digest}
    assert copy["spec"]["script"]["source"] == shipped()
    # Both are implementations of their own, of the same setting as the wheel's.
    runs = load_runs(tmp_path).runs
    assert len({run.id.cell for run in runs}) == 1
    assert f"cleanrl@mine-{digest[:8]}" in {run.id.framework for run in runs}
    assert get_label(f"cleanrl@mine-{digest[:8]}") == f"CleanRL (mine-{digest[:8]})"
    assert spec.title.startswith(f"cleanrl@mine-{digest[:8]} ppo")
    # Plans name the script also where no run of it can be repeated, and check that it is that one.
    loaded = load_runs(tmp_path)
    frameworks = [f"cleanrl@a-b-{sha}" for sha in ("00000000", "11111111")]
    needs = [SeedNeed(loaded.runs[0].id.cell, name, (0,), 0, 0, 1.0) for name in frameworks]
    commands = [sweep.command() for sweep in make_sweeps(needs, loaded)]
    assert len(commands) == 2 and "framework=cleanrl " in commands[1]
    assert commands[1].startswith("is_planned_script a-b.py 11111111 && ")
    assert " script=a-b.py" in commands[1]


def without(name, source):
    """The script without the definition of a class."""
    return re.sub(rf"^class {name}\(.*?(?=^\S)", "", source, flags=re.DOTALL | re.MULTILINE)


def in_function(source):
    head, _, body = source.partition('if __name__ == "__main__":')
    return f'{head}def main():{body}\n\nif __name__ == "__main__":\n    main()\n'


LOOP = "for update in range(1, num_updates + 1):"
WRONG = {
    "no Python": (lambda s: s + "\ndef broken(:\n", r"mine\.py, line \d+ is not valid Python"),
    "compiler": (lambda s: s + "\nreturn 1\n", r"mine\.py, line \d+ is not valid Python"),
    "parser": (lambda s: s + "\n" + "-" * 100_000 + "1\n", "is not valid Python"),
    "from": (
        lambda s: "from gymnasium.wrappers import NormalizeObservation\n" + s,
        r"line 1 imports gymnasium\.wrappers\.NormalizeObservation, .*`import gymnasium as gym`",
    ),
    "from top": (lambda s: "from gymnasium import vector\n" + s, r"imports gymnasium\.vector"),
    "dotted": (lambda s: "import gymnasium.wrappers\n" + s, r"imports gymnasium\.wrappers"),
    "part": (
        lambda s: s + "\n    gym.register('a')\n",
        r"line \d+ uses gym\.register, which the bridge does not have",
    ),
    "no block": (
        lambda s: s.partition("if __name__")[0],
        r"no block `if __name__ == \"__main__\":`",
    ),
    "function": (in_function, "has no loops with envs.step"),
    "while": (lambda s: s.replace(LOOP, "while True:"), "the main loop must count with range"),
    "bar": (
        lambda s: s.replace(LOOP, "for update in tqdm(range(num_updates)):"),
        "the main loop must count with range",
    ),
    "renamed": (lambda s: re.sub(r"\bagent\b", "model", s), "defines no global variable agent"),
    "class": (lambda s: without("Agent", s), "uses Agent, which it neither defines nor imports"),
    "import": (
        lambda s: "import my_networks\n" + s,
        "line 1 imports my_networks, and my_networks is not installed",
    ),
    "wrapper": (
        lambda s: s.replace("gym.wrappers.ClipAction(env)", "gym.wrappers.FrameStack(env, 4)"),
        r"gym\.wrappers\.FrameStack, which the bridge does not build",
    ),
    "vector": (
        lambda s: s.replace("SyncVectorEnv", "AsyncVectorEnv"),
        r"AsyncVectorEnv, .*Use SyncVectorEnv",
    ),
    "network": (lambda s: s.replace("actor_mean", "mean"), "class Agent, .* has no actor_mean"),
    "option": (
        lambda s: s.replace('"--gae-lambda"', '"--gae"'),
        r"no option --gae-lambda \(hyperparameters\.gae_lambda\)",
    ),
    "patch": (
        lambda s: s.replace("lr=args.learning_rate, eps=1e-5)", "lr=args.learning_rate)"),
        r"hyperparameters\.adam_eps, which alignment=exact sets by a patch .*patches=false",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_script_that_cannot_be_recognized_is_refused_before_training(case):
    change, message = WRONG[case]
    source = change(shipped())
    assert source != shipped()
    changes = {"hps": "sb3"} if case == "patch" else {}
    spec = own(source, **changes)
    if case == "patch":
        eps = dataclasses.replace(spec.hyperparameters, adam_eps=1e-7)
        spec = dataclasses.replace(spec, hyperparameters=eps)
    with pytest.raises(SpecError, match=message):
        prepare_run(spec, load_adapter("cleanrl"))


def test_imports_are_those_of_the_interpreter_that_trains():
    source = "import my_networks\nfrom gymnasium.spaces import Box\n" + shipped()
    prepared = prepare_run(own("from gymnasium.spaces import Box\n" + shipped()), ADAPTER)
    context = dataclasses.replace(prepared.context, script=script(source))
    ADAPTER.check_script("ppo", prepared.native, context, here=False)
    with pytest.raises(SpecError, match="my_networks is not installed"):
        ADAPTER.check_script("ppo", prepared.native, context)


def test_a_buffer_that_cannot_be_replaced_is_refused():
    replay = make_replay_config("per")
    spec = own(shipped("td3"), "td3", replay=replay)
    prepare_run(spec, ADAPTER)
    line = "from stable_baselines3.common.buffers import ReplayBuffer"
    for change in (
        lambda s: s.replace(
            line,
            "from stable_baselines3.common import buffers\nReplayBuffer = buffers.ReplayBuffer",
        ),
        lambda s: s.replace(line, line + "\n\n\nclass ReplayBuffer:\n    pass\n"),
    ):
        with pytest.raises(SpecError, match=r"replay=per: .* or use replay=uniform"):
            prepare_run(dataclasses.replace(spec, script=script(change(shipped("td3")))), ADAPTER)


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (lambda s: s.replace("parser.parse_args()", "parser.parse_known_args()[0]"), "completed"),
        (lambda s: s + "    import sys\n    sys.exit()\n", "completed"),
        (lambda s: s + "    import sys\n    sys.exit('bad')\n", "failed"),
        (
            lambda s: s.replace(
                "writer.close()",
                "writer.add_histogram('a', [1])\n    writer.add_scalar('a', 1)\n"
                "    writer.flush()\n    writer.close()",
            ).replace('f"runs/{run_name}")', 'log_dir="a", flush_secs=1)'),
            "completed",
        ),
    ],
)
def test_usual_script_styles_train_with_the_settings_of_the_run(change, status, tmp_path):
    source = change(shipped())
    assert source != shipped()
    _, record = support.run(own(source), tmp_path)
    assert record["status"] == status
    if status == "completed":
        assert record["steps"]["taken"] == 64
    else:
        assert "mine.py ended with sys.exit('bad')" in record["failure"]


def test_unusual_but_complete_scripts_are_recognized():
    source = shipped().replace("class Agent(nn.Module):", "class Base(nn.Module):")
    source = source.replace("\nif __name__", "\nclass Agent(Base):\n    pass\n\n\nif __name__")
    source = source.replace(
        "def make_env", "def count():\n    global calls\n    calls = 1\n\n\ndef make_env"
    )
    source = source.replace(
        "    args = parse_args()\n", "    args = parse_args()\n    count()\n    print(calls)\n"
    )
    source = source.replace(
        "    envs.close()", "    for name in ('a', 'b'):\n        print(name)\n    envs.close()"
    )
    assert source.count("Base") == 2 and "print(calls)" in source
    prepare_run(own(source), load_adapter("cleanrl"))


@pytest.mark.parametrize(
    ("algorithm", "source"),
    [("td3", "ddpg"), ("ddpg", "td3"), ("sac", "td3"), ("ppo", "dqn"), ("td3", "ppo")],
)
def test_the_script_of_another_algorithm_is_refused(algorithm, source):
    with pytest.raises(SpecError, match=f"has the networks of {source} .*use algorithm={source}"):
        prepare_run(own(shipped(source), algorithm), load_adapter("cleanrl"))


def test_the_script_of_other_actions_is_refused():
    with pytest.raises(SpecError, match=r"has no actor_mean, .* continuous actions"):
        prepare_run(own(shipped(discrete=True)), load_adapter("cleanrl"))


def test_only_script_frameworks_accept_a_script():
    spec = support.spec("sb3", script=script(shipped()))
    with pytest.raises(SpecError, match="framework=sb3 runs no script of its own"):
        prepare_run(spec, load_adapter("sb3"))


def test_a_stored_script_is_code_that_needs_trust():
    found = list_named_code([own(shipped())])
    assert len(found) == 1 and found[0].startswith("script stored in the run: mine.py (")
    assert list_named_code([own(None)]) == []


def test_stored_script_is_restored_after_its_hash_is_checked():
    spec = own(shipped())
    stored = json.loads(json.dumps(spec_to_dict(spec)))
    assert spec_from_dict(stored) == spec != own(None)
    stored["script"]["source"] += "import os\n"
    with pytest.raises(SpecError, match="does not have the recorded SHA-256"):
        spec_from_dict(stored)
    for content in ("mine.py", {}, {"name": "mine.py"}, {**stored["script"], "name": 1}):
        with pytest.raises(SpecError, match="must be the path of a script"):
            make_own_script(content)
    with pytest.raises(SpecError, match="rename the file"):
        make_own_script({**stored["script"], "name": "../mine.py"})


def test_files_that_are_not_scripts_are_refused(tmp_path):
    values = {name: {"name": "a"} for name in ("framework", "algorithm", "env", "hps", "study")}
    with pytest.raises(SpecError, match="~ cannot be expanded"):
        spec_from_values(values | {"script": "~nobody-here/x.py"})
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        read_own_script(tmp_path / "none.py")
    Path(tmp_path / "raw.py").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="not text in UTF-8"):
        read_own_script(tmp_path / "raw.py")
    Path(tmp_path / "large.py").write_bytes(b"#" * 2**19)
    with pytest.raises(SpecError, match="over 262,144 bytes"):
        read_own_script(tmp_path / "large.py")


def test_probes_find_the_changed_line(tmp_path, capsys):
    path = tmp_path / "a@b" / "mine.py"
    path.parent.mkdir()
    path.write_text(shipped().replace("v_loss = 0.5 * ", "v_loss = 1.0 * "))
    words = ["probe", "--probe", "ppo.value_loss_factor", "--script", str(path)]
    assert main([*words, "--frameworks", "cleanrl"]) == 1
    first = capsys.readouterr().out.partition("\n\n")[0]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:8]
    assert f"cleanrl -> cleanrl@mine-{digest}  ppo.value_loss_factor: " in first
    for more, message in (
        ([], "--script is about one framework"),
        (["--frameworks", "sb3"], "runs no scripts"),
        (["--frameworks", "cleanrl", "--path", "."], "drop --path"),
    ):
        assert main([*words, *more]) == 2
        assert message in capsys.readouterr().err


def test_lockstep_finds_the_changed_line(tmp_path, capsys):
    copy = tmp_path / "mine.py"
    copy.write_text(shipped().replace("v_loss * args.vf_coef", "2 * v_loss * args.vf_coef"))
    words = ["lockstep", "--frameworks", "cleanrl", "--algorithms", "ppo", "--updates", "4"]
    assert main([*words, "--script", str(copy)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("cleanrl and cleanrl@mine-")
    assert "gradients of the value" in printed and "ppo.value_loss_factor" in printed


def test_only_script_frameworks_accept_a_script_in_lockstep(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(shipped())
    words = ["lockstep", "--frameworks", "sb3,skrl", "--algorithms", "ppo"]
    assert main([*words, "--script", str(tmp_path / "mine.py")]) == 2
    assert "framework=sb3,skrl runs no scripts: use cleanrl" in capsys.readouterr().err
