"""Many threads, one order: what goes in first comes out first, and only so much is held at once.

Threads, since decoding, encoding and reading all let go of the interpreter's lock; a
process would copy each image twice.
"""

import collections
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Callable, Deque, Iterator, List

HELD_BYTES = 256 << 20
"""Results that wait for an earlier one may take this much before no new work is given out."""

CHUNK_BYTES = 2 << 20
"""A piece of work is about as large as this: small images are handed over many at a time."""

MOST_A_CHUNK = 32


def in_order(
    function: Callable[[int], Any],
    start: int,
    stop: int,
    threads: int,
    size: Callable[[Any], int],
    asked_to_stop: Callable[[], bool],
) -> Iterator[Any]:
    """Yield function(start), ..., function(stop - 1), computed side by side.

    Args:
        function: called in threads; what it raises is raised here.
        start: the first number.
        stop: one behind the last.
        threads: how many at once.
        size: bytes that a result holds.
        asked_to_stop: looked at while waiting; True ends the iteration early.
    """

    def work(first: int, last: int) -> List[Any]:
        return [function(number) for number in range(first, last)]

    position, length = start, 1
    waiting: Deque[Future[List[Any]]] = collections.deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="pack")
    try:
        while not asked_to_stop():
            held = _held_bytes(waiting, size)
            while position < stop and len(waiting) < 2 * threads + 1:
                if waiting and held >= HELD_BYTES:
                    break
                last = min(stop, position + length)
                waiting.append(pool.submit(work, position, last))
                position = last
            if not waiting:
                return
            if not wait(list(waiting)[:1], timeout=0.2).done:
                continue
            chunk = waiting.popleft().result()
            mean = max(1, sum(map(size, chunk)) // len(chunk))
            length = max(1, min(MOST_A_CHUNK, CHUNK_BYTES // mean))
            for result in chunk:
                if asked_to_stop():
                    return
                yield result
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _held_bytes(waiting: Deque["Future[List[Any]]"], size: Callable[[Any], int]) -> int:
    """Bytes of the results that are there but not yet asked for."""
    return sum(
        size(result)
        for future in waiting
        if future.done() and future.exception() is None
        for result in future.result()
    )
