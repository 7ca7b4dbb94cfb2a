"""EMA: a running mean of the weights over the last steps, evaluated in place of the weights."""

import copy
from typing import List

import torch
from torch import nn


def make_average(model: nn.Module) -> nn.Module:
    """A copy of a model, to be moved on by `update` and evaluated.

    Args:
        model: as it is before its first step; not wrapped.

    Returns:
        In evaluation mode, on the same device, in the same memory format, without gradients.
    """
    average = copy.deepcopy(model).eval()
    return average.requires_grad_(False)


@torch.no_grad()
def update(average: nn.Module, model: nn.Module, decay: float, steps: int) -> None:
    """Move the mean on after an optimizer step.

    Running statistics of batch normalisation are averaged with the weights: they follow the
    weights, so the mean's own are near the mean of theirs, and no extra pass over the data is
    needed. Numbers without a fraction (`num_batches_tracked`) are taken over.

    A mean of few steps would be the random start for thousands of them: the decay rises with the
    steps, (1 + steps) / (10 + steps) at most. It is a function of the step alone, so resume needs
    no more state than the mean.

    Args:
        average: from `make_average`, changed.
        model: that made the step.
        decay: share of the mean that stays at each step, in (0, 1).
        steps: optimizer steps made so far, this one among them.

    Source: Polyak, Juditsky, doi:10.1137/0330046; the rise is `num_updates` of TensorFlow's
    tf.train.ExponentialMovingAverage.
    """
    share = 1.0 - min(decay, (1 + steps) / (10 + steps))
    means: List[torch.Tensor] = []
    values: List[torch.Tensor] = []
    ours, theirs = average.state_dict(), model.state_dict()
    for name, mean in ours.items():
        value = theirs[name].detach()
        if mean.dtype.is_floating_point:
            means.append(mean)
            values.append(value)
        else:
            mean.copy_(value)
    torch._foreach_lerp_(means, values, share)  # all of them in a few kernels; in torch since 1.12
