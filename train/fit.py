"""`train fit`: puts the parts together and runs them, epoch by epoch."""

import re
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

import torch

from train import checkpoint, loop, machine
from train.checkpoint import Identity, State
from train.config import Config, flatten
from train.console import Bar, say
from train.data.batch import Bad, Batch
from train.data.ledger import Ledger
from train.data.prefetch import DevicePrefetcher
from train.data.settings import LoaderSettings
from train.data.sources.splits import Splits
from train.errors import Interrupted, SetupError
from train.files import disk_error
from train.metrics import epoch_line, epoch_row, scalars
from train.model import build_model, build_optimizer, check_model, load_weights
from train.precision import Precision, choose_precision
from train.prepare import (
    Loaders,
    announce,
    build_loaders,
    choose_device,
    choose_settings,
    explain,
    open_data,
    plan_schedule,
)
from train.report import write_report
from train.run_folder import RunFolder
from train.signals import StopRequest
from train.timing import UtilisationMean


def fit(config: Config, cpus: machine.Measure[int]) -> RunFolder:
    """Train a model.

    Args:
        config: all settings.
        cpus: usable CPUs, read before torch was imported (an OpenMP runtime may change the
            affinity).

    Returns:
        The run's folder.

    Raises:
        TrainError: what the user can mend; nothing that was saved is lost.
        Interrupted: a signal; the run was saved.
    """
    device = choose_device(config.run.device)
    # torch counts CPUs, not the quota: more threads would be throttled.
    if torch.get_num_threads() > cpus.value:
        torch.set_num_threads(cpus.value)
    torch.manual_seed(config.run.seed)
    # One image size: pick the fastest kernels once.
    torch.backends.cudnn.benchmark = device.type == "cuda"
    splits = open_data(config)
    settings = choose_settings(config, device, cpus)
    precision = choose_precision(config.run.precision, device)
    loaders = build_loaders(config, splits, settings)
    if not config.run.resume:
        smallest = min(2, *loaders.train.sampler.batch_sizes())
        size = config.data.image_size
        check_model(config.model.name, len(splits.classes), size, smallest)
    folder = RunFolder.open(config.run.resume) if config.run.resume else RunFolder.create(config)
    try:
        with folder.locked():
            return _Run(config, device, splits, settings, precision, folder, loaders, cpus).go()
    except RuntimeError as error:
        if re.search("out of memory|can't allocate memory|Too many open files", str(error)):
            raise SetupError(
                f"{str(error).splitlines()[0]}; lower data.batch_size, data.workers or "
                "data.image_size (open files: ulimit -n)"
            ) from error
        raise
    except OSError as error:
        where = f" {error.filename!r}" if error.filename else ""
        raise SetupError(
            f"the system refused{where}: {error.strerror or error}; what was saved before is intact"
        ) from error
    finally:
        loaders.train.close()
        loaders.val.close()


REPORT_S = 60.0
"""Seconds between two report pages: drawing one takes as long as many steps."""


class _Run:
    """One run from its first step to its last."""

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
    ):
        self.config, self.device, self.splits = config, device, splits
        self.precision, self.folder, self.loaders = precision, folder, loaders
        self.ledger = Ledger(
            folder.bad_samples, len(splits.train) + len(splits.val), config.data.bad_budget
        )
        self.identity = Identity(
            flatten(config),
            splits.classes,
            len(splits.train),
            len(splits.val),
            machine.lock_hash(),
        )
        self.schedule = plan_schedule(config, loaders.train.sampler)
        self.settings = settings.reasons + explain(
            config, device, precision, self.schedule, cpus, loaders.train.sampler
        )
        self.warnings = settings.warnings
        self.utilisation = UtilisationMean(machine.GpuUtilisation().read)
        self.saved_at = self.reported_at = time.monotonic()
        self.stop: Optional[StopRequest] = None
        self.ended_early = False

    def go(self) -> RunFolder:
        """Train to the end, or to a signal."""
        config = self.config
        content = checkpoint.load(self.folder.last) if config.run.resume else None
        if content is not None:
            for warning in checkpoint.check(content, self.identity, self.folder.last):
                say(f"warning: {warning}")
            self.loaders.train.load_state_dict(content["loader"])
            # One pass an epoch that is left; no batch is decoded for a pass that never comes.
            self.loaders.val.epochs = config.optim.epochs - content["loader"]["epoch"]
        self._note_scan()
        # Workers are forked here: before the model, TensorBoard and CUDA have made threads.
        self.loaders.train.start()
        self.loaders.val.start()
        announce(self.folder, self.settings, self.warnings, len(self.splits.train), self.loaders)
        model = build_model(config.model.name, len(self.splits.classes))
        if config.model.weights and content is None:
            anew = load_weights(model, config.model.weights)
            say(
                f"weights   from {config.model.weights}"
                + (f"; anew: {', '.join(anew)}" if anew else "")
            )
        model = model.to(device=self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]
        state = State(
            model, build_optimizer(model, config.optim.weight_decay), self.precision.scaler
        )
        if content is not None:
            checkpoint.restore(content, state)
            say(f"resume    {self.folder.last}: epoch {state.epoch + 1}, step {state.step}")
        with StopRequest(say) as self.stop, _tensorboard(self.folder) as board:
            prefetchers = [DevicePrefetcher(loader, self.device) for loader in self.loaders]
            while state.epoch < config.optim.epochs and not self.ended_early:
                self._epoch(state, prefetchers, board)
            self._finish(state)
        return self.folder

    def _epoch(self, state: State, prefetchers: List[DevicePrefetcher], board: Any) -> None:
        """Train and evaluate one epoch, write its line, save."""
        begin, begin_images = time.monotonic(), int(state.train_sums[3])
        sampler = self.loaders.train.sampler
        title = f"epoch {state.epoch + 1}/{self.config.optim.epochs}"
        with Bar(f"{title} train", sampler.samples_per_epoch, state.samples_seen) as bar:
            timing = loop.train_epoch(
                state,
                prefetchers[0] if sampler.batch_sizes(state.samples_seen) else [],
                sampler.batch_sizes(state.samples_seen),
                self.schedule,
                self.precision,
                self.device,
                lambda: self._after_step(state),
                lambda batch: self._note_bad("train", batch),
                bar,
            )
        if self.ended_early:
            self._save(state)
            return
        train_s, images = time.monotonic() - begin, int(state.train_sums[3]) - begin_images
        begin = time.monotonic()
        with Bar(f"{title} validate", len(self.splits.val)) as bar:
            val = loop.evaluate(
                state.model,
                prefetchers[1],
                self.precision,
                self.device,
                lambda: self._leave_if_asked(state),
                lambda batch: self._note_bad("val", batch),
                bar,
            )
        loop.refuse_nan(val.loss, state, "validation")
        row = epoch_row(
            state,
            loop.train_scores(state),
            val,
            timing,
            images,
            len(self.splits.classes),
            {
                "train_s": train_s,
                "val_s": time.monotonic() - begin,
                "bad_samples": len(self.ledger),
                "gpu_util": self.utilisation.mean(),
            },
        )
        self._close_epoch(state, row, board)

    def _close_epoch(self, state: State, row: Dict[str, Any], board: Any) -> None:
        say(epoch_line(row, self.config.optim.epochs), indent=10, unit="  ")
        self.folder.append_metrics(row)
        for tag, value in scalars(row):
            board.add_scalar(tag, value, row["epoch"])
        is_best = row["val_top1"] > state.best_top1
        state.best_top1 = max(state.best_top1, row["val_top1"])
        state.epoch, state.samples_seen = state.epoch + 1, 0
        state.train_sums = torch.zeros(4, dtype=torch.float64)
        self._save(state, self.folder.best if is_best else None)
        if time.monotonic() - self.reported_at > REPORT_S:
            self._report()

    def _after_step(self, state: State) -> bool:
        self._leave_if_asked(state)
        self.utilisation.sample()
        limit, minutes = self.schedule.max_steps, self.config.run.checkpoint_minutes
        if limit is not None and state.step >= limit:
            self.ended_early = True
        elif minutes is not None and time.monotonic() - self.saved_at > 60 * minutes:
            self._save(state)
        return self.ended_early

    def _leave_if_asked(self, state: State) -> None:
        if self.stop is not None and self.stop.signum is not None:
            self._save(state)
            self._report()
            raise Interrupted(
                self.stop.signum,
                f"saved at epoch {state.epoch + 1}, step {state.step}; go on with:\n"
                f"  {self.folder.resume_command()}",
            )

    def _save(self, state: State, best: Optional[Path] = None) -> None:
        loop.refuse_nan(loop.train_scores(state).loss, state)
        checkpoint.save(self.folder.last, state, self.identity, best)
        self.saved_at = time.monotonic()

    def _note_bad(self, split: str, batch: Batch) -> None:
        if batch.bad:
            self._note(split, batch.bad)

    def _note_scan(self) -> None:
        """Broken links are samples that can't be read.

        They are on the ledger and count for the budget.
        """
        broken = [item for item in self.splits.skipped if item.reason == "broken_symlink"]
        self._note("scan", [Bad(-1, item.key, f"broken link: {item.detail}") for item in broken])

    def _note(self, split: str, bad: Any) -> None:
        before = len(self.ledger)
        try:
            new = self.ledger.add(split, bad)
        except OSError as error:
            raise disk_error(self.folder.bad_samples, error) from None
        if new:
            name, reason = list(self.ledger.entries.items())[before]
            say(
                f"bad sample {name!a}: {reason}"
                + (f" (and {new - 1} more)" if new > 1 else "")
                + f"; {len(self.ledger)} so far, {self.ledger.allowed} allowed, "
                f"all in {self.folder.bad_samples}"
            )

    def _report(self) -> None:
        try:
            write_report(self.folder.path)
        except OSError as error:
            raise disk_error(self.folder.path / "report.html", error) from None
        self.reported_at = time.monotonic()

    def _finish(self, state: State) -> None:
        self._report()
        what = f"stopped at run.max_steps={self.schedule.max_steps}" if self.ended_early else "done"
        if state.best_top1 >= 0:
            what += f": best top-1 {state.best_top1:.1%}"
        if len(self.ledger):
            what += f"; {len(self.ledger)} bad sample(s), listed in {self.folder.bad_samples}"
        say(what)
        say(f"run       {self.folder.path}")
        say(f"report    {self.folder.path / 'report.html'}")


def _tensorboard(folder: RunFolder) -> Any:
    # Late: it starts a thread, and its import is slow.
    from torch.utils.tensorboard import SummaryWriter

    try:
        return SummaryWriter(str(folder.tensorboard))
    except OSError as error:
        raise disk_error(folder.tensorboard, error) from None
