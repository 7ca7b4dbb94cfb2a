"""`train bench` for real, tiny: files, messages, Ctrl-C."""

import json
import signal

import processes
import pytest
from small_run import make_images, start

from train.__main__ import main

SMALL = ["--data.image_size=32", "--data.batch_size=4", "--data.workers=1", "--data.prefetch=2"]
SMALL += ["--data.workers_kind=process", "--seconds=0.2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=8, val=2)


@pytest.mark.usefixtures("no_child_left", "deadline")
def test_packed_beside_a_device_made_for_it(data, tmp_path, capfd):
    out = tmp_path / "bench" / "out"
    words = [f"--data.path={data}", f"--out={out}", "--only=packed", "--rounds=1", *SMALL]
    assert main(["bench", *words]) == 0
    said = capfd.readouterr().out
    content = json.loads((out / "bench.json").read_text())
    assert content["complete"] is True
    assert list(content["arms"]) == ["packed"]
    alone = content["accelerator"]["calibration"]["images_per_s"]
    assert content["accelerator"]["images_per_s"] == pytest.approx(2.5 * alone)
    for name, arm in content["arms"].items():
        (result,) = arm["rounds"]
        assert result["images"] >= 12, name
        assert 0 <= result["wait_share"] <= 1
        assert result["timer_s"] > 0
        assert result["first_batch_s"] > 0
    assert content["arms"]["packed"]["settings"]["workers"] == 1
    assert content["data"]["warm"][0].startswith("files warm: all ")
    assert {path.name for path in out.iterdir()} == {
        "bench.json",
        "bench.md",
        "bench-dark.png",
        "bench.png",
    }
    (pack,) = (path for path in (tmp_path / "bench" / "packs").iterdir() if path.is_dir())
    assert f"pack      {pack}: windows in tar" in said
    assert "packed in" in said
    assert "packed    1 process, prefetch 2; as set by data.workers" in said
    assert "packed keeps it" in said


@pytest.mark.usefixtures("no_child_left", "deadline")
def test_ctrl_c_keeps_what_was_measured(data, tmp_path):
    out = tmp_path / "out"
    words = [f"--data.path={data}", "--only=ours", "--accelerator=sim:500", "--rounds=90"]
    run = start(["bench", *words, f"--out={out}", *SMALL])
    try:
        assert processes.wait_until((out / "bench.json").exists, 60)
        below = processes.children(run.pid)
        run.send_signal(signal.SIGINT)
        text = run.communicate(timeout=180)[0]
    finally:
        run.kill()
        run.wait()
    assert run.returncode == 130, text
    assert "Traceback" not in text
    assert "measurements are in" in text
    assert processes.wait_until(lambda: not any(map(processes.alive, below)), 10)
    content = json.loads((out / "bench.json").read_text())
    assert content["complete"] is False
    assert any(result for result in content["arms"]["ours"]["rounds"])


def refused(capfd, *words):
    assert main(["bench", *words]) == 2
    return capfd.readouterr().err


def test_refusals(data, tmp_path, capfd):
    path = f"--data.path={data}"
    assert "there are plain, articles, ours" in refused(capfd, path, "--only=fast")
    assert "is no pack made by train pack" in refused(
        capfd, path, f"--packed={tmp_path}", f"--out={tmp_path / 'new'}"
    )
    assert not (tmp_path / "new").exists()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    assert "is not empty" in refused(capfd, path, f"--out={tmp_path / 'full'}")


def test_data_that_no_plain_loader_reads(tmp_path, capfd):
    for number in range(4):
        file = tmp_path / "data" / "cat" / f"{number}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"WFcoef\r\n" + bytes(300))
    message = refused(capfd, f"--data.path={tmp_path / 'data'}", f"--out={tmp_path / 'out'}")
    assert "say --accelerator sim:IMAGES_PER_S" in message
    assert not (tmp_path / "out").exists()
