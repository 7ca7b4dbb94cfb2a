"""One job in a process of its own: clean memory, clean CPU counts, no thread of anything before.

The job comes as JSON on standard input. Lines of JSON go back: {"images", "seconds"} now and then,
at last {"result": ...} or {"error": ...}. What is printed goes to a file that is shown when the
process dies.
"""

import ctypes
import json
import os
import pickle
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, Optional

from train.config import Config, DataConfig, ModelConfig, OptimConfig, RunConfig
from train.errors import BadSample, Interrupted, TrainError
from train.machine import Measure
from train.usage import Memory, OthersClock, memory

EVERY_S = 0.2
"""Least time between two lines of progress."""

TIMED = 3
"""Runs of the articles' statement that are timed; torch makes two more before, to warm up."""

_PR_SET_PDEATHSIG = 1  # Linux, sys/prctl.h

COMPILED_BY = 4
"""Images after which all is compiled that packing needs."""

Tell = Callable[[Dict[str, Any]], None]


def main() -> int:
    """Do the job; `sys.argv[2]` is the descriptor that the lines go to."""
    if sys.platform == "linux":  # no measurement outlives the program
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    with os.fdopen(int(sys.argv[2]), "w", buffering=1) as lines:

        def tell(content: Dict[str, Any]) -> None:
            lines.write(json.dumps(content) + "\n")

        job = json.load(sys.stdin)
        try:
            tell({"result": _JOBS[job["what"]](job, tell)})
        except TrainError as error:
            tell({"error": str(error)})
        except Interrupted as stop:
            return stop.exit_code
        except Exception as error:
            traceback.print_exc()
            tell({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
    return 0


def config_of(job: Dict[str, Any]) -> Config:
    """The settings that a job was given."""
    asked = job["config"]
    return Config(
        DataConfig(**asked["data"]),
        ModelConfig(**asked["model"]),
        OptimConfig(**asked["optim"]),
        RunConfig(**asked["run"]),
    )


def _source(job: Dict[str, Any]) -> Any:
    """The records: opened once by the program, which wrote this file itself."""
    with open(job["source"], "rb") as file:
        return pickle.load(file)


def _settings(job: Dict[str, Any], tell: Tell) -> Dict[str, Any]:
    from train.bench.arms import choose
    from train.bench.chosen import choose_settings
    from train.bench.loaders import open_loader

    config, source, cpus = config_of(job), _source(job), Measure("CPUs", *job["cpus"])
    fields, reasons = choose_settings(
        config,
        source,
        lambda: _accelerator(job, config),
        job["kind"],
        job["container"],
        cpus,
        job["seconds"],
        lambda text: tell({"note": text}),
    )
    # What these data need is compiled now, once on a machine, and not in the first measurement.
    alone = {**fields, "workers": 0, "pin_memory": False}
    (arm,) = choose(job["arm"])
    loader = open_loader(arm, source, config, alone)
    next(iter(loader))
    loader.close()
    return {"settings": fields, "reasons": reasons}


def _pack(job: Dict[str, Any], tell: Tell) -> Dict[str, Any]:
    from train.pack.contents import convert
    from train.pack.options import PackOptions
    from train.pack.run import pack
    from train.pack.summary import folder_bytes

    options = PackOptions(job["src"], job["dst"], trust=job["trust"])
    source = _source(job)
    for index in range(min(COMPILED_BY, len(source))):
        try:
            convert(source[index].data, options)  # compiles, once on a machine
        except (BadSample, OSError):
            pass
    begin = time.perf_counter()
    pack(options, Measure("CPUs", *job["cpus"]), look=False)
    size = folder_bytes(Path(job["dst"]))
    return {"seconds": time.perf_counter() - begin, "bytes": size, "content": options.content}


def _accelerator(job: Dict[str, Any], config: Config) -> Any:
    import torch

    from train.accelerator import ModelAccelerator, SimulatedAccelerator
    from train.precision import choose_precision

    if job["kind"] == "sim":
        return SimulatedAccelerator(job["images_per_s"])
    device = torch.device("cpu")
    if job["kind"] == "cuda":
        device = torch.device("cuda", torch.cuda.current_device())
        torch.backends.cudnn.benchmark = True  # as train fit has it
    precision = choose_precision(config.run.precision, device)
    return ModelAccelerator(
        device, config.model.name, job["classes"], precision, config.optim.label_smoothing
    )


def _trial(job: Dict[str, Any], tell: Tell) -> Dict[str, Any]:
    """Measure one arm once."""
    import torch

    from train.bench.arms import choose
    from train.bench.loaders import Cached, open_loader
    from train.trial import run_trial

    config, (arm,), source = config_of(job), choose(job["arm"]), _source(job)
    if arm.kind == "torch" or job["kind"] != "sim":
        import train.bench.plain  # noqa: F401  its libraries are no cost of the loader
    bare = memory()
    if torch.get_num_threads() > job["cpus"][0]:  # torch does not know of quotas
        torch.set_num_threads(job["cpus"][0])
    loader = open_loader(arm, source, config, job["settings"])
    begin = told = time.perf_counter()
    count = 0

    def after_batch(images: int) -> None:
        nonlocal told, count
        count, now = count + images, time.perf_counter()
        if now - told >= EVERY_S:
            tell({"images": count, "seconds": now - begin})
            told = now

    if arm.kind == "ours" and job["kind"] != "sim":
        loader.start()  # before CUDA and its threads, as train fit does
    started_s = time.perf_counter() - begin
    accelerator = _accelerator(job, config)
    begin, others = time.perf_counter(), OthersClock()
    trial = run_trial(
        loader,
        Cached(accelerator) if arm.kind == "cached" else accelerator,  # type: ignore[arg-type]
        job["seconds"],
        arm.ahead,
        after_batch=after_batch,
    )
    busy = others.cores()
    loader.close()
    result: Dict[str, Any] = {
        **trial._asdict(),
        "images_per_s": trial.images_per_s,
        "busy_share": trial.busy_share,
        "cpu_s_per_1000": trial.cpu_s_per_1000,
        "others_cores": busy,
        "memory_bytes": _over(trial.memory_bytes, bare),
        "first_batch_s": None if arm.kind == "cached" else started_s + trial.first_batch_s,
        "accelerator": accelerator.name,
    }
    if job["timer"] and arm.kind != "cached":
        result["timer_s"] = _articles_measure(open_loader(arm, source, config, job["settings"]))
    return result


def _over(taken: Optional[int], bare: Optional[Memory]) -> Optional[int]:
    """What a loader and its workers take over the bare program."""
    return None if taken is None or bare is None else max(0, taken - bare.taken)


def _articles_measure(loader: Any) -> float:
    """Seconds of `next(iter(loader))` by the timer that the articles use."""
    from torch.utils.benchmark import Timer

    timed = Timer("next(iter(loader))", globals={"loader": loader}).timeit(TIMED)
    loader.close()
    return float(timed.mean)


_JOBS: Dict[str, Callable[[Dict[str, Any], Tell], Dict[str, Any]]] = {
    "settings": _settings,
    "pack": _pack,
    "trial": _trial,
}
