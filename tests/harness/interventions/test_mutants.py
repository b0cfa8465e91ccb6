"""Mutants that operators generate from a source text: numbered, found once and applied."""

import ast

import pytest

from parallax.harness.contract.adapter_discovery import load_adapter
from parallax.harness.contract.fields import SpecError
from parallax.harness.interventions.catalogue import make_replacement, resolve_interventions
from parallax.harness.interventions.mutants import load_mutants
from parallax.harness.interventions.mutation_operators import (
    MUTATION_OPERATORS,
    ParsedSource,
    generate_edits,
)
from parallax.harness.interventions.source import locate_segment

CASES = {
    "swap-min-max": ("q = th.min(a, b)", {"q = th.max(a, b)"}),
    "flip-sign": ("loss = -a + b", {"loss = (a) + b", "loss = -a - b"}),
    "drop-detach": (
        "with th.no_grad():\n    y = x.detach()",
        {"with th.enable_grad():\n    y = x.detach()", "with th.no_grad():\n    y = x"},
    ),
    "drop-zero-grad": ("optimizer.zero_grad()", {"pass"}),
    "drop-clamp": (
        "y = np.clip(x, 0, 1) * x.clamp(0, 1)",
        {"y = (x) * x.clamp(0, 1)", "y = np.clip(x, 0, 1) * x"},
    ),
    "drop-mask": ("y = (1 - dones) * value", {"y = (value)"}),
    "off-by-one": (
        "if n % 2 == 0 or n < x[0]:\n    y = 1",
        {
            "if (n + 1) % 2 == 0 or n < x[0]:\n    y = 1",
            "if n % 2 == 0 or n <= x[0]:\n    y = 1",
            "if n % 2 == 0 or n < x[1]:\n    y = 1",
        },
    ),
    "scale-constant": (
        "y = 0.5 * self.tau * x",
        {"y = 1.0 * self.tau * x", "y = 0.5 * (0.5 * self.tau) * x"},
    ),
    "negate-condition": ("if a and b:\n    y = 1", {"if not (a and b):\n    y = 1"}),
    "swap-networks": (
        "critic_target(x)\ncritic(x)",
        {"critic(x)\ncritic(x)", "critic_target(x)\ncritic_target(x)"},
    ),
    "drop-statement": ("x = 1\noptimizer.step()\nx = 2", {"x = 1\npass\nx = 2"}),
}


@pytest.mark.parametrize("operator", MUTATION_OPERATORS)
def test_operator_generates_the_expected_mutants(operator):
    text, expected = CASES[operator]
    source = ParsedSource(text)
    found = [edit for edit in generate_edits(source, source.tree.body) if edit.operator == operator]
    made = {text[: edit.start] + edit.text + text[edit.end :] for edit in found}
    assert {mutated for mutated in made if ast.parse(mutated)} >= expected
    if operator != "drop-statement":
        assert made == expected
    else:  # a first assignment has nothing to fall back on
        assert (
            "pass\noptimizer.step()\nx = 2" not in made and "x = 1\noptimizer.step()\npass" in made
        )


def test_logging_and_raising_code_is_not_mutated():
    text = 'losses.append(-x)\nassert x > 1\nif x > 1:\n    raise ValueError(x + 1)\n"""a - b"""'
    source = ParsedSource(text)
    assert generate_edits(source, source.tree.body) == []


def test_source_positions_count_characters_and_not_bytes():
    text = 'x = "ä"; y = -x'
    source = ParsedSource(text)
    (edit,) = generate_edits(source, source.tree.body)
    assert text[: edit.start] + edit.text + text[edit.end :] == 'x = "ä"; y = (x)'


def test_mutants_are_numbered_and_each_is_found_once_in_the_installed_version():
    found = load_mutants(load_adapter("sb3"), "td3")
    assert [item.number for item in found] == list(range(1, len(found) + 1))
    assert {item.operator for item in found} >= {"swap-min-max", "swap-networks", "drop-mask"}
    assert all(locate_segment(item.piece) for item in found)
    assert found == load_mutants(load_adapter("sb3"), "td3")


def test_a_mutant_is_an_intervention_and_runs_in_upstreams_function():
    from stable_baselines3.td3.td3 import TD3

    number = next(
        i for i in load_mutants(load_adapter("sb3"), "td3") if i.operator == "swap-min-max"
    )
    (item,) = resolve_interventions(number.name, load_adapter("sb3"), "td3")
    assert item.to_dict()["source"][0]["find"] == number.piece.find
    before = TD3.train.__code__
    with make_replacement([item]).apply_replacement():
        assert "max" in TD3.train.__code__.co_names and TD3.train.__code__ is not before
    assert TD3.train.__code__ is before


@pytest.mark.parametrize(
    ("name", "message"),
    [("mutant-9999", "has .* mutants of td3, mutant-001 to"), ("mutant-1", "write mutant-001")],
)
def test_unknown_mutant_number_is_one_message(name, message):
    with pytest.raises(SpecError, match=message):
        resolve_interventions(name, load_adapter("sb3"), "td3")
