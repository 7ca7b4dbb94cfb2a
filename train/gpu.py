"""The GPUs of this machine and how busy one is, by NVML, which starts no CUDA context.

Nothing here ends a run: what NVML does not tell is None or "unknown", with the reason.
"""

import os
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from train.cgroup import Measure, bytes_text


@dataclass(frozen=True)
class Gpu:
    """One GPU as NVML sees it; None where NVML does not say."""

    index: int
    name: str
    memory_bytes: Optional[int]
    mig: Optional[bool]
    driver: str
    cuda_driver: str


def gpus() -> Tuple[List[Gpu], str]:
    """The GPUs of this machine by NVML, which starts no CUDA context.

    Returns:
        The GPUs, and a note on why there are none, or what CUDA_VISIBLE_DEVICES hides from CUDA.
    """
    try:
        import pynvml

        pynvml.nvmlInit()
    except ImportError:
        return [], "nvidia-ml-py is not installed"
    except Exception as error:  # any NVML trouble means "no GPU known", never the end of a run
        return [], f"NVML: {error}"
    try:
        driver = _text(_ask(pynvml.nvmlSystemGetDriverVersion))
        version = _ask(pynvml.nvmlSystemGetCudaDriverVersion)
        cuda = f"{version // 1000}.{version % 1000 // 10}" if version else "unknown"
        found = [_gpu(pynvml, index, driver, cuda) for index in range(pynvml.nvmlDeviceGetCount())]
    except Exception as error:
        return [], f"NVML: {error}"
    finally:
        _ask(pynvml.nvmlShutdown)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return found, "NVML"
    return found, f"NVML; CUDA sees only CUDA_VISIBLE_DEVICES={visible}"


class GpuUtilisation:
    """Share of the last moments in which some kernel ran, in percent, as `nvidia-smi` shows it.

    It is a hint, not a measure of good use: one small kernel at a time counts as 100 %. Under MIG,
    and without a driver, it is unknown; then `reason` says why.

    Args:
        device: the index that CUDA uses; it is looked up in CUDA_VISIBLE_DEVICES.
    """

    def __init__(self, device: int = 0):
        self.reason = ""
        self._nvml: Any = None
        self._handle: Any = None
        try:
            import pynvml

            pynvml.nvmlInit()
            self._nvml = pynvml
            visible = os.environ.get("CUDA_VISIBLE_DEVICES")
            name = str(device) if visible is None else visible.split(",")[device].strip()
            if name.isdigit():
                self._handle = pynvml.nvmlDeviceGetHandleByIndex(int(name))
            else:
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(name)
        except Exception as error:  # watching a run must never end it
            self.reason = f"utilisation unknown: {error}"

    def read(self) -> Optional[float]:
        """Percent in 0..100, or None when unknown; never raises."""
        if self._handle is None:
            return None
        try:
            percent = float(self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu)
        except Exception as error:
            self.reason = f"utilisation unknown: {error}"
            return None
        return percent if 0 <= percent <= 100 else None  # a huge number also means "not known"


def gpu_rows() -> List[Measure[str]]:
    """The GPUs as rows of `machine.describe()`; where there are none, one row that says why."""
    found, note = gpus()
    rows = []
    for gpu in found:
        size = "memory unknown" if gpu.memory_bytes is None else bytes_text(gpu.memory_bytes)
        mig = {None: "no MIG", True: "MIG on", False: "MIG off"}[gpu.mig]
        source = f"{note}, driver {gpu.driver}, CUDA up to {gpu.cuda_driver}"
        rows.append(Measure(f"GPU {gpu.index}", f"{gpu.name}, {size}, {mig}", source))
    return rows or [Measure("GPUs", "none", note)]


def _ask(function: Any, *arguments: Any) -> Any:
    """One NVML question; None when it has no answer (NotSupported, lost GPU, older driver)."""
    try:
        return function(*arguments)
    except Exception:  # the answer "unknown" is shown to the user
        return None


def _text(answer: Any) -> str:
    """NVML gives bytes in older releases, str in newer ones."""
    return answer.decode() if isinstance(answer, bytes) else str(answer or "unknown")


def _gpu(nvml: Any, index: int, driver: str, cuda: str) -> Gpu:
    handle = _ask(nvml.nvmlDeviceGetHandleByIndex, index)
    if handle is None:
        return Gpu(index, "does not answer (lost?)", None, None, driver, cuda)
    memory = _ask(nvml.nvmlDeviceGetMemoryInfo, handle)
    mig = _ask(nvml.nvmlDeviceGetMigMode, handle)
    return Gpu(
        index=index,
        name=_text(_ask(nvml.nvmlDeviceGetName, handle)),
        memory_bytes=None if memory is None else int(memory.total),
        mig=None if mig is None else bool(mig[0]),
        driver=driver,
        cuda_driver=cuda,
    )
