"""In a small container every number fits the container, not the machine, and says whose it is."""

import json
import re

import pytest
from containers import docker

pytestmark = pytest.mark.docker

LIMITS = ["--cpus", "1.5", "--memory", "2g", "--memory-swap", "2g", "--shm-size", "64m"]
DATA = "python /opt/wellfed/scripts/sample_data.py --train 300 --val 60 --out /tmp/data >/dev/null"


def in_small_container(image: str, *lines: str, seconds: float = 300) -> str:
    """What these shell lines print in a container of 1.5 CPUs, 2 GiB and 64 MiB of /dev/shm."""
    script = " && ".join(lines)
    return docker("run", "--rm", *LIMITS, image, "bash", "-c", script, seconds=seconds)


def test_info_names_the_containers_limits(image):
    shown = {row["name"]: row for row in json.loads(in_small_container(image, "train info --json"))}
    assert shown["CPUs"]["value"] == "1"
    assert "1.5 CPUs" in shown["CPUs"]["source"]
    assert shown["memory"]["value"] == "2.0 GiB"
    assert "cgroup" in shown["memory"]["source"]
    assert "64.0 MiB in all" in shown["/dev/shm free"]["source"]


def test_tune_stays_within_them(image):
    """An accelerator far too fast: what tune chooses fits 1.5 CPUs, and fits into 2 GiB."""
    command = "train tune --data.path /tmp/data --accelerator sim:50000 --seconds 20 --json"
    chosen = json.loads(in_small_container(image, DATA, f"{command} 2>/dev/null"))
    assert chosen["cpus"] == 1
    assert chosen["limit"] == "data"
    assert 0 <= chosen["workers"] <= 6
    rows = [row["measured"] for row in chosen["rows"] if row["measured"]]
    assert rows
    assert all(row["memory_bytes"] < 2 * 1024**3 for row in rows)
    assert all(row["cores"] <= 1.8 for row in rows)


def test_a_run_and_the_doctor_say_the_quota(image):
    """The loader's reason and the doctor's machine lines name 1.5 CPUs and where it is from."""
    fit = (
        "train fit --data.path /tmp/data --data.image_size 64 --data.batch_size 32 "
        "--run.max_steps 2 --optim.epochs 2 --model.name shufflenet_v2_x0_5 --run.folder /tmp/run"
    )
    doctor = "train doctor --data.path /tmp/data --data.image_size 64 --accelerator sim:400"
    text = in_small_container(image, DATA, fit, doctor)
    assert re.search(r"(?m)^data\.workers +[01] .*1\.5 CPUs", text), text
    assert "stopped at run.max_steps=2" in text
    assert len(re.findall(r"1\.5 CPUs", text)) >= 2, text


def test_bench_works_there(image):
    command = (
        "train bench --data.path /tmp/data --data.image_size 64 --only plain,ours "
        "--rounds 1 --seconds 1 --out /tmp/bench"
    )
    done = in_small_container(image, DATA, f"{command} >&2", "cat /tmp/bench/bench.json")
    result = json.loads(done)
    assert result["complete"]
    assert set(result["arms"]) == {"plain", "ours"}
    assert result["cpus"] == 1
