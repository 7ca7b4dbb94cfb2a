"""What the image's recipe holds and what it must not: read, not built."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
STAGES = re.split(r"^(?=FROM )", DOCKERFILE, flags=re.MULTILINE)[1:]
CODE = "\n".join(line for line in DOCKERFILE.splitlines() if not line.startswith("#"))


def compose(name="docker-compose.yml"):
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))["services"]["lab"]


def variables():
    """ENV of the image."""
    block = re.search(r"^ENV (.*?[^\\])\n", DOCKERFILE, re.MULTILINE | re.S).group(1)
    return dict(re.findall(r"(\w+)=(\S+)", block))


def test_no_question_is_asked_while_packages_are_installed():
    """tzdata would ask for a region and wait for ever; the answer stays out of the image."""
    asking = [stage for stage in STAGES if "apt-get install" in stage]
    assert asking
    for stage in asking:
        quiet = stage.index("ARG DEBIAN_FRONTEND=noninteractive")
        assert quiet < stage.index("apt-get install")
        assert "apt-get install -yq" in stage
    assert "DEBIAN_FRONTEND" not in variables()


def test_the_base_is_no_cuda_image_and_is_pinned_by_its_digest():
    """So no package list of NVIDIA's is asked, whose key may change."""
    base = re.search(r"^ARG BASE_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE).group(1)
    assert re.fullmatch(r"debian:\S+@sha256:[0-9a-f]{64}", base)
    assert not re.search(r"nvidia/cuda|developer\.download\.nvidia|apt-key|cuda-compat", CODE)


def test_the_driver_brings_what_a_session_needs():
    assert variables()["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert set(variables()["NVIDIA_DRIVER_CAPABILITIES"].split(",")) == {"compute", "utility"}


@pytest.mark.parametrize("name", ["LD_LIBRARY_PATH", "KMP_DUPLICATE_LIB_OK", "PYTHONPATH"])
def test_no_variable_hides_what_the_lock_brought(name):
    assert name not in CODE


def test_every_command_finds_the_environment_and_no_packages_of_a_home():
    assert variables()["PATH"].startswith("/opt/env/bin:")
    assert variables()["PYTHONNOUSERSITE"] == "1"


def test_batches_and_files_have_room_and_ports_are_of_this_machine_alone():
    lab = compose()
    assert lab["shm_size"] == "${SHM_SIZE:-8g}"
    assert lab["ulimits"]["nofile"]["soft"] >= 16384
    assert all(port.startswith("127.0.0.1:") for port in lab["ports"])


def test_a_machine_without_a_gpu_needs_no_other_file():
    assert "deploy" not in compose()
    assert compose("compose.gpu.yml")["deploy"]["resources"]["reservations"]["devices"]


def test_other_launchers_are_given_room_for_batches_too():
    """Kubernetes by a volume in memory; an editor by the very compose file."""
    assert re.search(r"medium: Memory", (ROOT / "deploy/kubernetes.yaml").read_text("utf-8"))
    assert '"../docker-compose.yml"' in (ROOT / ".devcontainer/devcontainer.json").read_text(
        "utf-8"
    )


def test_no_channel_with_terms_to_accept_is_asked():
    for path in [ROOT / "environment.yml", *ROOT.glob("environments/*/environment.yml")]:
        channels = yaml.safe_load(path.read_text("utf-8"))["channels"]
        assert "nodefaults" in channels
    assert not re.search(r"miniconda|anaconda3|repo\.anaconda", CODE, re.IGNORECASE)
