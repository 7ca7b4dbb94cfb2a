"""One run from its first step to its last: epochs, saves, signals, the end."""

import time
from typing import Callable, List

import torch

from train import loop, machine, resume
from train.announce import announce, explain
from train.checkpoint import Identity, State
from train.checkpoint_file import Rotation
from train.config import Config, flatten
from train.console import Bar, say
from train.data.loader import Loader
from train.data.prefetch import DevicePrefetcher
from train.data.settings import LoaderSettings
from train.data.shared_ledger import SharedLedger, broken_links
from train.data.sources.splits import Splits
from train.dist import Group, under_torchrun
from train.diverged import Divergence
from train.errors import DataError, DataGone
from train.metrics import epoch_row
from train.precision import Precision
from train.prepare import Loaders, plan_schedule
from train.replica import Replica, share_buffers
from train.run_end import RunEnd
from train.run_folder import RunFolder
from train.run_output import RunOutput
from train.run_status import StatusFile
from train.saving import Saver
from train.scores import refuse_nan, train_scores
from train.signals import ECHO_S, StopRequest
from train.stages import Stages, stage_columns
from train.timing import UtilisationMean


def _wait_to_tell(text: str) -> None:
    """Say nothing yet."""


class Run:
    """One run on one rank.

    Args:
        config: all settings.
        device: of this rank.
        splits: the data.
        settings: of the loaders.
        precision: of the run.
        folder: where rank 0 writes.
        loaders: of this rank.
        cpus: usable ones.
        group: all ranks.
    """

    def __init__(
        self,
        config: Config,
        device: torch.device,
        splits: Splits,
        settings: LoaderSettings,
        precision: Precision,
        folder: RunFolder,
        loaders: Loaders,
        cpus: machine.Measure[int],
        group: Group,
    ):
        self.config, self.device, self.splits, self.group = config, device, splits, group
        self.precision, self.folder, self.loaders = precision, folder, loaders
        self.rotation = Rotation(folder.last.parent)
        if group.is_first:
            self.rotation.refuse_if_unwritable()
            self.rotation.tidy()
        self.ledger = SharedLedger(
            folder.bad_samples,
            len(splits.train) + len(splits.val),
            config.data.bad_budget,
            group,
        )
        identity = Identity(
            flatten(config),
            splits.classes,
            len(splits.train),
            len(splits.val),
            machine.lock_hash(),
        )
        self.saver = Saver(self.rotation, identity, group)
        self.divergence = Divergence(device, group, folder.diverged, splits.train.key)
        self.schedule = plan_schedule(config, loaders.train.sampler)
        self.settings = settings.reasons + explain(
            config, device, precision, self.schedule, cpus, loaders.train.sampler
        )
        self.warnings = settings.warnings
        self.utilisation = UtilisationMean(machine.GpuUtilisation().read)
        # With other ranks it is said when all know. A second signal within a second is torchrun's
        # echo of the first.
        tell: Callable[[str], None] = say if group.size == 1 else _wait_to_tell
        self.stop = StopRequest(tell, ECHO_S if under_torchrun() else 0.0)
        self.status = StatusFile(folder.path)
        self.ended_early = self.saved_for_wait = False

    def go(self) -> RunFolder:
        """Train to the end, or to a signal."""
        config = self.config
        content = None
        if config.run.resume:
            content = resume.read_checkpoint(self.rotation, self.saver.identity, self.group)
            self.loaders.train.load_state_dict(content["loader"])
            # One pass an epoch that is left; no batch is decoded for a pass that never comes.
            self.loaders.val.epochs = config.optim.epochs - content["loader"]["epoch"]
        self.ledger.add("scan", broken_links(self.splits.skipped))
        # Workers are forked here: before the model, TensorBoard and CUDA have made threads.
        self.loaders.train.start()
        self.loaders.val.start()
        if self.group.is_first:
            announce(self.folder, self.settings, self.warnings, config.data.path)
        classes = len(self.splits.classes)
        state = resume.new_state(config, classes, self.device, self.precision, self.group)
        if content is not None:
            sampler, path = self.loaders.train.sampler, self.folder.path
            resume.go_on(state, content, config, self.schedule, sampler, self.group, path)
        self.replica = Replica(state.model, self.group, self.device)
        with self.stop, RunOutput(self.folder, self.group.is_first) as output, self.status:
            self.output = output
            self.end = RunEnd(self.folder, self.saver, self.divergence, self.group.size, output)
            prefetchers = [DevicePrefetcher(loader, self.device) for loader in self.loaders]
            for loader in self.loaders:
                loader.while_waiting = lambda: self.end.while_waiting(state, self.stop.signum or 0)
            limit = self.schedule.max_steps
            self.ended_early = limit is not None and state.step >= limit  # reached before a resume
            try:
                while state.epoch < config.optim.epochs and not self.ended_early:
                    self._epoch(state, prefetchers)
            except DataGone as error:
                raise self.end.without_data(state, error) from error
            except DataError as error:  # a worker was killed, too much is bad
                raise self.end.with_way_on(error) from error
            output.report()
            self.saver.finish(state)
        stopped_at = (self.schedule.max_steps or 0) if self.ended_early else 0
        self.end.tell(state, stopped_at, self.ledger)
        return self.folder

    def _epoch(self, state: State, prefetchers: List[DevicePrefetcher]) -> None:
        """Train and evaluate one epoch, write its line, save."""
        begin, seen = time.monotonic(), state.samples_seen
        sampler, before = self.loaders.train.sampler, self.loaders.train.account.spent()
        title = f"epoch {state.epoch + 1}/{self.config.optim.epochs}"
        with Bar(f"{title} train", sampler.num_samples, state.samples_seen) as bar:
            timing = loop.train_epoch(
                state,
                prefetchers[0] if sampler.global_batch_sizes(state.samples_seen) else [],
                sampler.global_batch_sizes(state.samples_seen),
                self.schedule,
                self.precision,
                self.device,
                lambda: self._after_step(state, bar),
                lambda batch: self.ledger.note("train", batch),
                bar,
                self.replica,
                self.divergence,
            )
        if self.ended_early:
            self._save(state)
            return
        loader, images = self.loaders.train, state.samples_seen - seen
        own = not hasattr(loader.dataset, "source")
        spent, cuda = loader.account.spent().less(before), self.device.type == "cuda"
        stages = Stages(timing, spent, loader.workers, own, cuda)
        train_s, begin = time.monotonic() - begin, time.monotonic()
        share_buffers(state.evaluated, self.group)
        with Bar(f"{title} validate", len(self.splits.val)) as bar:
            val = loop.evaluate(
                state.evaluated,
                prefetchers[1],
                self.precision,
                self.device,
                lambda: self._between(state, bar, self.loaders.val),
                lambda batch: self.ledger.note("val", batch),
                bar,
                self.group,
                self.loaders.val.sampler.rounds(),
            )
        self._meet(state)
        refuse_nan(val.loss, state, "validation")
        row = epoch_row(
            state,
            train_scores(state, self.group),
            val,
            timing,
            images,
            len(self.splits.classes),
            {
                "train_s": train_s,
                "val_s": time.monotonic() - begin,
                "bad_samples": len(self.ledger),
                "gpu_util": self.utilisation.mean(),
                **stage_columns(stages, images > 0),
            },
        )
        self.output.epoch(row, self.config.optim.epochs)
        is_best = row["val_top1"] > state.best_top1
        state.best_top1 = max(state.best_top1, row["val_top1"])
        state.epoch, state.samples_seen = state.epoch + 1, 0
        state.train_sums = torch.zeros(4, dtype=torch.float64)
        self._save(state, is_best)

    def _after_step(self, state: State, bar: Bar) -> bool:
        limit, minutes = self.schedule.max_steps, self.config.run.checkpoint_minutes
        # Rank 0's clock counts: all save at the same step.
        due = minutes is not None and time.monotonic() - self.saver.saved_at > 60 * minutes
        self._tick(bar, state, self.loaders.train)
        due = self._meet(state, (due and self.group.is_first) or self._begins_to_wait())
        self.utilisation.sample()
        if limit is not None and state.step >= limit:
            self.ended_early = True
        elif due:
            self._save(state)
        return self.ended_early

    def _begins_to_wait(self) -> bool:
        """Whether a worker has begun to wait for data that are gone: now a save is still possible.

        With several ranks, or in the middle of a window, it may not be once no batch is left.
        """
        waits = any(place.away for place in self.loaders.train.account.places())
        begins, self.saved_for_wait = waits and not self.saved_for_wait, waits
        return begins

    def _between(self, state: State, bar: Bar, loader: Loader) -> None:
        """Between two batches."""
        self._tick(bar, state, loader)
        self._meet(state)

    def _tick(self, bar: Bar, state: State, loader: Loader) -> None:
        if self.group.is_first:
            self.status.tick(bar, state.step, loader)

    def _meet(self, state: State, due: bool = False) -> bool:
        """What all ranks must know before they go on: signals, bad samples, a broken loss.

        Returns:
            Whether a rank's save is due.
        """
        signum, found, broken, save = self.group.agree(
            [self.stop.signum or 0, self.ledger.waiting, self.divergence.found, due]
        )
        if found:
            self.ledger.exchange()
        if broken:
            self.divergence.refuse()
        if signum:
            self.end.by_signal(state, signum)
        return bool(save)

    def _save(self, state: State, is_best: bool = False) -> None:
        self.divergence.refuse()  # no such weights are saved
        self.output.catch_up()
        self.saver.save(state, is_best)
