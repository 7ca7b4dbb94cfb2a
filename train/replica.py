"""A model of which each rank has a copy; gradients are added up over the ranks."""

import contextlib
from typing import Any, ContextManager

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from train.dist import ALONE, Group


class Replica:
    """What computes the training batches of a rank.

    Args:
        model: its weights and buffers become those of rank 0.
        group: all ranks.
        device: where the model is.

    Attributes:
        size: ranks.
    """

    def __init__(self, model: nn.Module, group: Group = ALONE, device: Any = None):
        self.size = group.size
        self._model: nn.Module = model
        self._shared = None
        if group.size > 1:
            ids = [device] if device is not None and device.type == "cuda" else None
            # Buffers are rank 0's before each window, so a model whose training depends on them
            # resumes exactly. That is DDP's default; the option for it has two names by version.
            self._shared = DistributedDataParallel(
                model, device_ids=ids, gradient_as_bucket_view=True
            )
            if ids is None:
                self._shared.register_comm_hook(group.size, _mean_in_rank_order)
            self._model = self._shared

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """The logits."""
        return self._model(images)

    def micro_step(self, last: bool) -> ContextManager[Any]:
        """The context of one batch: gradients travel with the last one of a window alone."""
        if self._shared is None or last:
            return contextlib.nullcontext()
        return self._shared.no_sync()


def _mean_in_rank_order(
    size: int, bucket: torch.distributed.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Mean of a bucket over the ranks, added up in their order.

    gloo's own sum depends on where in a bucket a number stands, and DDP lays its buckets out anew
    after the first step: a resumed run of three ranks would differ in the last bits.
    """
    mine = bucket.buffer()
    parts = [torch.empty_like(mine) for _ in range(size)]
    torch.distributed.all_gather(parts, mine)
    total = parts[0]
    for part in parts[1:]:
        total += part
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(total.div_(size))
    return done


def share_buffers(model: nn.Module, group: Group) -> None:
    """Give all ranks rank 0's running statistics: evaluation is to be the same on all of them."""
    if group.size > 1:
        for buffer in model.buffers():
            torch.distributed.broadcast(buffer, 0)
