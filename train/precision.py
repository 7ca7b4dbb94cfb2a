"""Which numbers the model computes in: float32, bfloat16, or float16 with a scaled loss."""

import contextlib
import inspect
from typing import Any, ContextManager, NamedTuple, Optional

import torch

from train.errors import ConfigError

MAX_SKIPPED_IN_A_ROW = 20
"""The loss scale halves at each skipped step; after so many in a row (a factor of a million) it is
not the scale that is wrong."""


class Precision(NamedTuple):
    """What was chosen.

    Attributes:
        dtype: of matrix products and convolutions.
        scaler: scales the loss, with float16 only.
        name: fp32, bf16 or fp16.
        reason: why, for people.
    """

    dtype: torch.dtype
    scaler: Optional[Any]
    name: str
    reason: str

    def autocast(self, device: torch.device) -> ContextManager[Any]:
        """The context in which forward and loss run."""
        if self.dtype == torch.float32:
            return contextlib.nullcontext()
        return torch.autocast(device.type, dtype=self.dtype)


def choose_precision(asked: str, device: torch.device) -> Precision:
    """Turn run.precision into what this device does best.

    Args:
        asked: auto, fp32, bf16 or fp16.
        device: where the model runs.
    """
    name, reason = asked, "set by run.precision"
    if asked == "auto":
        if device.type != "cuda":
            name, reason = "fp32", "on the CPU mixed precision rarely gains"
        elif _has_bf16():
            name, reason = "bf16", "this GPU has it, and it needs no loss scaling"
        else:
            name, reason = "fp16", "this GPU has no bf16; the loss is scaled"
    if name == "fp16" and device.type == "cpu":
        raise ConfigError("run.precision=fp16 needs a GPU; on the CPU use fp32 or bf16")
    dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
    return Precision(dtype, _scaler() if name == "fp16" else None, name, reason)


def _has_bf16() -> bool:
    """Whether the GPU computes bf16 itself.

    Newer PyTorch also says yes to emulation unless told not to.
    """
    supported = torch.cuda.is_bf16_supported
    if "including_emulation" in inspect.signature(supported).parameters:
        return supported(including_emulation=False)
    return supported()


def _scaler() -> Any:
    if hasattr(torch.amp, "GradScaler"):  # since 2.3; the old place warns
        return torch.amp.GradScaler("cuda")
    return torch.cuda.amp.GradScaler()
