"""An accelerated implementation beside the plain one."""

import json

import pytest
import support

from benchmarks.accelerations import is_recommendable, load_cases, render_page
from parallax.harness.cli.main import main
from parallax.harness.lockstep.comparison import (
    LockstepResult,
    LockstepSide,
    WeightDistance,
    compare_implementations,
)


def compare(framework, acceleration, algorithm="ddpg", updates=2):
    sides = LockstepSide(framework), LockstepSide(framework, acceleration=acceleration)
    return compare_implementations(*sides, algorithm, updates)


def test_foreach_adam_is_bit_identical_and_fused_adam_equal_to_rounding():
    found = compare("sb3", "foreach-adam")
    assert found.is_equal and found.bit_equal_updates == 2
    assert found.second.label == "sb3+foreach-adam"
    found = compare("sb3", "fused-adam")
    assert found.is_equal and 0 < found.distances[-1].difference <= found.distances[-1].rounding


def test_bfloat16_update_differs_at_a_named_line():
    found = compare("sb3", "bfloat16")
    assert not found.is_equal and found.bit_equal_updates == 0
    assert (found.divergence_point.update, found.divergence_point.quantity) == (1, "gradients")


def test_updates_before_the_first_difference_are_bit_identical():
    distances = tuple(WeightDistance(n, max(n - 2, 0) * 1e-9, "", 1e-6) for n in (1, 2, 3, 4))
    result = LockstepResult(LockstepSide("a"), LockstepSide("a"), "td3", distances)
    assert result.bit_equal_updates == 2 and result.is_equal


def test_command_names_the_last_equal_update(tmp_path, capsys):
    file = tmp_path / "distances.json"
    command = ["lockstep", "--frameworks", "cleanrl", "--algorithms", "ddpg", "--updates", "2"]
    assert main([*command, "--acceleration", "foreach-adam", "--json", str(file)]) == 0
    assert "Equal to the last bit over 2 updates." in capsys.readouterr().out
    content = json.loads(file.read_text())
    assert content["second"] == "cleanrl+foreach-adam" and content["bit_equal_updates"] == 2


@pytest.mark.parametrize(
    ("frameworks", "acceleration", "words"),
    [
        ("sb3,cleanrl", "fused-adam", "name one framework"),
        ("sb3", "eager", "acceleration=eager is not available"),
        ("sbx", "eager", "operation by operation in any case"),
    ],
)
def test_invalid_comparisons_are_refused(frameworks, acceleration, words, capsys):
    command = ["lockstep", "--frameworks", frameworks, "--algorithms", "td3"]
    assert main([*command, "--acceleration", acceleration]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.long
def test_probes_list_the_answers_that_change(capsys):
    command = ["probe", "--frameworks", "sb3", "--probe", "ddpg.critic_target"]
    assert main([*command, "--acceleration", "bfloat16"]) == 0
    assert "1 of 1 answers changed with bfloat16:" in capsys.readouterr().out
    assert main([*command, "--acceleration", "foreach-adam"]) == 0
    assert "None of 1 answers changed with foreach-adam." in capsys.readouterr().out
    assert main(["probe", "--acceleration", "fused-adam", "--probe", "ddpg.critic_target"]) == 2
    assert "name it with --frameworks" in capsys.readouterr().err
    assert main([*command, "--acceleration", "fused-adam", "--seeds", "2"]) == 2
    assert "--seeds measures installed frameworks" in capsys.readouterr().err


def test_the_page_is_that_of_the_data_and_recommends_no_unequal_update():
    cases = load_cases(support.ROOT / "docs/accelerations.json")
    page = (support.ROOT / "docs/reference/accelerations.md").read_text()
    assert page == render_page(cases) and len(cases) >= 8
    shown = page.partition("faster in each of their pairs")[2].partition("Nothing is")[0]
    for name, case in cases.items():
        framework, algorithm, acceleration = name.split("/")
        listed = f"`{acceleration}` for {algorithm} of {framework}\n" in shown
        assert listed == is_recommendable(case)
        assert not listed or (case["equality"]["equal"] and case["speed"]["wall_ratios"][0] > 1)


def test_equal_but_changed_answers_or_slower_pairs_are_not_recommended():
    def case(equal=True, changed=(), slowest=1.1):
        speed = {"wall_ratios": [slowest, 2.0], "cpu_ratio": 1.5}
        return {"equality": {"equal": equal, "probes": {"changed": changed}}, "speed": speed}

    assert is_recommendable(case())
    for other in (case(equal=None), case(equal=False), case(changed=["a"]), case(slowest=0.9)):
        assert not is_recommendable(other)
