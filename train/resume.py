"""Where a run begins: at random weights, at those of a file, or where it was saved."""

from pathlib import Path
from typing import Any, Dict

import torch

from train import checkpoint, ema
from train.checkpoint import Identity, State
from train.checkpoint_file import Rotation, unpack
from train.config import Config
from train.console import say
from train.data.sampler import Sampler
from train.dist import Group
from train.model import build_model, build_optimizer, load_weights
from train.precision import Precision
from train.prepare import images_per_step
from train.report_text import counted
from train.run_folder import RunFolder
from train.schedule import Schedule


def read_checkpoint(rotation: Rotation, identity: Identity, group: Group) -> Dict[str, Any]:
    """The checkpoint to go on from: rank 0 reads it for all.

    Raises:
        CheckpointError: there is none that is whole, or it does not fit this run.
    """
    read = rotation.read(say) if group.is_first else None
    path, data = group.share(read)
    content = unpack(data, path)
    for warning in checkpoint.check(content, identity, path):
        say(f"warning: {warning}")
    return content


def new_state(
    config: Config,
    num_classes: int,
    device: torch.device,
    precision: Precision,
    group: Group,
) -> State:
    """Model, optimizer and the mean of the weights before the first step.

    Args:
        config: all settings; of a resumed run `model.weights` is not read again.
        num_classes: outputs of the model.
        device: of this rank.
        precision: of the run.
        group: all ranks; the others than rank 0 draw numbers of their own from here on.
    """
    model = build_model(config.model.name, num_classes)
    if config.model.weights and not config.run.resume:
        anew = load_weights(model, config.model.weights)
        say(
            f"weights   from {config.model.weights}"
            + (f"; anew: {', '.join(anew)}" if anew else "")
        )
    model = model.to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = build_optimizer(model, config.optim.weight_decay)
    average = None if config.optim.ema is None else ema.make_average(model)
    if not config.run.resume and not group.is_first:
        checkpoint.seed_rank(config.run.seed, group.rank)
    return State(model, optimizer, precision.scaler, average)


def go_on(
    state: State,
    content: Dict[str, Any],
    config: Config,
    schedule: Schedule,
    sampler: Sampler,
    group: Group,
    folder: Path,
) -> None:
    """Put a checkpoint into the state of a run, and tell where it goes on.

    Args:
        state: changed.
        content: of the checkpoint.
        config: all settings.
        schedule: of the run.
        sampler: of the training set.
        group: all ranks.
        folder: of the run.
    """
    checkpoint.restore(content, state, group.rank, group.size)
    epochs = config.optim.epochs
    if state.epoch >= epochs:
        say(
            f"resume    {folder}: all of its {counted(epochs, 'epoch')} are done, nothing is left "
            "to train. Its number of epochs is part of its learning rates and stays",
            indent=10,
        )
        command = RunFolder(folder).longer_command(epochs)
        say(f"          to train longer, begin a new run at its weights:\n  {command}", indent=10)
        return
    say(f"resume    {folder}: epoch {state.epoch + 1}, step {state.step}")
    before = len(checkpoint.saved_ranks(content))
    if before != group.size:
        schedule.shift_to(state, state.samples_seen / sampler.num_samples)
        say(
            f"warning: {before} rank(s) saved this and {group.size} go on: an optimizer step "
            f"is {images_per_step(config, sampler)} images now. The samples left are those "
            "that were not seen; the learning rate goes on at the same share of the run"
        )
