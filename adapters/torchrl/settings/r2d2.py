"""R2D2."""

from adapters.torch_common.sum_tree import missing_tree
from adapters.torchrl.settings.common import off_policy
from harness.contract.adapter import Context, Native, Translation
from harness.contract.algorithms import R2D2
from harness.contract.fields import SpecError

OURS = "this adapter's loop; TorchRL ships no R2D2"


def settings(t: Translation, hp: R2D2, context: Context) -> Native:
    """Arguments of TorchRL's components, and of the loop around them.

    Raises:
        SpecError: A value cannot be honoured, or the sum tree is not installed.
    """
    if missing := missing_tree():
        raise SpecError(f"framework=torchrl algorithm=r2d2: {missing}.")
    t.aligned("learning_rate", "Adam.lr")
    t.constant("tau", 1.0)
    interval = hp.target_interval_in_updates()
    # HardUpdate copies at one call more than its interval.
    note = "in gradient steps, one less than there are between copies"
    name = "HardUpdate.value_network_update_interval"
    t.aligned("target_update_interval", name, (interval or 1) - 1, note)
    if interval is None:
        t.refuse(
            "target_update_interval",
            "a number of gradient steps: there are "
            f"{hp.gradient_steps_per_round} in {hp.env_steps_per_round} environment steps",
        )
    t.aligned("value_rescaling", "signed_hyperbolic.epsilon")
    t.aligned("lstm_size", "LSTMModule.hidden_size")
    for field in ("burn_in", "head_sizes", *_OF_THE_LOOP):
        native = list(hp.head_sizes) if field == "head_sizes" else t.value(field)
        t.emulated(field, _NAMES.get(field, f"loop.{field}"), native, OURS)
    note = "torch's, over all parameters"
    t.emulated("max_grad_norm", "clip_grad_norm_.max_norm", note=note)
    first = hp.sequence_length * context.n_envs
    if hp.learning_starts < first:
        t.refuse(
            "learning_starts",
            f"at least sequence_length times n_envs, {first}: there is no sequence before",
        )
    updates = hp.cadence(context.steps).gradient_steps
    counts = {"random_steps": 0, "target_updates": updates // (interval or 1)}
    return off_policy(t, hp, context, warm_up="loop.learning_starts", **counts)


_NAMES = {"burn_in": "BurnInTransform.burn_in", "head_sizes": "MLP.head.num_cells"}
_OF_THE_LOOP = (
    *("n_step", "sequence_length", "overlap", "stored_state", "last_step_inputs"),
    *("priority_exponent", "importance_exponent", "max_error_share"),
    *("epsilon_base", "epsilon_exponent", "actor_refresh", "double_q", "dueling"),
)
