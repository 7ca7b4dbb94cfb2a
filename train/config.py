"""Every knob of a run: four frozen dataclasses.

Each field is followed by its meaning, its unit and why this default.

Order of precedence: defaults < YAML file (`--config`) < flags (`--section.key value`). An unknown
key or a wrong type is an error. `auto` means that the machine decides and the run prints what it
chose and why; `null` means off. No `from __future__ import annotations` here: jsonargparse reads
the types at run time.
"""

import dataclasses
import math
from typing import Any, Dict, Literal, Optional, Union, get_args

from train.errors import ConfigError

Auto = Literal["auto"]
START_METHODS = ("fork", "forkserver", "spawn")


def kind_of(asked: str) -> str:
    """auto, process or thread, of `data.workers_kind`, which may also say how processes start."""
    return "process" if asked in START_METHODS else asked


def _check(condition: bool, key: str, expected: str, value: Any) -> None:
    if not condition:
        raise ConfigError(f"{key} must be {expected}, got {value!r}")


def _refuse_null(section: str, settings: Any) -> None:
    """`null` means off, and only some settings can be off."""
    for field in dataclasses.fields(settings):
        if getattr(settings, field.name) is None and type(None) not in get_args(field.type):
            raise ConfigError(f"{section}.{field.name} can't be null; leave it out for its default")


@dataclasses.dataclass(frozen=True)
class DataConfig:
    """The data and the loader."""

    path: str = "data/sample"
    """Folder of images: `DIR/train/<class>/...` and `DIR/val/<class>/...`, or `DIR/<class>/...`
    (then `val_share` of it is set aside). Or what `train pack` made, or a container: tar shards
    (WebDataset), LMDB, HDF5, TFRecord. Or a source of your own: `mypkg.data:drawings` is the
    function `drawings` of mypkg/data.py. Default: the generated sample that `make train` makes."""

    val_share: float = 0.1
    """Share of each class set aside for validation where there is no val folder, in (0, 1). The
    choice depends on the seed and the file's name alone, so it stays when files are added."""

    image_size: int = 224
    """Side of the square images that the model sees, in pixels. 224 is what ImageNet models
    expect."""

    batch_size: int = 64
    """Images per batch on each device: on 4 GPUs a step sees 4 times as many. Raise it until the
    device's memory is nearly full; then `optim.accumulate` goes further."""

    crop_min: float = 0.08
    """Smallest share of the image's area that a random training crop covers, in (0, 1]. 0.08 is the
    ImageNet recipe; 0.3 and more suits small data sets."""

    flip: float = 0.5
    """Probability that a training image is mirrored. 0 for what must not be mirrored: text,
    digits."""

    workers: Union[int, Auto] = "auto"
    """Workers that decode. auto: what `train tune` has found for this machine and these data; a run
    of 10,000 images and more finds it out itself, once. Else from the CPUs this process may really
    use (affinity and cgroup quota). Fitted to memory. 0: decode in the training process."""

    prefetch: Union[int, Auto] = "auto"
    """Batches that each worker keeps ready. auto: tuned with the workers; else 4 with CUDA, 2 on
    the CPU; fewer where memory is short."""

    workers_kind: Literal["auto", "thread", "process", "fork", "forkserver", "spawn"] = "auto"
    """What a worker is. Threads share one process: less memory, a faster start; the steps of our
    own line let them run side by side. Python code of yours, a transform for one, does that in
    processes alone. auto: tuned with the workers; else processes, which were as fast where it was
    measured (docs/log.md). process starts them by fork on Linux, since that shares the file list
    without a copy; fork, forkserver and spawn start processes in that way. Choose forkserver when a
    library of yours does not survive a fork."""

    resize: Literal["antialias", "bilinear", "dct"] = "antialias"
    """How a window is scaled. antialias: triangle filter, as torchvision and Pillow do it.
    bilinear: two pixels each way, without antialiasing: noisier. dct: as antialias, but of a JPEG
    whose window is at least three times as large as needed only 1/2, 1/4 or 1/8 of the pixels is
    decoded; at most one level off on the average, faster for images of several megapixels."""

    trust: Literal["nothing", "data", "code"] = "data"
    """What is believed. nothing: the checksum of each coefficient record is compared whenever it is
    read, which takes about as long as all else; a wrong one is a bad sample. data: numbers that
    make sense are right. code: what a container holds as Python pickles is unpickled, which runs
    code that came with the data."""

    max_pixels: int = 178_956_970
    """Larger images are bad samples, decided from the header before decoding (decompression bombs).
    The default is the limit at which Pillow refuses; one such image takes 0.5 GiB in a worker."""

    bad_budget: float = 0.001
    """Share of the data set that may be bad (unreadable, corrupt) before the run stops with the
    list; rounded up, so one bad file never ends a run. Each one is replaced and written down."""

    allow_empty_classes: bool = False
    """Go on when a class folder has no image. Off, since it is nearly always a mistake; class
    numbers never shift either way."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _refuse_null("data", self)
        if not self.path:  # it would mean the current folder
            raise ConfigError("data.path is empty: name a folder; is a shell variable not set?")
        _check(0 < self.val_share < 1, "data.val_share", "between 0 and 1", self.val_share)
        _check(8 <= self.image_size <= 8192, "data.image_size", "8 to 8192", self.image_size)
        _check(self.batch_size >= 1, "data.batch_size", ">= 1", self.batch_size)
        _check(0 < self.crop_min <= 1, "data.crop_min", "in (0, 1]", self.crop_min)
        _check(0 <= self.flip <= 1, "data.flip", "in [0, 1]", self.flip)
        if self.workers != "auto":
            _check(self.workers >= 0, "data.workers", "'auto' or >= 0", self.workers)
        if self.prefetch != "auto":
            _check(self.prefetch >= 1, "data.prefetch", "'auto' or >= 1", self.prefetch)
        _check(self.max_pixels >= 1, "data.max_pixels", ">= 1", self.max_pixels)
        _check(0 <= self.bad_budget <= 1, "data.bad_budget", "in [0, 1]", self.bad_budget)


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """What is trained."""

    name: str = "resnet18"
    """Any classifier of torchvision by its name: resnet50, convnext_tiny, efficientnet_b0,
    vit_b_16 ... Or one of your own: mypkg.models:tiny is the function tiny of mypkg/models.py."""

    weights: Optional[str] = None
    """File of weights to start from: a checkpoint of this package, or a state dict. Layers whose
    shape differs (the last one, for another number of classes) start anew and are named. null: from
    scratch."""

    def __post_init__(self) -> None:
        """Check that nothing is null that can't be."""
        _refuse_null("model", self)


@dataclasses.dataclass(frozen=True)
class OptimConfig:
    """How it is trained: SGD with Nesterov momentum 0.9, cosine schedule with warm-up."""

    epochs: int = 30
    """Passes over the training set."""

    lr: Union[float, Auto] = "auto"
    """Peak learning rate. auto: 0.1 per 256 images of an optimizer step (linear scaling rule,
    arXiv:1706.02677)."""

    weight_decay: float = 1e-4
    """L2 penalty on weights; biases and normalisation layers have none."""

    warmup_epochs: float = 1.0
    """Epochs over which the learning rate rises linearly from near 0; large steps at random weights
    can diverge."""

    label_smoothing: float = 0.1
    """Share of the target spread over all classes, in [0, 1)."""

    accumulate: int = 1
    """Batches per optimizer step: the same result as a batch `accumulate` times as large (but for
    batch normalisation), when memory is short. The last, partial window is scaled by its own
    size."""

    ema: Optional[float] = None
    """Decay of a running mean of the weights, in (0, 1), moved on at each optimizer step and
    evaluated in their place: 0.999 averages about the last 1,000 steps. It takes the memory of the
    weights once more. null: none."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _refuse_null("optim", self)
        _check(self.epochs >= 1, "optim.epochs", ">= 1", self.epochs)
        if self.lr != "auto":
            _check(self.lr > 0 and math.isfinite(self.lr), "optim.lr", "'auto' or > 0", self.lr)
        decay = self.weight_decay
        _check(0 <= decay < math.inf, "optim.weight_decay", ">= 0", decay)
        _check(self.warmup_epochs >= 0, "optim.warmup_epochs", ">= 0", self.warmup_epochs)
        _check(
            0 <= self.label_smoothing < 1,
            "optim.label_smoothing",
            "in [0, 1)",
            self.label_smoothing,
        )
        _check(self.accumulate >= 1, "optim.accumulate", ">= 1", self.accumulate)
        if self.ema is not None:
            _check(0 < self.ema < 1, "optim.ema", "null or between 0 and 1", self.ema)


@dataclasses.dataclass(frozen=True)
class RunConfig:
    """Where and on what it runs."""

    folder: Optional[str] = None
    """Where the run is written. null: `runs/<data>-<model>-<date and time>`. An existing run is
    never overwritten."""

    seed: int = 42
    """All randomness is a function of (seed, epoch, index), never of the number of workers."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """auto: CUDA where there is a device, else the CPU."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """Mixed precision. auto: bf16 where the device has it, else fp16 with loss scaling; fp32 on the
    CPU, where mixed precision rarely gains."""

    checkpoint_minutes: Optional[float] = 10.0
    """Save in the middle of an epoch when the last save is older than this. null: at epoch ends and
    on SIGTERM or Ctrl-C only."""

    max_steps: Optional[int] = None
    """Stop after so many optimizer steps in all; for trials and measurements."""

    resume: Optional[str] = None
    """Run folder to go on with: its settings and its last checkpoint, from the very next sample."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _refuse_null("run", self)
        _check(0 <= self.seed < 2**63, "run.seed", "in [0, 2**63)", self.seed)
        if self.checkpoint_minutes is not None:
            _check(
                self.checkpoint_minutes > 0,
                "run.checkpoint_minutes",
                "null or > 0",
                self.checkpoint_minutes,
            )
        if self.max_steps is not None:
            _check(self.max_steps >= 1, "run.max_steps", "null or >= 1", self.max_steps)


@dataclasses.dataclass(frozen=True)
class Config:
    """One run."""

    data: DataConfig = dataclasses.field(default_factory=DataConfig)
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    optim: OptimConfig = dataclasses.field(default_factory=OptimConfig)
    run: RunConfig = dataclasses.field(default_factory=RunConfig)


def flatten(config: Config) -> Dict[str, Any]:
    """The settings as one level of `section.key: value`, plain types only."""
    return {
        f"{section}.{key}": value
        for section, fields in dataclasses.asdict(config).items()
        for key, value in fields.items()
    }
