"""The run that is profiled: `train fit`, stopped after some seconds, and traced if asked for.

    python scripts/profile_inside.py SECONDS itself|told trace|plain RUN fit ARGUMENTS

It stops itself when the seconds since its first step are over, or is told so by SIGALRM.

The file $PROFILE_CODE gets its exit code; the descriptor $PROFILE_OUTPUT is its standard output.
"""

import gzip
import inspect
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any, List

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

LOOK_S = 0.5

STEPS_BEFORE, STEPS_WARM, STEPS_TRACED = 1, 2, 8
"""Steps that are left out, that the profiler warms up in, and that are written."""


def main(arguments: List[str]) -> int:
    seconds, itself = float(arguments[0]), arguments[1] == "itself"
    way, run, training = arguments[2], arguments[3], arguments[4:]
    end, over = 0.0, False

    def look(signum: int, frame: Any) -> None:
        nonlocal end, over
        if over:
            return
        if itself and not end and Path(run, "status.json").exists():  # it has done a step
            end = time.monotonic() + seconds
        if not itself or (end and time.monotonic() >= end):
            over = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            _unheard(signal.getsignal(signal.SIGINT))
            os.kill(os.getpid(), signal.SIGINT)

    signal.signal(signal.SIGALRM, look)
    if itself:
        signal.setitimer(signal.ITIMER_REAL, LOOK_S, LOOK_S)
    from train import __main__ as program

    if way == "trace":
        _trace_first_epoch(Path(run))
    end_with = program._end

    def end_as_wanted(message: str, code: int) -> int:
        """A stop that was wanted is no message: nobody is to go on with a profile."""
        return code if over and code == 128 + signal.SIGINT else end_with(message, code)

    program._end = end_as_wanted
    code = program.main(training)
    if over:
        print(f"{seconds:.0f} s are over: the run was stopped", flush=True)
    return code


def _unheard(handler: Any) -> None:
    """Let a run that is stopped as planned not say that it was interrupted."""
    from train.signals import StopRequest

    request = getattr(handler, "__self__", None)
    if isinstance(request, StopRequest):
        request.say = lambda _: None


def _output() -> None:
    """Write where the profiler was told to, whose own output goes nowhere."""
    given = os.environ.pop("PROFILE_OUTPUT", "")
    if given:
        os.dup2(int(given), sys.stdout.fileno())
        os.close(int(given))


def _trace_first_epoch(run: Path) -> None:
    """Let torch's profiler see some steps of the first epoch, and write trace.json.gz."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    from train import loop

    train_epoch = loop.train_epoch
    cuda = torch.cuda.is_available()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if cuda else [])

    def write(profiler: Any) -> None:
        write_trace(profiler, run, cuda)

    def traced(*given: Any, **named: Any) -> Any:
        loop.train_epoch = train_epoch  # type: ignore[assignment]
        call = inspect.signature(train_epoch).bind(*given, **named)
        after_step = call.arguments["after_step"]
        steps = schedule(wait=STEPS_BEFORE, warmup=STEPS_WARM, active=STEPS_TRACED, repeat=1)
        with profile(activities=activities, schedule=steps, on_trace_ready=write) as profiler:

            def step() -> bool:
                ended: bool = after_step()
                profiler.step()
                return ended

            call.arguments["after_step"] = step
            return train_epoch(*call.args, **call.kwargs)

    loop.train_epoch = traced  # type: ignore[assignment]


NO_CUPTI = (
    "note: NVIDIA's driver does not let this user read what kernels do (CUPTI), so the trace has "
    "the CPU's times alone; how long the device waited is measured by events, see the report. "
    "With the capability SYS_ADMIN, or NVreg_RestrictProfilingToAdminUsers=0 on the host, it has "
    "both"
)


def write_trace(profiler: Any, run: Path, cuda: bool) -> None:
    """Write trace.json.gz, and say once when the device's part is missing."""
    plain, packed = run / "trace.json", run / "trace.json.gz"
    profiler.export_chrome_trace(str(plain))
    with open(plain, "rb") as source, gzip.open(packed, "wb", compresslevel=5) as target:
        shutil.copyfileobj(source, target)
    plain.unlink()
    print(f"trace {packed}: open it at ui.perfetto.dev or chrome://tracing", flush=True)
    if cuda and not sees_device(profiler.events()):
        print(NO_CUPTI, flush=True)


def sees_device(events: Any) -> bool:
    """Whether any event of a trace happened on a device."""
    return any("CUDA" in str(event.device_type) for event in events)


if __name__ == "__main__":
    _output()
    code = main(sys.argv[1:])
    if os.environ.get("PROFILE_CODE"):
        Path(os.environ["PROFILE_CODE"]).write_text(str(code))
    sys.exit(code)
