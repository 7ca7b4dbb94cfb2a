"""What `train bench` can be asked for."""

import dataclasses
from typing import Any, Optional

from train.accelerator_choice import parse_accelerator
from train.bench.arms import choose
from train.errors import ConfigError

DESCRIPTION = """Compare loaders beside one accelerator, on this machine and your images.

  train bench --data.path DIR
  train bench --data.path DIR --only plain,ours --seconds 10 --rounds 5
  train bench --data.path DIR --packed OUT    OUT: what train pack made of DIR
  train bench --data.path DIR --accelerator sim:2000
  train bench --data.path DIR --accelerator cuda --model.name resnet50

DIR is a folder of images, a pack, or a container. All arms see the same images
in the same order, with the same crops and flips:

  plain      torch's DataLoader as it comes: num_workers=0, Pillow, torchvision,
             float32, each batch copied when it is asked for
  articles   the same with the settings that articles on this advise: workers
             0.8 x CPUs, pin_memory (GPU), prefetch_factor 4, persistent_workers
  ours       our loader on the same files; settings chosen as train tune does
  packed     ours on what train pack makes of them (packed once, then kept)
  synthetic  one batch again and again: the accelerator's own limit

For each: images/s, the share of time in which the accelerator worked, seconds
an epoch, cores, CPU seconds, first batch, memory; medians of interleaved
rounds, the warm-up left out, each measurement in a process of its own. With the
defaults it takes about 3 minutes, and packing, once.

Without a GPU the accelerator is simulated: asynchronous as a GPU, and 2.5 times
as fast as the plain loader here, which therefore keeps it 40 % busy: where the
articles begin. With one it is the run's model, trained for real and thrown
away, its waiting measured by CUDA events.

The folder of --out gets bench.md (table), bench.json (every single result) and
bench.png, bench-dark.png (the plot).

Exit codes: 0 done; 2 something to mend; 130 (Ctrl-C), 143 (SIGTERM): stopped,
what was measured is in bench.json.
"""


@dataclasses.dataclass(frozen=True)
class BenchOptions:
    """One comparison.

    Attributes:
        accelerator: auto, cpu, cuda, sim, sim:IMAGES_PER_S.
        rounds: times each arm is measured, interleaved.
        seconds: of one measurement of one arm.
        only: names of arms, with commas; None: all.
        packed: a pack of the same data, for the arm of that name; None: it is made.
        out: folder for table, plot and JSON; None: runs/bench/<data>-<date and time>.
    """

    accelerator: str = "auto"
    rounds: int = 3
    seconds: float = 5.0
    only: Optional[str] = None
    packed: Optional[str] = None
    out: Optional[str] = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        parse_accelerator(self.accelerator)
        if not 1 <= self.rounds <= 100:
            raise ConfigError(f"--rounds must be 1 to 100, got {self.rounds}")
        if not 0.2 <= self.seconds <= 3600:
            raise ConfigError(f"--seconds must be 0.2 to 3600, got {self.seconds}")
        names = [arm.name for arm in choose(self.only)]
        if self.packed is not None and "packed" not in names:
            raise ConfigError("--packed has no effect: --only leaves the arm 'packed' out")
        if "" in (self.packed, self.out):
            raise ConfigError("a path is empty (--packed or --out); is a shell variable not set?")


def add_options(parser: Any) -> None:
    """Add them to a parser that has the settings of a run already."""
    add = parser.add_argument
    add(
        "--accelerator",
        type=str,
        default="auto",
        help="What the loaders feed: cpu or cuda (the run's model, trained for real, thrown "
        "away); sim:IMAGES_PER_S (a simulated device); sim: 2.5 times as fast as the plain "
        "loader. auto: cuda where it is, else sim.",
    )
    add("--rounds", type=int, default=3, help="Times each arm is measured, interleaved.")
    add(
        "--seconds",
        type=float,
        default=5.0,
        help="Of one measurement of one arm; at least three batches are measured.",
    )
    add("--only", type=Optional[str], default=None, help="Names of arms, with commas.")
    add(
        "--packed",
        type=Optional[str],
        default=None,
        help="What train pack made of the same data. Left out: it is packed as train pack does "
        "it by default, into a folder 'packs' beside --out that later runs use again.",
    )
    add(
        "--out",
        type=Optional[str],
        default=None,
        help="Folder for table, plot and JSON (default: runs/bench/<data>-<date and time>).",
    )


def from_namespace(chosen: Any) -> BenchOptions:
    """The options from what was parsed.

    Raises:
        ConfigError: a value out of its range.
    """
    return BenchOptions(**{f.name: chosen[f.name] for f in dataclasses.fields(BenchOptions)})
