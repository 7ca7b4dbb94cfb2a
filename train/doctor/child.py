"""Run a function in a process of its own: what it does to a data set, nobody else sees.

A user's data set may crash, hang, open files or use CUDA. In a child that costs a message.
"""

import multiprocessing
import os
import signal
import time
import traceback
from typing import Any, Callable, List, Optional, Sequence, Tuple

from train.data.worker import init_worker
from train.errors import DataError, TrainError
from train.own_code import told

LIMIT_S = 30.0
"""A child that has not answered for so long is ended."""

HEAD_START_S = 0.15
"""Children that are to work at the same time begin so long after the first was started."""


class Failed(Exception):
    """The function raised something in the child; the message has its kind and its last line.

    Attributes:
        text: the whole traceback.
    """

    def __init__(self, message: str, text: str = ""):
        super().__init__(message)
        self.text = text


def run_in_child(work: Callable[..., Any], *arguments: Any, limit_s: float = LIMIT_S) -> Any:
    """What `work(*arguments)` returns, computed in a forked worker.

    Raises:
        Failed: it raised something.
        DataError: it died, or did not answer in time.
    """
    return run_side_by_side(work, [arguments], limit_s=limit_s)[0]


def run_side_by_side(
    work: Callable[..., Any], each: Sequence[Tuple[Any, ...]], limit_s: float = LIMIT_S
) -> List[Any]:
    """What several children return; they begin together. Raises as `run_in_child`."""
    context = multiprocessing.get_context("fork")
    begin = time.monotonic() + (HEAD_START_S if len(each) > 1 else 0.0)
    started: List[Tuple[Any, Any]] = []
    try:
        for number, arguments in enumerate(each):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_work, args=(theirs, number, begin, work, arguments), daemon=False
            )
            process.start()
            theirs.close()
            started.append((process, ours))
        deadline = time.monotonic() + limit_s
        return [_answer(process, link, deadline, limit_s) for process, link in started]
    finally:
        for process, link in started:
            process.kill()
            process.join()
            link.close()


def _work(link: Any, number: int, begin: float, work: Callable[..., Any], arguments: Any) -> None:
    init_worker(number)
    time.sleep(max(0.0, begin - time.monotonic()))
    try:
        answer: Tuple[str, Any, str] = ("done", work(*arguments), "")
    except TrainError as error:
        answer = ("told", str(error), "")
    except BaseException as error:
        answer = ("raised", f"{told(error)}{_place(error)}", _text(error))
    try:
        link.send(answer)
        link.close()
    except OSError:
        os._exit(1)  # the data set closed what is not its own: for the parent we died
    os._exit(0)  # what the data set has left running does not keep us


def _text(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__))


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"


def _answer(process: Any, link: Any, deadline: float, limit_s: float) -> Any:
    answer: Optional[Tuple[str, Any, str]] = None
    try:
        if link.poll(max(0.0, deadline - time.monotonic())):
            answer = link.recv()
        else:
            raise DataError(
                f"the data set has not given a sample for {limit_s:.0f} s: it hangs, or one takes "
                "longer than that; call it once by hand: dataset[0]"
            )
    except EOFError:
        process.join(2)
        code = process.exitcode
        name = signal.Signals(-code).name if code is not None and code < 0 else f"code {code}"
        raise DataError(
            f"a process that read the data set died ({name}): a library crashed in __getitem__, or "
            "memory ran out; call it once by hand: dataset[0]"
        ) from None
    kind, value, text = answer
    if kind == "told":
        raise DataError(value)
    if kind == "raised":
        raise Failed(value, text)
    return value
