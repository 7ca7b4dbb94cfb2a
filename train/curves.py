"""The curves of a run for TensorBoard: one file of events, written at the end of each epoch.

TensorBoard's own writer has a thread that ends for good at the first error of the disk, with a
traceback. Here nothing is written in between: what could not be written waits for the next epoch.
"""

import io
import os
import platform
import time
from pathlib import Path
from typing import Iterable, List, Tuple

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

_VERSION = "brain.Event:2"  # what every file of events begins with


class Curves:
    """Writes the scalars of one run.

    Args:
        folder: where to; it is made.

    Raises:
        OSError: nothing can be written there.
    """

    def __init__(self, folder: Path):
        self._folder = folder
        self._waiting: List[bytes] = []
        self._begin()
        self.close()

    def _begin(self) -> None:
        """Take a new file; TensorBoard reads files in the order of their names."""
        self._folder.mkdir(parents=True, exist_ok=True)
        stamps = [_stamp(path.name) for path in self._folder.glob("events.out.tfevents.*")]
        stamp = max([int(time.time()), *(stamp + 1 for stamp in stamps)])  # the clock may go back
        name = f"events.out.tfevents.{stamp:010}.{platform.node()}.{os.getpid()}"
        self._path, self._is_sound = self._folder / name, True
        self._first = _record(Event(wall_time=time.time(), file_version=_VERSION))

    def add(self, scalars: Iterable[Tuple[str, float]], step: int) -> None:
        """Write a point of each curve: (tag, value), at `step`.

        Raises:
            OSError: it can't be written now; it will be with the next ones.
        """
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars]
        event = Event(wall_time=time.time(), step=step, summary=Summary(value=values))
        self._waiting.append(_record(event))
        self.close()

    def close(self) -> None:
        """Write what waits.

        Raises:
            OSError: it can't be written.
        """
        if not (self._waiting or self._first):
            return
        if not self._is_sound:  # it may end in half an event, and nothing after that is read
            self._begin()
        self._is_sound = False
        with open(self._path, "ab") as file:
            file.write(self._first + b"".join(self._waiting))
        self._first, self._waiting, self._is_sound = b"", [], True


def _record(event: Event) -> bytes:
    """An event as it stands in a file: with its length and checksums."""
    memory = io.BytesIO()
    RecordWriter(memory).write(event.SerializeToString())
    return memory.getvalue()


def _stamp(name: str) -> int:
    part = name.split(".")[3]
    return int(part) if part.isascii() and part.isdigit() else 0
