"""Whose code a probe reads, and where in it a difference arises.

A part that an adapter names in `recipe_parts` is this project's own there: what upstream leaves to
its users, and what no verdict on upstream may rest on.
"""

import fnmatch

NETWORKS, SETTINGS, OPTIMIZERS = "networks", "settings", "optimizers"
LOOP, GREEDY, UPDATE, SEQUENCES = "loop", "greedy", "update", "sequences"
PARTS = {
    NETWORKS: ("initial_*", "network_sizes", "activation", "hidden_sizes"),
    SETTINGS: (
        "learning_rates",
        "learning_rate_by_default",
        "clip_range_by_default",
        "exploration_scale",
        "target_noise_scale",
        "target_noise_clip",
        "gradient_clipping",
        "exploration_kind",
        "exploration_schedule",
        "exploration_shape",
        "target_by_default",
    ),
    OPTIMIZERS: ("adam_settings",),
    LOOP: (
        "counts*",
        "update_order",
        "minibatch_*",
        "advantages_recomputed",
        "*_annealing",
        "update_ratio",
        "delayed_updates",
        "policy_steps",
        "early_stopping",
        "divergence_limit",
    ),
    GREEDY: ("greedy_action",),
    SEQUENCES: (
        "sequence*",
        "n_step_target",
        "last_steps_target",
        "priorities",
        "importance_weights",
        "stored_state",
        "actor_refresh",
    ),
}
"""Parts of an implementation, and the probes that read them; all others read its updates."""

PLACES = {
    "loss of critic1": ("critic_*", "*_target", "target_weights", "target_with_copies"),
    "loss of temperature": ("temperature_gradient", "target_entropy"),
    "loss of policy": (
        "policy_*",
        "later_policy_loss",
        "std_gradient",
        "entropy_bonus",
        "total_loss",
        "value_loss_factor",
        "value_clipping",
        "later_value_loss",
        "advantage_normalisation",
        "clip_range",
    ),
    "action": ("action", "action_bounds", "policy_action", "exploration*", "warm_up_action"),
    "action drawn": ("log_prob", "squash_correction"),
    "minibatch drawn": ("replay_sampling",),
    "step of policy": ("optimizer_step", "gradient_clipping", "learning_rate_annealing"),
}
"""Events at which a difference arises, by the probes that find it; the last that fits counts."""


def part_of(probe: str) -> str:
    """Which part of an implementation a probe reads."""
    return next((part for part in PARTS if _fits(probe, PARTS[part])), UPDATE)


def is_recipe(probe: str, parts: tuple[str, ...]) -> bool:
    """Whether a probe reads what an adapter names as its own, by part or by the probe's name."""
    return part_of(probe) in parts or probe.split(".", 1)[1] in parts


def places_of(probe: str) -> tuple[str, ...]:
    """At which event its differences arise, and at which else where that is not known of it."""
    fitting = [place for place, patterns in PLACES.items() if _fits(probe, patterns)]
    further = ["action drawn"] if _fits(probe, ("action",)) else []
    return (*fitting[-1:], *further)


def _fits(probe: str, patterns: tuple[str, ...]) -> bool:
    name = probe.split(".", 1)[1]
    return any(fnmatch.fnmatch(name, pattern) for pattern in patterns)
