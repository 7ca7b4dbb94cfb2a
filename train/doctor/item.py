"""What one sample costs a worker: CPU, waiting, and for whom.

Ratios of CPU times hold on a busy machine too, and so does the time blocked: the kernel tells apart
a thread that waits for a CPU and one that waits for something else (`schedstat`).

Source: https://docs.kernel.org/scheduler/sched-stats.html
"""

import itertools
import linecache
import os
import resource
import sys
import sysconfig
import threading
import time
from collections import Counter
from typing import Any, Callable, List, Optional, Sequence, Tuple

from train.doctor.measurements import Item

LOOK_EVERY_S = 0.003
"""The line at which a worker is, is looked at so often."""

Make = Callable[[int], Any]


def time_items(make: Make, indices: Sequence[int], seconds: float, least: int = 3) -> Item:
    """Make samples for some seconds, in this thread; the first one is left out.

    Args:
        make: makes the sample of an index.
        indices: taken in turn.
        seconds: to go on for.
        least: samples at least.
    """
    order = itertools.cycle(indices)
    make(next(order))
    clock = _Clocks()
    count = 0
    with _Watcher(threading.get_ident()) as watcher:
        clock.start()
        while count < least or clock.elapsed() < seconds:
            make(next(order))
            count += 1
        clock.stop()
    helper = clock.process_s - clock.cpu_s - watcher.cpu_s
    return _item(clock, count, max(0.0, helper), watcher.most_often())


def time_items_in_threads(make: Make, indices: Sequence[int], seconds: float, threads: int) -> Item:
    """The same by several threads of this process at once: the mean of them."""
    done: List[Tuple[_Clocks, int]] = []
    errors: List[BaseException] = []
    barrier = threading.Barrier(threads)

    def work(number: int) -> None:
        try:
            order = itertools.cycle(indices[number::threads] or indices)
            make(next(order))
            barrier.wait(20)
            clock, count = _Clocks(), 0
            clock.start()
            while count < 2 or clock.elapsed() < seconds:
                make(next(order))
                count += 1
            clock.stop()
            done.append((clock, count))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    with _Watcher(workers[0].ident) as watcher:
        for worker in workers:
            worker.join()
    if errors:
        raise errors[0]
    count = sum(number for _, number in done)
    sums = _Clocks()
    for clock, _ in done:
        sums.add(clock)
    return _item(sums, count, 0.0, watcher.most_often())


def together(items: Sequence[Item]) -> Item:
    """The mean of several workers."""
    count = sum(item.items for item in items)

    def mean(name: str) -> float:
        return sum(getattr(item, name) * item.items for item in items) / count

    first = max(items, key=lambda item: item.place_share)
    return Item(
        mean("wall_s"),
        mean("cpu_s"),
        mean("helper_s"),
        mean("queued_s"),
        mean("blocked_s"),
        count,
        first.place,
        first.place_share,
        first.next_place,
        first.next_share,
    )


class _Clocks:
    """All clocks of this thread and its process."""

    def __init__(self) -> None:
        self.wall_s = self.cpu_s = self.process_s = self.queued_s = 0.0
        self.waits = self.turns = 0.0
        self._knows_queue = True

    def start(self) -> None:
        """Begin."""
        self._begin = self._now()
        self._knows_queue = queued_s() is not None

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._begin[0]

    def stop(self) -> None:
        """End: what was since the start."""
        now = self._now()
        differences = [after - before for before, after in zip(self._begin, now)]
        self.wall_s, self.cpu_s, self.process_s, self.queued_s = differences[:4]
        self.waits, self.turns = differences[4:]
        if not self._knows_queue:  # by the switches: those it asked for, and those it did not
            idle, switches = max(0.0, self.wall_s - self.cpu_s), self.waits + self.turns
            self.queued_s = idle * (self.turns / switches if switches else 0.0)

    def add(self, other: "_Clocks") -> None:
        """Sum up."""
        for name in ("wall_s", "cpu_s", "process_s", "queued_s"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @staticmethod
    def _now() -> Tuple[float, ...]:
        used = resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF))
        return (
            time.perf_counter(),
            time.thread_time(),
            time.process_time(),
            queued_s() or 0.0,
            float(used.ru_nvcsw),
            float(used.ru_nivcsw),
        )


def queued_s() -> Optional[float]:
    """Seconds that this thread has waited for a CPU; None where the kernel does not count them."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return None


Places = Tuple[str, float, str, float]


def _item(clock: _Clocks, count: int, helper_s: float, places: Places) -> Item:
    blocked = max(0.0, clock.wall_s - clock.cpu_s - clock.queued_s)
    return Item(
        clock.wall_s / count,
        clock.cpu_s / count,
        helper_s / count,
        clock.queued_s / count,
        blocked / count,
        count,
        *places,
    )


class _Watcher:
    """Looks now and then at the line of code that a thread is at."""

    def __init__(self, thread: Optional[int]):
        self._thread, self._stop = thread, threading.Event()
        self._seen: Counter[Tuple[str, int]] = Counter()
        self.cpu_s = 0.0
        self._watching = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "_Watcher":
        self._watching.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop.set()
        self._watching.join()

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            frame = sys._current_frames().get(self._thread or -1)
            if frame is not None:
                self._seen[_own_line(frame)] += 1
            del frame  # or what it holds would live on
        self.cpu_s = time.thread_time()

    def most_often(self) -> Places:
        """The two lines, in words, each with its share."""
        looks = sum(self._seen.values())
        found: List[Tuple[str, float]] = []
        for (file, line), count in self._seen.most_common(2):
            text = linecache.getline(file, line).strip()
            name = f"{os.path.basename(file)}:{line}"
            found.append((f"{name}: {text}" if text else name, count / looks))
        first, second = (*found, ("", 0.0), ("", 0.0))[:2]
        return (*first, *second)


_LIBRARIES = tuple(
    path
    for path in (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        os.path.dirname(__file__),
    )
    if path
)


def _own_line(frame: Any) -> Tuple[str, int]:
    """The innermost line that is not a library's, else the innermost."""
    inner = frame
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARIES) and not file.startswith("<"):
            return file, frame.f_lineno
        frame = frame.f_back
    return inner.f_code.co_filename, inner.f_lineno
