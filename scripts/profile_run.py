"""A flame graph of a short training run, workers and all: `make profile`.

    python scripts/profile_run.py [--seconds 30] [--trace] ARGUMENTS OF train fit

py-spy looks 100 times a second where each process stands, from the first step on, and draws
profile.svg into the run's folder; its report links it. Where it may not look, because the container
lacks SYS_PTRACE, the run tells its stacks itself, by a signal, twice a second: stacks.txt, and a
table of innermost calls.
"""

import argparse
import html
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import List, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import profile_frames  # noqa: E402
import profile_stacks  # noqa: E402

DONE = (0, 130)  # trained to the end, or stopped after the time that was given

ATTACH, START, STACKS = "attach", "start", "stacks"
"""Ways to look: into a run that goes on, into one that py-spy starts, by the run's own stacks."""

NOT_PERMITTED = """No flame graph: py-spy may not look into other processes here ({reason}).
It needs the capability SYS_PTRACE:
  docker run --cap-add SYS_PTRACE ...
  docker compose -f docker-compose.yml -f compose.profile.yml up -d
Instead the run tells its stacks by a signal, twice a second."""


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/profile_run.py", description="Profile a short training run."
    )
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the run takes (30)")
    parser.add_argument("--trace", action="store_true", help="a trace by torch's profiler, too")
    parser.add_argument("--stacks", action="store_true", help="do without py-spy")
    options, training = parser.parse_known_args(arguments)
    run = _run_folder(training)
    how, reason = (STACKS, "you asked for it") if options.stacks else way()
    command = [sys.executable, str(ROOT / "scripts" / "profile_inside.py"), str(options.seconds)]
    # Where py-spy has to start the run, the run has to stop itself.
    command += ["itself" if how == START else "told"]
    command += ["trace" if options.trace else "plain", str(run), "fit", *training]
    if not any(word.startswith("--run.folder") for word in training):
        command.append(f"--run.folder={run}")
    print(f"profile: {options.seconds:.0f} s of training in {run}", flush=True)
    if how == STACKS:
        if not options.stacks:
            print(NOT_PERMITTED.format(reason=reason), flush=True)
        code = profile_stacks.record(command, run, options.seconds)
    elif how == START:
        code = _start(command, run)
    else:
        code = _attach(command, run, options.seconds)
    if code not in DONE or not run.is_dir():
        print(f"the run ended with exit code {code}: there is no profile", file=sys.stderr)
        return 2 if code == 2 else 1
    from train.report import write_report

    print(f"report    {write_report(run)}")
    return 0


def way() -> Tuple[str, str]:
    """How to look into processes here, and for STACKS why py-spy can't; tried on a sleeper."""
    spy = _spy()
    if spy is None:
        return STACKS, "it is not installed: pip install py-spy"
    sleeper = [sys.executable, "-c", "import time; time.sleep(3)"]
    with tempfile.TemporaryDirectory() as folder:
        look = [spy, "record", "-d", "1", "-f", "raw", "-o", f"{folder}/x"]
        with subprocess.Popen(sleeper) as process:
            time.sleep(0.3)
            tried = _quietly([*look, "--pid", str(process.pid)])
            process.kill()
        if tried.returncode == 0:
            return ATTACH, ""
        if _quietly([*look, "--", *sleeper]).returncode == 0:
            return START, ""
    lines = [line for line in tried.stderr.splitlines() if line.strip()]
    denied = [line for line in lines if "ermi" in line]  # permission denied, not permitted
    return STACKS, (denied or lines or [f"exit code {tried.returncode}"])[0].strip().rstrip(".")


def _quietly(command: List[str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def _spy() -> Optional[str]:
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy")


def _run_folder(training: List[str]) -> Path:
    """The run's folder: as asked for, else the one that the run would choose itself."""
    for word, following in zip(training, [*training[1:], ""]):
        if word == "--run.folder":
            return Path(following)
        if word.startswith("--run.folder="):
            return Path(word.split("=", 1)[1])
    from datetime import datetime

    return Path("runs") / f"profile-{datetime.now():%Y%m%d-%H%M%S}"


def _attach(command: List[str], run: Path, seconds: float) -> int:
    """Start the run, and look at it from its first step on; its exit code."""
    with subprocess.Popen(command) as process:
        try:
            while process.poll() is None and profile_stacks.trainer(run) != process.pid:
                time.sleep(0.2)
            if process.poll() is None:
                _record(run, ["--duration", f"{seconds:.0f}", "--pid", str(process.pid)])
                if process.poll() is None:
                    process.send_signal(signal.SIGALRM)
        except KeyboardInterrupt:
            pass  # the run got it, too
        return process.wait()


def _start(command: List[str], run: Path) -> int:
    """Let py-spy start the run, as a system wants it that lets only parents look; its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder, "code")
        # py-spy's output is caught; the run's, which it would inherit, is not.
        output = os.dup(sys.stdout.fileno())
        os.environ.update(PROFILE_CODE=str(code), PROFILE_OUTPUT=str(output))
        try:
            ended = _record(run, ["--", *command], (output,))
        finally:
            os.close(output)
        # py-spy's own exit code does not tell how the program ended.
        return int(code.read_text()) if code.is_file() else ended or 1


def _record(run: Path, arguments: List[str], keep_open: Tuple[int, ...] = ()) -> int:
    """Draw profile.svg, and say what it shows; py-spy's exit code.

    What py-spy itself says names a file that is gone afterwards: it is shown only when nothing
    was drawn.
    """
    with tempfile.TemporaryDirectory() as folder:
        drawn = Path(folder, "profile.svg")
        spy = [str(_spy()), "record", "--subprocesses", "--format", "flamegraph"]
        spied = subprocess.run(
            [*spy, "--output", str(drawn), *arguments],
            stdout=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            pass_fds=keep_open,
        )
        if drawn.is_file() and run.is_dir():
            svg = drawn.read_text(encoding="utf-8")
            title = html.escape(f"{run}: where its processes spend their time")
            svg = re.sub(r'(<text id="title"[^>]*>)[^<]*', lambda m: m.group(1) + title, svg)
            (run / "profile.svg").write_text(svg, encoding="utf-8")
            print("\n".join(profile_frames.table(svg)))
            print(f"flame graph {run / 'profile.svg'}", flush=True)
        elif spied.stdout.strip():
            print(spied.stdout.rstrip(), file=sys.stderr)
        return spied.returncode


if __name__ == "__main__":
    sys.exit(main())
