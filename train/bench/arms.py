"""The arms: what each is, and which of them run. No torch here: help and errors come at once."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

from train.errors import ConfigError

ARTICLES_SHARE = 0.8
"""Workers for each CPU: the articles say 0.7 to 0.9."""

ARTICLES_PREFETCH = 4
"""prefetch_factor: they say 4 to 5."""


class Arm(NamedTuple):
    """One row of the table.

    Attributes:
        name: what --only takes.
        title: for people.
        kind: "torch" (DataLoader), "ours", or "cached" (one batch, again and again).
        packed: it reads the pack, the others the data as they are.
        ahead: batches are copied in advance, beside the accelerator's work.
        about: what exactly it does, for the notes.
    """

    name: str
    title: str
    kind: str
    packed: bool
    ahead: bool
    about: str


ARMS = (
    Arm(
        "plain",
        "as it comes",
        "torch",
        False,
        False,
        "torch's DataLoader with num_workers=0; Pillow decodes, torchvision's functions crop, "
        "scale, flip and normalise; float32 batches, each copied when it is asked for",
    ),
    Arm(
        "articles",
        "as articles advise",
        "torch",
        False,
        True,
        "the same data set in a DataLoader with workers for 0.8 of the usable CPUs (their 8 "
        "workers, fitted to this machine), prefetch_factor=4, persistent_workers, a "
        "worker_init_fn that seeds random and NumPy, and with a GPU pin_memory; copied in "
        "advance on a stream of its own, which they call optional",
    ),
    Arm(
        "ours",
        "our loader, the same files",
        "ours",
        False,
        True,
        "the loader of train fit on the same files; uint8 batches, normalised on the device; "
        "settings chosen by the program alone",
    ),
    Arm(
        "packed",
        "our loader, packed data",
        "ours",
        True,
        True,
        "the same loader on what train pack made of the data",
    ),
    Arm(
        "synthetic",
        "no loader: the limit",
        "cached",
        False,
        True,
        "one batch that lies on the device, again and again: what the accelerator can do at most",
    ),
)


def choose(only: Optional[str]) -> Tuple[Arm, ...]:
    """The arms that a list of names chooses, in the table's order; None: all.

    Raises:
        ConfigError: no arm has such a name.
    """
    if only is None:
        return ARMS
    names = [name.strip() for name in only.split(",") if name.strip()]
    known = [arm.name for arm in ARMS]
    for name in names:
        if name not in known:
            raise ConfigError(f"--only: no arm is called {name!r}; there are {', '.join(known)}")
    if not names:
        raise ConfigError(f"--only names no arm; there are {', '.join(known)}")
    return tuple(arm for arm in ARMS if arm.name in names)


def torch_settings(arm: Arm, cpus: int, cuda: bool) -> Dict[str, Any]:
    """The arguments of torch's DataLoader.

    Args:
        arm: of kind "torch".
        cpus: usable ones.
        cuda: the accelerator is a GPU.
    """
    if arm.name == "plain":
        return {"num_workers": 0}
    return {
        "num_workers": max(1, round(ARTICLES_SHARE * cpus)),
        "prefetch_factor": ARTICLES_PREFETCH,
        "persistent_workers": True,
        "pin_memory": cuda,
    }
