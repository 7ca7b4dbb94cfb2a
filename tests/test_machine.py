"""The machine: GPUs by a fake NVML, limits, file systems, the environment and its findings."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from train import machine
from train.machine import GpuUtilisation, Measure


class NVMLError(Exception):
    """As in pynvml."""


def fake_nvml(**replacements):
    """A stand-in for pynvml with one GPU; a replacement that is an exception is raised."""

    def answer(value):
        def ask(*arguments):
            if isinstance(value, Exception):
                raise value
            return value(*arguments) if callable(value) else value

        return ask

    answers = {
        "nvmlInit": None,
        "nvmlShutdown": None,
        "nvmlSystemGetDriverVersion": "550.54.15",
        "nvmlSystemGetCudaDriverVersion": 12040,
        "nvmlDeviceGetCount": 1,
        "nvmlDeviceGetHandleByIndex": lambda index: ("index", index),
        "nvmlDeviceGetHandleByUUID": lambda uuid: ("uuid", uuid),
        "nvmlDeviceGetName": "NVIDIA A100",
        "nvmlDeviceGetMemoryInfo": types.SimpleNamespace(total=80 << 30),
        "nvmlDeviceGetMigMode": [0, 0],
        "nvmlDeviceGetUtilizationRates": types.SimpleNamespace(gpu=37, memory=5),
    }
    answers.update(replacements)
    module = types.SimpleNamespace(**{name: answer(value) for name, value in answers.items()})
    module.NVMLError = NVMLError
    return module


@pytest.fixture
def nvml(monkeypatch):
    """A function that puts a fake NVML in place of pynvml."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def install(**replacements):
        module = fake_nvml(**replacements)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return install


def value_of(rows, name):
    return next(row for row in rows if row.name == name)


def test_import_loads_neither_torch_nor_numpy():
    code = (
        "import sys, train.machine; print(sorted({'torch', 'numpy', 'pynvml'} & set(sys.modules)))"
    )
    checkout = Path(machine.__file__).resolve().parent.parent
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=checkout,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert run.stdout.strip() == "[]"


def test_gpu_as_nvml_tells(nvml):
    nvml()
    found, note = machine.gpus()
    assert found == [machine.Gpu(0, "NVIDIA A100", 80 << 30, False, "550.54.15", "12.4")]
    assert note == "NVML"


def test_older_nvml_answers_in_bytes(nvml):
    nvml(nvmlDeviceGetName=b"Tesla T4", nvmlSystemGetDriverVersion=b"470.1")
    (gpu,), _ = machine.gpus()
    assert (gpu.name, gpu.driver) == ("Tesla T4", "470.1")


def test_what_a_gpu_does_not_support_is_unknown(nvml):
    nvml(
        nvmlDeviceGetMigMode=NVMLError("Not Supported"),
        nvmlDeviceGetMemoryInfo=NVMLError("Not Supported"),
        nvmlSystemGetCudaDriverVersion=NVMLError("Not Supported"),
    )
    (gpu,), _ = machine.gpus()
    assert (gpu.name, gpu.memory_bytes, gpu.mig) == ("NVIDIA A100", None, None)
    assert gpu.cuda_driver == "unknown"
    row = value_of(machine.describe(), "GPU 0")
    assert row.value == "NVIDIA A100, memory unknown, no MIG"


def test_a_lost_gpu_is_named_and_hides_no_other(nvml):
    def handle(index):
        if index == 0:
            raise NVMLError("GPU is lost")
        return index

    nvml(nvmlDeviceGetCount=2, nvmlDeviceGetHandleByIndex=handle)
    found, _ = machine.gpus()
    assert [gpu.name for gpu in found] == ["does not answer (lost?)", "NVIDIA A100"]


def test_mig_and_visible_devices_are_told(nvml, monkeypatch):
    nvml(nvmlDeviceGetMigMode=[1, 1])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-5c89")
    row = value_of(machine.describe(), "GPU 0")
    assert row.value == "NVIDIA A100, 80.0 GiB, MIG on"
    assert "CUDA_VISIBLE_DEVICES=MIG-5c89" in row.source
    assert "driver 550.54.15, CUDA up to 12.4" in row.source


@pytest.mark.parametrize("function", ["nvmlInit", "nvmlDeviceGetCount"])
def test_nvml_trouble_means_no_gpus_and_a_reason(nvml, function):
    nvml(**{function: NVMLError("Driver Not Loaded")})
    assert machine.gpus() == ([], "NVML: Driver Not Loaded")
    assert value_of(machine.describe(), "GPUs") == Measure(
        "GPUs", "none", "NVML: Driver Not Loaded"
    )


def test_without_nvml_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert machine.gpus() == ([], "nvidia-ml-py is not installed")
    sampler = GpuUtilisation()
    assert sampler.read() is None
    assert "utilisation unknown" in sampler.reason


def test_utilisation_in_percent(nvml):
    nvml()
    assert GpuUtilisation().read() == 37.0


@pytest.mark.parametrize(
    "answer",
    [NVMLError("Not Supported"), types.SimpleNamespace(), types.SimpleNamespace(gpu="N/A")],
)
def test_utilisation_not_supported_never_raises(nvml, answer):
    nvml(nvmlDeviceGetUtilizationRates=answer)
    sampler = GpuUtilisation()
    assert [sampler.read(), sampler.read()] == [None, None]
    assert sampler.reason.startswith("utilisation unknown: ")


def test_utilisation_beyond_100_is_unknown(nvml):
    nvml(nvmlDeviceGetUtilizationRates=types.SimpleNamespace(gpu=4294967295))
    assert GpuUtilisation().read() is None


@pytest.mark.parametrize(
    ("visible", "device", "handle"),
    [
        (None, 1, ("index", 1)),
        ("5,2", 1, ("index", 2)),
        ("GPU-8932f937", 0, ("uuid", "GPU-8932f937")),
    ],
)
def test_utilisation_is_of_the_device_that_cuda_means(nvml, monkeypatch, visible, device, handle):
    asked = []
    answer = types.SimpleNamespace(gpu=1)
    nvml(nvmlDeviceGetUtilizationRates=lambda handle: asked.append(handle) or answer)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert GpuUtilisation(device).read() == 1.0
    assert asked == [handle]


@pytest.mark.parametrize("visible", ["", "0"])
def test_utilisation_of_a_hidden_device_is_unknown(nvml, monkeypatch, visible):
    nvml(nvmlDeviceGetHandleByUUID=NVMLError("Not Found"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    sampler = GpuUtilisation(0 if visible == "" else 1)
    assert sampler.read() is None
    assert sampler.reason


def statvfs(blocks, available, size=4096):
    return lambda path: types.SimpleNamespace(f_blocks=blocks, f_bavail=available, f_frsize=size)


def test_shm_free(monkeypatch):
    monkeypatch.setattr(os, "statvfs", statvfs(16384, 1000))
    measure = machine.shm_free_bytes()
    assert measure == Measure("/dev/shm free", 4096000, "statvfs, 64.0 MiB in all")


def test_shm_missing(tmp_path):
    measure = machine.shm_free_bytes(tmp_path / "shm")
    assert measure.value == 0
    assert measure.source == f"no {tmp_path / 'shm'} (No such file or directory)"


def test_shm_without_bound_is_bounded_by_memory(monkeypatch):
    monkeypatch.setattr(os, "statvfs", statvfs(0, 0))
    monkeypatch.setattr(
        machine, "memory_available_bytes", lambda: Measure("memory available", 77, "MemAvailable")
    )
    measure = machine.shm_free_bytes()
    assert measure.value == 77
    assert "MemAvailable" in measure.source


class TestOpenFiles:
    resource = pytest.importorskip("resource")

    @pytest.fixture
    def limits(self, monkeypatch):
        now = {"limit": (1024, 4096)}
        monkeypatch.setattr(self.resource, "getrlimit", lambda kind: now["limit"])
        monkeypatch.setattr(self.resource, "setrlimit", lambda kind, limit: now.update(limit=limit))
        return now

    def test_soft_limit_is_raised(self, limits):
        measure = machine.raise_open_file_limit()
        assert measure == Measure("open files", 4096, "raised from 1024 to the hard limit")
        assert limits["limit"] == (4096, 4096)
        assert "already" in machine.raise_open_file_limit().source

    @pytest.mark.parametrize("error", [ValueError("not allowed"), OSError("not allowed")])
    def test_refusal_is_told_and_does_no_harm(self, limits, monkeypatch, error):
        def refuse(kind, limit):
            raise error

        monkeypatch.setattr(self.resource, "setrlimit", refuse)
        measure = machine.raise_open_file_limit()
        assert measure.value == 1024
        assert "could not be raised (not allowed)" in measure.source

    def test_system_without_limits(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "resource", None)
        assert machine.raise_open_file_limit().value == 0
        assert "unknown" in machine.open_file_limit().source


def test_describe_gives_text_rows_with_sources():
    rows = machine.describe()
    names = [row.name for row in rows]
    first = ["CPUs", "local ranks", "memory", "memory available", "/dev/shm free", "open files"]
    assert names[:6] == first
    assert {"disk of .", "driver", "kernel", "Python", "environment", *machine.PACKAGES} <= set(
        names
    )
    assert all(isinstance(row.value, str) and row.value and row.source for row in rows)
    assert value_of(rows, "Python").source == sys.prefix
    json.dumps([vars(row) for row in rows])


def test_environment_marker(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    row = value_of(machine.describe(), "environment")
    assert row == Measure("environment", "not made by make env", f"no {tmp_path / 'wellfed.json'}")
    marker = {"way": "wheels", "lock": "0123456789abcdef", "torch": "2.6.0+cu124", "cuda": "12.4"}
    (tmp_path / "wellfed.json").write_text(json.dumps(marker))
    row = value_of(machine.describe(), "environment")
    assert row.value == "wheels, lock 0123456789ab, torch 2.6.0+cu124, CUDA 12.4"
    assert machine.lock_hash() == "0123456789abcdef"
    (tmp_path / "wellfed.json").write_text(json.dumps({**marker, "state": "building"}))
    assert "half-made" in value_of(machine.describe(), "environment").value
    for torn in ("{", "[]", '{"way": "conda"}'):
        (tmp_path / "wellfed.json").write_text(torn)
        row = value_of(machine.describe(), "environment")
        assert row.value == "unknown"
        assert "cannot read" in row.source
        assert machine.lock_hash() == ""


def make_package(folder, name, version="1.0"):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def test_packages_from_outside_the_environment_are_found(tmp_path, monkeypatch):
    for number in range(10):
        make_package(tmp_path, f"stray{number}")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [row for row in machine.describe() if row.name == "packages from outside"]
    row = next(row for row in found if str(tmp_path.resolve()) in row.source)
    assert row.value.startswith("stray0, stray1, ")
    assert row.value.endswith("stray7 and 2 more")
    assert "PYTHONNOUSERSITE=1" in row.source


def test_packages_of_the_environment_are_no_finding(tmp_path, monkeypatch):
    make_package(tmp_path / "lib", "inside")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    assert not [row for row in machine.describe() if "inside" in row.value.split(", ")]


def test_a_missing_package_is_told(monkeypatch):
    monkeypatch.setattr(machine, "PACKAGES", ("no-such-package",))
    row = value_of(machine.describe(), "no-such-package")
    assert row.value == "not installed"


@pytest.mark.parametrize(
    "name", ["LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH", "KMP_DUPLICATE_LIB_OK"]
)
def test_risky_variables_are_findings_only_when_set(monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    assert name not in [row.name for row in machine.describe()]
    monkeypatch.setenv(name, "/usr/lib")
    assert value_of(machine.describe(), name).value == "/usr/lib"


def test_two_openmp_libraries_are_told(monkeypatch):
    maps = (
        "7f00-7f10 r-xp 00000000 08:01 42   /env/lib/libgomp-a34b3233.so.1\n"
        "7f10-7f20 r--p 00000000 08:01 42   /env/lib/libgomp-a34b3233.so.1\n"
        "7f20-7f30 r-xp 00000000 08:01 43   /env/my libs/libiomp5.so\n"
        "7f30-7f40 r-xp 00000000 08:01 44   /usr/lib/libstdc++.so.6.0.30\n"
        "7f40-7f50 rw-p 00000000 00:00 0\n"
    )
    real = Path.read_text

    def read(self, *arguments, **options):
        return maps if str(self) == "/proc/self/maps" else real(self, *arguments, **options)

    monkeypatch.setattr(Path, "read_text", read)
    rows = machine.describe()
    openmp = value_of(rows, "OpenMP loaded")
    assert openmp.value == "/env/lib/libgomp-a34b3233.so.1, /env/my libs/libiomp5.so"
    assert "more than one can clash" in openmp.source
    assert value_of(rows, "libstdc++ loaded").source == "/proc/self/maps"
