"""One look at a run: its status file, its processes, the machine."""

import platform
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import psutil

from train.gpu import GpuUtilisation, gpus
from train.monitor.runs import lock_holder
from train.run_status import read_status

_HUGE = 1e15  # and whatever is larger, infinite or no number at all


@dataclass(frozen=True)
class Row:
    """One process or thread; None is unknown.

    Attributes:
        name: for people.
        ident: its number in the system.
        cores: CPU seconds a second.
        memory_bytes: shared pages counted by its part (PSS); of a thread none.
        read_bytes_s: from disks, not from the page cache.
        doing: the sample that it is at.
    """

    name: str
    ident: int
    cores: Optional[float] = None
    memory_bytes: Optional[int] = None
    read_bytes_s: Optional[float] = None
    doing: str = ""


@dataclass(frozen=True)
class Snapshot:
    """All that is shown.

    `stages` holds cores' worth of reading and of decoding since the last look, None at the first.
    """

    run: str
    status: Dict[str, Any]
    age_s: Optional[float]
    rows: List[Row] = field(default_factory=list)
    stages: Optional[Tuple[float, float]] = None
    machine_cores: Optional[float] = None
    cpus: int = 0
    memory: Tuple[int, int] = (0, 0)
    gpus: List[str] = field(default_factory=list)
    here: bool = True


class Looker:
    """Looks again and again; rates are since the last look.

    Args:
        run: the run's folder.
    """

    def __init__(self, run: Path):
        self.run = run
        self._before: Dict[Tuple[str, int], float] = {}
        self._now: Dict[Tuple[str, int], float] = {}
        self._last = self._elapsed = 0.0
        self._written: Optional[Tuple[float, float, float]] = None
        self._last_stages: Any = None
        found, _ = gpus()
        self._gpus = [(gpu, GpuUtilisation(gpu.index)) for gpu in found]
        psutil.cpu_percent()  # the first answer means nothing

    def look(self) -> Optional[Snapshot]:
        """What is to be seen now; None when the run has ended."""
        holder = lock_holder(self.run)
        if holder is None:
            return None
        now = time.monotonic()
        self._elapsed, self._last = now - self._last if self._last else 0.0, now
        self._before, self._now = self._now, {}
        status = read_status(self.run)
        pid = holder or _whole(status.get("pid"))
        loader = status.get("loader")
        loader = loader if isinstance(loader, dict) else {}  # it may hold anything
        workers, queue = loader.get("workers"), loader.get("queue")
        workers = workers if isinstance(workers, list) else []
        workers = [item for item in workers if isinstance(item, dict)]
        queue = queue if isinstance(queue, dict) else {}
        loader = {**loader, "workers": workers, "queue": queue}
        status = {**status, "loader": loader} if status else {}
        rows = self._rows(pid, str(loader.get("kind")), workers)
        written, age_s = _written(status, now)
        share = psutil.cpu_percent()
        cpus = psutil.cpu_count() or 0
        memory = psutil.virtual_memory()
        return Snapshot(
            run=str(self.run),
            status=status,
            age_s=age_s,
            rows=rows,
            stages=self._stages(written, workers),
            machine_cores=share * cpus / 100 if self._elapsed else None,
            cpus=cpus,
            memory=(memory.total - memory.available, memory.total),
            gpus=[_gpu_line(gpu.name, gpu.mig, meter.read()) for gpu, meter in self._gpus],
            here=bool(rows),
        )

    def _rows(self, pid: int, kind: str, workers: List[Dict[str, Any]]) -> List[Row]:
        try:
            process = psutil.Process(pid) if pid > 0 else None
        except psutil.Error:
            process = None
        if process is None:
            return []  # in another container, or on another machine
        rows = [self._process_row("training", process)]
        threads = _thread_seconds(process) if kind == "thread" else {}
        for item in workers:
            name, ident = f"worker {item.get('worker')}", _whole(item.get("thread"))
            if kind == "thread":
                cores = self._rate("cpu", ident, threads.get(ident))
                rows.append(Row(name, ident, cores, doing=_doing(item)))
            elif kind == "process" and ident > 0:
                rows.append(self._worker_row(name, ident, item))
        return rows

    def _worker_row(self, name: str, ident: int, item: Dict[str, Any]) -> Row:
        try:
            return self._process_row(name, psutil.Process(ident), _doing(item))
        except psutil.Error:
            return Row(name, ident, doing="gone")

    def _process_row(self, name: str, process: psutil.Process, doing: str = "") -> Row:
        times = _ask(process.cpu_times)
        counters = _ask(process.io_counters) if hasattr(process, "io_counters") else None
        return Row(
            name,
            process.pid,
            self._rate("cpu", process.pid, times and times.user + times.system),
            _memory(process),
            self._rate("read", process.pid, counters and counters.read_bytes),
            doing,
        )

    def _stages(
        self, written: Optional[float], workers: List[Dict[str, Any]]
    ) -> Optional[Tuple[float, float]]:
        """Reading and decoding between the last two states that the run wrote."""
        if written is None:
            return None
        sums = [
            sum(number(item.get(key)) or 0.0 for item in workers) for key in ("read_s", "make_s")
        ]
        before, self._written = self._written, (written, sums[0], sums[1])
        if before is not None and written > before[0]:
            elapsed = written - before[0]
            self._last_stages = tuple(
                max(0.0, now - then) / elapsed for now, then in zip(sums, before[1:])
            )
        return self._last_stages

    def _rate(self, what: str, ident: int, value: Any) -> Optional[float]:
        """Change a second of a counter."""
        if not isinstance(value, (int, float)):
            return None
        self._now[what, ident] = value
        before = self._before.get((what, ident))
        if before is None or self._elapsed <= 0:
            return None
        return max(0.0, value - before) / self._elapsed


def _written(status: Dict[str, Any], now: float) -> Tuple[Optional[float], Optional[float]]:
    """When the run wrote its state, and seconds since then, by the clock that nobody sets.

    The clock is that of one machine since it was switched on. Of a run on another one, the time of
    day must do.
    """
    clock_s = number(status.get("clock_s"))
    if clock_s is not None and status.get("host") == platform.node() and clock_s <= now:
        return clock_s, now - clock_s
    told = number(status.get("time"))
    return told, None if told is None else max(0.0, time.time() - told)


def number(value: Any) -> Optional[float]:
    """A number of the status file that can be reckoned with; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < _HUGE else None


def _doing(item: Dict[str, Any]) -> str:
    sample = item.get("sample")
    return "" if sample is None else str(sample)


def _gpu_line(name: str, mig: Optional[bool], percent: Optional[float]) -> str:
    busy = "use unknown" + (" under MIG" if mig else "") if percent is None else f"{percent:.0f} %"
    return f"{name}: {busy}"


def _memory(process: psutil.Process) -> Optional[int]:
    try:
        with open(f"/proc/{process.pid}/smaps_rollup", encoding="ascii") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Pss:"))
    except (OSError, ValueError):
        info = _ask(process.memory_info)
        return info and info.rss


def _thread_seconds(process: psutil.Process) -> Dict[int, float]:
    threads = _ask(process.threads) or []
    return {thread.id: thread.user_time + thread.system_time for thread in threads}


def _ask(question: Any) -> Any:
    try:
        return question()
    except (psutil.Error, OSError):
        return None  # gone, or not ours


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
