"""Devices that PyTorch has on this machine, and why a training cannot use one."""


def explain_missing_device(
    device: str, here: bool, known: tuple[str, ...] = ("cuda", "mps")
) -> str:
    """Return why a framework in torch cannot train on a device, or an empty string.

    Args:
        device: As the user names it: a kind, and for several of one kind its number.
        here: Whether this machine will train; PyTorch is imported to look then.
        known: Kinds of device that the framework supports.

    Returns:
        The end of a sentence, with the remedy.
    """
    kind, _, number = device.partition(":")
    if kind not in known:
        return f"it takes {', '.join(('cpu', *known))}. Use one of them."
    if not here:
        return ""
    count = count_devices(kind)
    if count == 0:
        return f"PyTorch finds no {kind} device on this machine. Use device=cpu."
    if int(number or 0) >= count:
        return f"PyTorch finds {count} {kind} here, from 0 on. Use device={kind} or a number below."
    return ""


def count_devices(kind: str) -> int:
    """Return the number of devices of a kind."""
    import torch

    if kind == "cuda":
        return torch.cuda.device_count() if torch.cuda.is_available() else 0
    return int(torch.backends.mps.is_available())
