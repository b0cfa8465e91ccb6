"""Names in files of earlier versions, and their current names.

The only table of old names. `translate_record` is applied to every `run.json` and every record of a
packed study right after it was decoded, `translate_variant` and `translate_env` to the parts of a
run folder's path, so that no other code knows an old name. Records of schema 3 and later have no
old names and are not changed.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

FIRST_SCHEMA_WITH_NEW_NAMES = 3

_RECORD_FIELDS = {
    "cadence": "update_schedule",
    "kept": "saved_evaluation",
    "resumption": "resume_notes",
}
_UPDATE_SCHEDULE_FIELDS = {"gradient_steps": "total_gradient_steps"}
_SPEC_FIELDS = {"keep": "save_policy"}
_HYPERPARAMETERS = {
    "env_steps_per_round": "train_freq",
    "gradient_steps_per_round": "gradient_steps",
}
RENAMED_ALIGNMENTS = {"thesis": "common", "full": "exact"}
"""Present levels of alignment by their earlier names."""
_INTERVENTIONS = {
    "advantages-once": "no-advantage-recompute",
    "bent-loss": "huber-loss",
    "bootstrap-at-limits": "timeout-bootstrap",
    "cut-deviation": "clamp-log-std",
    "deviation-by-tanh": "tanh-log-std",
    "divergence-before-the-step": "kl-stop-before-step",
    "gradients-as-they-are": "no-grad-clip",
    "half-critic-loss": "critic-loss-x0.5",
    "half-value-loss": "value-loss-x0.5",
    "large-first-actions": "actor-output-gain-1",
    "large-weights": "lecun-normal-init",
    "last-observation-of-each-episode": "store-terminal-next-obs",
    "last-observation-of-episodes": "store-terminal-next-obs",
    "layers-of-120-and-84": "hidden-sizes-120-84",
    "layers-of-256": "hidden-sizes-256",
    "learn-every-10-steps": "train-freq-10",
    "limit-of-divergence-as-told": "target-kl-factor-1",
    "limits-are-ends": "no-timeout-bootstrap",
    "networks-clipped-apart": "separate-grad-clip",
    "no-bootstrap-at-limits": "no-timeout-bootstrap",
    "noise-of-whole-steps": "ou-noise-dt-1",
    "one-network-after-another": "sequential-updates",
    "plain-gaussian": "unsquashed-gaussian",
    "quiet-warm-up": "no-warmup-noise",
    "random-warm-up": "uniform-warmup",
    "rate-before-rollout": "lr-decay-after-update",
    "smaller-critic-climbed": "actor-uses-min-q",
    "squared-loss": "mse-loss",
    "targets-every-step": "target-update-every-step",
    "temperature-of-the-same-sample": "temperature-reuses-actor-sample",
    "whole-critic-loss": "critic-loss-x1",
    "whole-value-loss": "value-loss-x1",
}
# Ids of diagnosis checks: the paper's ids, and further ids in the same style.
_CHECKS = {
    "ACN_d0": "low-initial-entropy",
    "ACN_d1": "entropy-rises",
    "ACN_d2": "entropy-constant",
    "ACN_d3": "entropy-drop",
    "ACN_d4": "entropy-fluctuates",
    "ACN_d5": "repeated-action",
    "ACN_d6": "repeated-final-actions",
    "ACN_d7": "dropout-sensitive-actions",
    "ADV": "wrong-advantages",
    "ADV_stored": "wrong-advantages-matched",
    "AGT_d1": "target-not-updated",
    "AGT_d1_seldom": "target-updated-rarely",
    "AGT_d2": "target-does-not-lag",
    "AGT_d3": "wrong-acting-network",
    "AGT_d4": "large-policy-shift",
    "AGT_d4_kl": "large-kl",
    "BND": "actions-at-bounds",
    "ENV_d1": "invalid-observations",
    "ENV_d2": "rewards-not-scaled",
    "ENV_d3": "task-too-easy",
    "EXP_d1": "exploration-low-or-rising",
    "EXP_d2": "exploration-decays-fast",
    "GAM": "no-discount",
    "MET": "metric-stopped",
    "NN_activation": "dead-or-saturated-units",
    "NN_bias": "bad-biases",
    "NN_dormant": "dormant-units",
    "NN_fitting": "network-cannot-fit",
    "NN_gradient": "vanishing-or-exploding-gradients",
    "NN_left": "uncleared-gradients",
    "NN_linear": "missing-nonlinearity",
    "NN_loss": "loss-diverges",
    "NN_rank": "rank-collapse",
    "NN_still": "weights-not-updated",
    "NN_unreached": "unreached-parameters",
    "NN_update": "large-weight-updates",
    "NN_weight": "bad-weights",
    "OVR": "value-overestimation",
    "QTR_d1": "wrong-targets",
    "QTR_ends": "missing-terminal-transitions",
    "QTR_stored": "wrong-targets-matched",
    "RPL": "no-replay",
    "RPL_stale": "stale-replay",
    "RTN": "wrong-returns",
    "RTN_stored": "wrong-returns-matched",
    "RWD_d1": "constant-early-returns",
    "RWD_d2": "unsettled-returns",
    "RWD_d3": "final-returns-low",
    "STP_d1": "truncated-without-progress",
    "STT_d1": "observations-not-scaled",
    "STT_d2": "repeated-observation",
    "STT_d3": "repeated-final-states",
}
_DIAGNOSIS_REPORT_FIELDS = {
    "looks": "n_evaluations",
    "asked": "evaluations",
    "meaningless": "not_applicable",
    "unasked": "missing_signals",
    "troubles": "problems",
}
# Packages that stood at the top before they moved into `parallax`.
_MOVED_PACKAGES = re.compile(r"(?:adapters|envs)\.")
_VARIANT_PART = re.compile(r"(?:^|(?<=,))([a-z_]+)=([^,\[]*)")


def translate_record(content: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a `run.json` with present names.

    Parts that do not have the expected type are not changed: the validation of the record
    reports them.

    Args:
        content: As decoded from JSON. It is not changed.
    """
    schema = content.get("schema")
    if not isinstance(schema, int) or schema >= FIRST_SCHEMA_WITH_NEW_NAMES:
        return content
    new = _rename_keys(content, _RECORD_FIELDS)
    _replace(new, "update_schedule", dict, lambda it: _rename_keys(it, _UPDATE_SCHEDULE_FIELDS))
    _replace(new, "spec", dict, translate_spec)
    _replace(new, "hyperparameters", dict, lambda it: _rename_keys(it, _HYPERPARAMETERS))
    _replace(new, "alignment", list, lambda them: _translate_each(them, "field", _rename_field))
    _replace(new, "interventions", dict, _translate_interventions)
    _replace(new, "adapter", str, translate_module)
    return new


def translate_spec(spec: Any) -> Any:
    """Return the specification of a run of an earlier version with present names."""
    if not isinstance(spec, Mapping):
        return spec
    new = _rename_keys(spec, _SPEC_FIELDS)
    _replace(new, "alignment", str, lambda name: RENAMED_ALIGNMENTS.get(name, name))
    _replace(new, "intervention", str, translate_intervention)
    _replace(new, "env", str, translate_env)
    _replace(new, "diagnosis", dict, _translate_diagnosis_settings)
    _replace(new, "hyperparameters", dict, lambda it: _rename_keys(it, _HYPERPARAMETERS))
    _replace(new, "overridden", list, lambda names: [_rename_field(name) for name in names])
    return new


def translate_intervention(text: str) -> str:
    """Return the current names of interventions, joined by `+`."""
    return "+".join(_INTERVENTIONS.get(name, name) for name in text.split("+"))


def translate_check_id(check_id: str) -> str:
    """Return the current id of a diagnosis check."""
    return _CHECKS.get(check_id, check_id)


def translate_diagnosis_report(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a `diagnosis.json` with present names."""
    return _rename_keys(report, _DIAGNOSIS_REPORT_FIELDS)


def translate_module(text: str) -> str:
    """Return the current name of a module, or of something in it as `module:Class`."""
    return f"parallax.{text}" if _MOVED_PACKAGES.match(text) else text


def translate_env(name: str) -> str:
    """Return the name of a task; those of this project name the module that registers them."""
    return translate_module(name) if ":" in name else name


def translate_variant(variant: str) -> str:
    """Return the part `key=value,...` of a run folder's path with present names."""
    return _VARIANT_PART.sub(_translate_variant_part, variant)


def _translate_diagnosis_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    new = dict(settings)
    _replace(new, "thresholds", dict, lambda it: _rename_keys(it, _CHECKS))
    return new


def _translate_variant_part(part: re.Match[str]) -> str:
    key, value = part.groups()
    if key == "alignment":
        value = RENAMED_ALIGNMENTS.get(value, value)
    if key == "intervention":
        value = translate_intervention(value)
    key = _SPEC_FIELDS.get(key, _HYPERPARAMETERS.get(key, key))
    return f"{key}={value}"


def _translate_interventions(items: Mapping[str, Any]) -> dict[str, Any]:
    new = _rename_keys(items, _INTERVENTIONS)
    for name, item in new.items():
        if isinstance(item, dict):
            new[name] = item = dict(item)
            _replace(item, "set", dict, lambda it: _rename_keys(it, _HYPERPARAMETERS))
            for part, key in (("wrap", "layer"), ("source", "module")):
                if isinstance(item.get(part), list):
                    item[part] = _translate_each(item[part], key, translate_module)
    return new


def _translate_each(items: list[Any], key: str, translate: Callable[[str], str]) -> list[Any]:
    """Return mappings with the text under one key translated; other items are not changed."""
    new = []
    for item in items:
        has_text = isinstance(item, dict) and isinstance(item.get(key), str)
        new.append({**item, key: translate(item[key])} if has_text else item)
    return new


def _rename_keys(content: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(key, key): value for key, value in content.items()}


def _replace(
    content: dict[str, Any], key: str, kind: type, translate: Callable[[Any], Any]
) -> None:
    if isinstance(content.get(key), kind):
        content[key] = translate(content[key])


def _rename_field(name: Any) -> Any:
    return _HYPERPARAMETERS.get(name, name) if isinstance(name, str) else name
