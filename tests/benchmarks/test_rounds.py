import json
import os
import sys
import time

import pytest
from race import measure, rounds
from race.arms import ARMS
from race.prepare import Ready


def run(code, limit_s=20):
    return rounds.run([sys.executable, "-c", code], limit_s)


def gone(pid):
    """Whether a process ends within some seconds; one that nobody has asked after yet counts."""
    for _ in range(500):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_the_last_line_of_json_is_the_result():
    result, why = run("print('hello'); print('{\"images_per_s\": 7}'); print('bye')")
    assert result == {"images_per_s": 7}
    assert why is None


def test_a_failure_is_its_last_words():
    result, why = run("raise SystemExit('no such library: libfoo.so')")
    assert result is None
    assert why == "no such library: libfoo.so"
    assert run("import os; os._exit(3)") == (None, "exit code 3")


CHILD = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
print('{"pid": %d}' % child.pid, flush=True)
"""


def test_what_an_arm_leaves_behind_is_ended():
    result, _ = run(CHILD)
    assert gone(result["pid"])


def test_an_arm_that_hangs_is_ended_with_its_children(deadline):
    begin = time.monotonic()
    result, _ = run(CHILD + "time.sleep(60)", limit_s=3)
    assert time.monotonic() - begin < 30
    assert gone(result["pid"])
    assert run("import time; time.sleep(60)", limit_s=0.5) == (None, "took longer than 0 s")


def test_rounds_are_interleaved():
    said = []
    arms = [arm for arm in ARMS if arm.name in ("limit", "dali")]
    code = "print('{\"images_per_s\": 5}')"
    ready = [Ready(arm, [sys.executable, "-c", code], 1.0) for arm in arms]
    order = [(arm.name, number) for arm, number, *_ in rounds.race(ready, 3, 0.1, said.append)]
    assert order == [
        ("limit", 0),
        ("dali", 0),
        ("dali", 1),
        ("limit", 1),
        ("limit", 2),
        ("dali", 2),
    ]
    assert "[1/3, 1/2] limit: 5 images/s" in said


class Pictures:
    shape, dtype = (64, 224, 224, 3), "uint8"


def test_whole_passes_are_measured(monkeypatch):
    monkeypatch.delenv(measure.STARTED, raising=False)
    taken = []

    def stream():
        while True:
            time.sleep(0.001)
            taken.append(1)
            yield Pictures()

    result = measure.measure(stream, 0.05, epoch_batches=10, warm_s=0.01)
    assert result["images"] % 640 == 0
    assert result["images"] <= len(taken) * 64
    assert result["images_per_s"] == pytest.approx(result["images"] / result["seconds"], rel=0.01)
    assert result["shape"] == [64, 224, 224, 3]
    assert set(result["memory_mb"]) == {"anonymous", "shared", "files"}
    json.dumps(result)


def test_cpu_time_of_children_counts():
    before = measure.cpu_seconds()
    run("t = __import__('time'); end = t.process_time() + 0.3\nwhile t.process_time() < end: pass")
    assert measure.cpu_seconds() - before > 0.25


def test_files_have_a_fixed_order(tree):
    task = measure.Task(tree, None, 1)
    files = task.files()
    assert files == sorted(files)
    assert [label for _, label in files] == sorted(label for _, label in files)
    assert len(files) == 24
    assert all(os.path.isfile(path) for path, _ in files)
