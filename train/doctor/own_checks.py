"""All checks of a user's data set, before it is timed."""

import contextlib
from typing import Iterator, List

from train.doctor.child import Failed, run_in_child
from train.doctor.dataset_function import Opened, ending_is_told
from train.doctor.dynamic_checks import (
    cuda_in_worker,
    heavy_type,
    library_threads,
    same_draws,
    shared_state,
)
from train.doctor.findings import Finding
from train.doctor.observe import SAMPLES, observe
from train.doctor.own_data import pick
from train.doctor.static_checks import large_containers, open_handles, pickling
from train.doctor.subject import Subject
from train.errors import DataError, Interrupted, TrainError
from train.own_code import told


@contextlib.contextmanager
def raising_is_told(name: str) -> Iterator[None]:
    """What a user's data set raises on the way becomes one message.

    A few samples are tried before; the one in a thousand that is odd comes later.

    Args:
        name: the value of --dataset.
    """
    try:
        with ending_is_told():
            yield
    except (TrainError, Interrupted):
        raise
    except (Exception, SystemExit) as error:
        raise DataError(
            f"--dataset {name}: while it was examined it raised {told(error)}; call it by hand "
            "with that sample: dataset[i]"
        ) from error


def check_own_data(subject: Subject, opened: Opened, cpus: int) -> List[Finding]:
    """All that can be said of a user's data set before it is timed.

    Raises:
        DataError: it can't be read in a worker.
    """
    settings = subject.settings
    findings = open_handles(opened.dataset, opened.left_open)
    findings += pickling(opened.dataset, settings.start_method)
    findings += large_containers(opened.dataset)
    indices = pick(len(subject), SAMPLES)
    try:
        one, other = (
            run_in_child(observe, subject.data, indices, subject.seed + number)
            for number in range(2)
        )
    except Failed as error:
        if "CUDA" in str(error) or "NVIDIA" in str(error):
            raise DataError(
                f"__getitem__ uses CUDA, which a forked worker can't: {error}; do there what the "
                "CPU does, and the rest on the whole batch, on the device"
            ) from None
        raise DataError(
            f"dataset[i] raised {error}; call it by hand for i in {list(indices)}"
        ) from None
    findings += cuda_in_worker(one)
    findings += same_draws(one, other)
    findings += shared_state(one, other)
    findings += library_threads(one, settings.workers, cpus)
    findings += heavy_type(one)
    return findings
