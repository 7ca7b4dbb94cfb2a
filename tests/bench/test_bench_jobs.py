"""A job runs in a process of its own, and nothing of it stays behind."""

import os
import time

import processes
import pytest

from train.bench import child, jobs
from train.bench.jobs import JobFailed, Stopped, run_job

# What a job does, as source: the child runs it in place of the real jobs.
FAKES = {
    "result": "tell({'images': 1, 'seconds': 1.0}); return {'n': job['n'] + 1}",
    "mends": "from train.errors import DataError; raise DataError('mend this')",
    "breaks": "raise KeyError('odd')",
    "dies": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "leaves": "print('last words'); import os; sys.stdout.flush(); os._exit(3)",
    "hangs": "import time; time.sleep(600)",
    "forks": ("import subprocess; p = subprocess.Popen(['sleep', '600']); return {'pid': p.pid}"),
}


@pytest.fixture
def fakes(monkeypatch):
    """Run the real child with other jobs."""
    made = "".join(f"\ndef {name}(job, tell):\n    {body}\n" for name, body in FAKES.items())
    table = "child._JOBS = {" + ", ".join(f"'{name}': {name}" for name in FAKES) + "}\n"
    before = f"import sys\nfrom train.bench import child\n{made}{table}"
    boot = (
        "import json, os, sys; sys.path[:] = json.loads(sys.argv[1])\n"
        f"{before}\ncode = child.main(); sys.stdout.flush(); os._exit(code)"
    )
    monkeypatch.setattr(jobs, "_BOOT", boot)


def run(what, stopped=lambda: False, **more):
    return run_job({"what": what, **more}, stopped)


def test_result_and_progress(fakes):
    heard, ticks = [], []
    job = {"what": "result", "n": 4}
    assert run_job(job, lambda: False, heard.append, lambda: ticks.append(1)) == {"n": 5}
    assert heard == [{"images": 1, "seconds": 1.0}]
    assert ticks


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("mends", "^mend this$"),
        ("breaks", "KeyError: 'odd'"),
        ("dies", "killed by signal Killed; most often memory ran out"),
        ("leaves", "last words"),
    ],
)
def test_reasons(fakes, what, reason):
    with pytest.raises(JobFailed, match=reason):
        run(what)


def test_silence_ends_it(fakes, deadline):
    with pytest.raises(JobFailed, match="nothing came from it for 1 s"):
        run_job({"what": "hangs"}, lambda: False, silent_s=1.0)


def test_a_signal_ends_it(fakes, deadline):
    begin = time.monotonic()
    with pytest.raises(Stopped):
        run("hangs", lambda: time.monotonic() - begin > 1.0)
    assert processes.children() == []


def test_what_it_started_ends_with_it(fakes, deadline):
    assert not processes.alive(run("forks")["pid"])


def test_it_leaves_no_descriptor(fakes):
    run("result", n=1)
    before = len(os.listdir("/proc/self/fd"))
    run("result", n=1)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_real_jobs():
    assert set(child._JOBS) == {"settings", "pack", "trial"}
