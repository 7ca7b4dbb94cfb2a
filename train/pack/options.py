"""What `train pack` can be asked for: options, help, and the command that says them again."""

import dataclasses
import shlex
import sys
from typing import Any, Dict, List, Literal, Optional, Union

import jsonargparse

from train.errors import ConfigError

Container = Literal["folder", "tar", "lmdb", "hdf5", "tfrecord"]
Content = Literal["original", "jpeg", "windows", "coefficients", "raw"]

QUALITY = 90
"""Of JPEGs that are encoded here; what FFCV's published figures use as well."""

SUBSAMPLING = "420"
"""Colour at half the resolution in both directions, as nearly every camera and web page has it."""

FINE_QUALITY, FINE_SUBSAMPLING = 95, "444"
"""Of what is no JPEG and becomes coefficients in its full size: nearly without loss."""

DESCRIPTION = """Pack a data set once, so that every epoch reads and decodes less.

  train pack DIR OUT                       JPEG: the very pixels, decoded faster
  train pack DIR OUT --container lmdb      or folder, hdf5, tfrecord, tar
  train pack DIR OUT --content original    the files as they are, byte for byte
  train pack DIR OUT --short-side 256      smaller, for training at 224 px
  train pack DIR OUT --content coefficients --container lmdb    the fastest
  train pack DIR OUT --content raw --short-side 256    no decoding at all; large
  train pack OUT --verify                  read everything back
  train pack DIR OUT --verify              pack, then compare with DIR
  train fit --data.path OUT                train on it

SRC is a folder of images, another pack, or a single container file. What lies
in OUT is read by others too: tar by WebDataset, lmdb by LMDB, hdf5 by h5py,
tfrecord by TensorFlow.

Ctrl-C stops it, and the same command goes on from there. It is written into
OUT.partial and renamed at the end: OUT is whole or not there.

An image that can't be decoded is never lost silently. It is kept as it is and
written down in OUT/bad_samples.jsonl; only what can't be read at all is left
out, and written down too. However many they are, the pack is made: training has
its own limit, data.bad_budget.

Exit codes: 0 done; 2 something to mend, or --verify found damage; 130 (Ctrl-C),
143 (SIGTERM), 129 (closed terminal): stopped, the same command goes on.
"""


@dataclasses.dataclass(frozen=True)
class PackOptions:
    """One packing, checked.

    Attributes:
        src: what is packed; with `verify` and no `dst`, what is read back.
        dst: the folder to make; None: only verify `src`.
        container: see the parser's help.
        content: see the parser's help.
        short_side: longest allowed short side in pixels; None: the size stays.
        quality: of JPEGs encoded here; None: see `jpeg_quality`.
        shard_size: MB (10^6 bytes) of a tar or tfrecord file.
        workers: threads; "auto": one a usable CPU.
        overwrite: replace an earlier pack.
        verify: read everything back.
        trust: the source may hold pickles and pipes.
    """

    src: str
    dst: Optional[str] = None
    container: Container = "tar"
    content: Content = "windows"
    short_side: Optional[int] = None
    quality: Optional[int] = None
    shard_size: int = 1000
    workers: Union[int, Literal["auto"]] = "auto"
    overwrite: bool = False
    verify: bool = False
    trust: bool = False

    def __post_init__(self) -> None:
        """Check the ranges, and that no option is without effect."""
        if self.short_side is not None and not 8 <= self.short_side <= 65500:
            raise ConfigError(f"--short-side must be 8 to 65500 pixels, got {self.short_side}")
        if self.quality is not None and not 1 <= self.quality <= 100:
            raise ConfigError(f"--quality must be 1 to 100, got {self.quality}")
        if self.shard_size < 1:
            raise ConfigError(f"--shard-size must be >= 1 MB, got {self.shard_size}")
        if self.workers != "auto" and self.workers < 1:
            raise ConfigError(f"--workers must be 'auto' or >= 1, got {self.workers}")
        if self.content == "original" and self.short_side is not None:
            raise ConfigError(
                "--short-side changes images, and --content original keeps them byte for byte; "
                "choose --content jpeg, windows, coefficients or raw"
            )
        if self.content in ("original", "raw") and self.quality is not None:
            raise ConfigError(f"--quality has no effect with --content {self.content}")
        if self.dst is None and not self.verify:
            raise ConfigError(
                "where to? say train pack SRC DST; or train pack SRC --verify to read SRC back"
            )
        if self.dst is None and self.overwrite:
            raise ConfigError("--overwrite needs a DST: train pack SRC DST --overwrite")

    @property
    def jpeg_quality(self) -> int:
        """The quality that holds."""
        default = FINE_QUALITY if self._fine else QUALITY
        return default if self.quality is None else self.quality

    @property
    def subsampling(self) -> str:
        """Resolution of colour in what is encoded here, in libjpeg-turbo's words."""
        return FINE_SUBSAMPLING if self._fine else SUBSAMPLING

    @property
    def _fine(self) -> bool:
        return self.content == "coefficients" and self.short_side is None

    def lasting(self) -> Dict[str, Any]:
        """What decides the bytes of the result: a pack is resumed only under the same."""
        return {
            "container": self.container,
            "content": self.content,
            "short_side": self.short_side,
            "quality": None if self.content in ("original", "raw") else self.jpeg_quality,
            "shard_size": self.shard_size if self.container in ("tar", "tfrecord") else None,
        }

    def asked(self) -> List[str]:
        """The lasting options that were set to something else than their default."""
        names = ("container", "content", "short_side", "quality", "shard_size")
        default = PackOptions("", "")
        return [name for name in names if getattr(self, name) != getattr(default, name)]

    def command(self) -> str:
        """What to type to say the same again."""
        words = [sys.executable, "-m", "train", "pack"]
        for field in dataclasses.fields(self):
            value, name = getattr(self, field.name), "--" + field.name.replace("_", "-")
            if field.name in ("src", "dst"):
                words += [value] if value is not None else []
            elif value is True:
                words.append(name)
            elif value != field.default:
                words += [name, str(value)]
        return " ".join(shlex.quote(word) for word in words)


def build_parser(formatter: Any) -> jsonargparse.ArgumentParser:
    """The parser of `train pack`.

    Args:
        formatter: help formatter that keeps the lines of the description.
    """
    parser = jsonargparse.ArgumentParser(
        formatter_class=formatter, exit_on_error=False, allow_abbrev=False, description=DESCRIPTION
    )
    add = parser.add_argument
    add("src", type=str, help="What to pack: a folder of images, a pack, or a container file.")
    add("dst", type=Optional[str], nargs="?", help="The folder to make.")
    add(
        "--container",
        type=Container,
        default="tar",
        help="What the images lie in. tar: WebDataset shards, few large files that copy well; "
        "lmdb and hdf5: one file; tfrecord: TensorFlow's shards; folder: one file an image.",
    )
    add(
        "--content",
        type=Content,
        default="windows",
        help="What an image is. original: the file's bytes. windows: lossless, a JPEG whose "
        "parts can be decoded alone, so that a crop costs only its own pixels (what is no JPEG "
        "becomes one). coefficients: a JPEG decoded halfway, without loss, for this program alone: "
        "about 2 times the bytes, loads several times as fast. jpeg: encoded again, upright RGB. "
        "raw: pixels (PPM), no decoding at all.",
    )
    add(
        "--short-side",
        type=Optional[int],
        default=None,
        help="Scale larger images down to this short side, in pixels, antialiased; never up. "
        "256 suits training at 224. Images are encoded again.",
    )
    add(
        "--quality",
        type=Optional[int],
        default=None,
        help=f"JPEG quality of images that are encoded, 1 to 100 (default {QUALITY}, colour "
        f"subsampled 4:2:0; {FINE_QUALITY} and 4:4:4 for coefficients without --short-side).",
    )
    add("--shard-size", type=int, default=1000, help="MB of one tar or tfrecord file.")
    add(
        "--workers",
        type=Union[int, Literal["auto"]],
        default="auto",
        help="Threads. auto: one for each CPU this process may use.",
    )
    for name, text in (
        (
            "--overwrite",
            "Replace an earlier pack in DST; nothing else is ever replaced.",
        ),
        (
            "--verify",
            "Read everything back, decode it and compare it; list what is bad in "
            "bad_samples.jsonl. Without DST: read SRC back.",
        ),
        (
            "--trust",
            "Unpickle what SRC holds as Python pickles. It runs code that came with the data.",
        ),
    ):
        add(name, action="store_true", help=text)
    return parser


def from_namespace(chosen: Any) -> PackOptions:
    """The options from what was parsed.

    Raises:
        ConfigError: a value out of its range.
    """
    if any(path == "" or "\0" in (path or "") for path in (chosen["src"], chosen["dst"])):
        raise ConfigError("a path is empty: say train pack SRC DST; is a shell variable not set?")
    names = [field.name for field in dataclasses.fields(PackOptions)]
    return PackOptions(**{name: chosen[name] for name in names})
