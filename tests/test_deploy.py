"""Files for clusters: their syntax, and that what they start is what the program understands."""

import os
import re
import shutil
import subprocess

import pytest
import yaml
from small_run import ROOT

SLURM = ROOT / "deploy/slurm.sh"
KUBERNETES = ROOT / "deploy/kubernetes.yaml"

# `srun` and its like stand for a cluster: what would be started is printed.
CLUSTER = {
    "scontrol": 'if [ "$1" = show ]; then echo gpu-a; echo gpu-b; else echo "scontrol $*"; fi',
    "srun": 'echo "srun $*"; exit "${ENDS_WITH:-0}"',
}


def parsed_by_torchrun(words):
    from torch.distributed import run

    return run.parse_args(words)


def fit_settings(words):
    """The settings of `train fit ...`."""
    from train.command_line import build_parser

    return build_parser().parse_args(words)


@pytest.fixture
def cluster(tmp_path):
    for name, body in CLUSTER.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
    return {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NODELIST": "gpu-[a-b]",
        "SLURM_NNODES": "2",
        "SLURM_GPUS_ON_NODE": "4",
    }


def submit(cluster, *words, **more):
    return subprocess.run(
        ["bash", str(SLURM), *words],
        env={**cluster, **more},
        capture_output=True,
        text=True,
        timeout=180,
        cwd=ROOT,
    )


def test_the_batch_file_is_bash():
    subprocess.run(["bash", "-n", str(SLURM)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(SLURM)], check=True)
    lines = re.findall(r"^#SBATCH (--[\w-]+)(?:=(\S+))?$", SLURM.read_text(), re.M)
    options = dict(lines)
    assert len(lines) == SLURM.read_text().count("\n#SBATCH ")
    assert options["--signal"].startswith("USR1@")
    assert options["--ntasks-per-node"] == "1"  # torchrun starts the ranks
    # Slurm reads them only before the first command.
    assert SLURM.read_text().rindex("#SBATCH") < SLURM.read_text().index("set -euo")


def test_slurm_starts_what_the_program_understands(cluster):
    done = submit(cluster, "--config", "configs/sample.yaml", "--optim.epochs", "3")
    assert done.returncode == 0, done.stderr
    words = done.stdout.split()
    assert words[0] == "srun"
    program = words[words.index("train.launch") + 1 :]
    options = parsed_by_torchrun(program)
    assert (options.nnodes, options.nproc_per_node, options.max_restarts) == ("2", "4", 3)
    assert options.rdzv_endpoint == f"gpu-a:{20000 + 4711}"
    assert options.rdzv_id == "4711"
    assert (options.module, options.training_script) == (True, "train")
    fit = fit_settings(options.training_script_args).fit
    assert fit.run.folder == "runs/job-4711"
    assert fit.optim.epochs == 3


@pytest.mark.parametrize(("code", "again"), [(138, True), (2, False), (143, False)])
def test_a_saved_job_goes_back_into_the_queue(cluster, code, again):
    done = submit(cluster, ENDS_WITH=str(code))
    assert done.returncode == code
    assert ("scontrol requeue 4711" in done.stdout) == again


def test_the_kubernetes_job():
    service, job = yaml.safe_load_all(KUBERNETES.read_text())
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    assert (job["apiVersion"], job["kind"]) == ("batch/v1", "Job")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    spec = job["spec"]
    assert spec["completionMode"] == "Indexed"
    pod = spec["template"]["spec"]
    assert pod["restartPolicy"] in ("OnFailure", "Never")  # a job allows no other
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert mounted.keys() == volumes.keys()
    assert mounted["shm"] == "/dev/shm"
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"
    assert container["command"][-2:] == ["-m", "train.launch"]
    options = parsed_by_torchrun(container["args"])
    assert int(options.nnodes) == spec["completions"] == spec["parallelism"]
    limits = container["resources"]["limits"]
    assert int(options.nproc_per_node) == limits["nvidia.com/gpu"]
    host, port = options.rdzv_endpoint.split(":")
    assert host == f"{job['metadata']['name']}-0.{service['metadata']['name']}"
    assert [int(port)] == [entry["port"] for entry in service["spec"]["ports"]]
    words = [word.replace("/opt/wellfed/", f"{ROOT}/") for word in options.training_script_args]
    fit = fit_settings(words).fit
    assert fit.run.folder.startswith(mounted["runs"])
    assert fit.data.path == mounted["data"]


def test_make_starts_one_rank_a_gpu():
    if not shutil.which("make"):
        pytest.skip("make is not installed")
    done = subprocess.run(
        ["make", "-n", "-o", "env", "train", "GPUS=4", "DATA=photos"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    assert "-m train.launch --standalone --nproc-per-node 4 -m train fit" in done.stdout
