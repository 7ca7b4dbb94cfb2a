"""The loader's settings: what is chosen on which machine, what is lowered, and what is said."""

import subprocess
import sys
from pathlib import Path

import pytest

from train.data import plan, settings
from train.data.settings import MachineView, Requested, choose
from train.errors import ConfigError
from train.machine import Measure

MIB = 1 << 20
GIB = 1 << 30
BATCH = 64 * 224 * 224 * 3  # 9.2 MiB


def view(device="cpu", cpus=8, memory=64 * GIB, shm=32 * GIB, ranks=1, platform="linux"):
    return MachineView(
        device_type=device,
        cpus=Measure("CPUs", cpus, "sched_getaffinity"),
        memory_bytes=Measure("memory", memory, "MemTotal in /proc/meminfo"),
        shm_free_bytes=Measure("/dev/shm free", shm, "statvfs"),
        local_ranks=ranks,
        platform=platform,
    )


def own(workers="auto", prefetch="auto", **options):
    """Wishes for a data set of the user's own samples: its tensors travel through /dev/shm."""
    return Requested(workers, prefetch, own_samples=True, **options)


def reason(chosen, name):
    return next(row.reason for row in chosen.reasons if row.name == name)


@pytest.mark.parametrize(
    ("device", "cpus", "workers"),
    [
        ("cuda", 1, 1),
        ("cuda", 2, 1),
        ("cuda", 4, 3),
        ("cuda", 8, 6),
        ("cuda", 20, 16),
        ("cuda", 128, 16),
        ("cpu", 1, 0),
        ("cpu", 2, 1),
        ("cpu", 4, 1),
        ("cpu", 8, 2),
        ("cpu", 16, 4),
        ("cpu", 64, 4),
    ],
)
def test_workers_by_the_machine(device, cpus, workers):
    chosen = choose(Requested(), view(device, cpus), BATCH, BATCH)
    assert (chosen.workers, chosen.eval_workers) == (workers, workers)
    assert chosen.prefetch == (None if workers == 0 else {"cuda": 4, "cpu": 2}[device])
    assert chosen.warnings == []
    assert f"{cpus} usable CPU{'s' if cpus > 1 else ''} (sched_getaffinity)" in reason(
        chosen, "data.workers"
    )


def test_every_setting_has_its_reason_in_print_order():
    chosen = choose(Requested(), view("cuda", 16), BATCH, BATCH)
    assert [(row.name, row.value) for row in chosen.reasons] == [
        ("data.workers", 12),
        ("data.prefetch", 4),
        ("data.workers_kind", "process"),
        ("eval_workers", 12),
        ("pin_memory", True),
        ("start method", "fork"),
    ]
    assert all(row.reason for row in chosen.reasons)


def test_without_evaluation():
    chosen = choose(Requested(), view("cuda", 16), BATCH)
    assert (chosen.workers, chosen.eval_workers, chosen.eval_prefetch) == (12, 0, None)
    assert "eval_workers" not in [row.name for row in chosen.reasons]


def test_what_was_asked_for_is_kept():
    chosen = choose(Requested(3, 7, "forkserver"), view("cuda", 16), BATCH, BATCH)
    assert (chosen.workers, chosen.prefetch, chosen.start_method) == (3, 7, "forkserver")
    assert (chosen.eval_workers, chosen.eval_prefetch) == (3, 7)
    names = ("data.workers", "data.prefetch", "data.workers_kind", "start method")
    assert [reason(chosen, name) for name in names] == ["as asked for"] * 4
    assert chosen.warnings == []


def test_evaluation_takes_no_more_workers_than_the_machine_carries():
    chosen = choose(Requested(workers=8), view("cpu", 8), BATCH, BATCH)
    assert (chosen.workers, chosen.eval_workers) == (8, 2)
    one = choose(Requested(workers=1), view("cpu", 1), BATCH, BATCH)
    assert (one.workers, one.eval_workers) == (1, 1)


# Free /dev/shm, what was asked for, evaluation or not -> workers, prefetch, evaluation workers.
# Only of a user's own samples. 80 % of 64 MiB are 5.57 batches, of 256 MiB 22.3, of 512 MiB 44.6;
# a loader has workers x prefetch + 2 of them in flight.
SHM_CASES = [
    (64, own(4), False, (3, 1, 0)),
    (64, own(4, 2), False, (3, 1, 0)),
    (64, own(1, 9), False, (1, 3, 0)),
    (64, own(4), True, (3, 1, 0)),  # even 1 + 2 and 1 + 2 do not fit: evaluation gives way
    (64, own(3, 1), False, (3, 1, 0)),
    (80, own(4), True, (1, 1, 1)),
    (32, own(4), False, (0, None, 0)),  # 2.8 batches; one worker needs 3
    (0, own(), True, (0, None, 0)),
    (256, own(4), False, (4, 4, 0)),  # 18 fit
    (256, own(4), True, (4, 2, 4)),  # 2 x 10 fit, 2 x 14 do not
    (256, own(10**12, 10**12), False, (20, 1, 0)),
    (512, own(4), True, (4, 4, 4)),
]


@pytest.mark.parametrize(("shm", "requested", "evaluated", "expected"), SHM_CASES)
def test_batches_in_flight_fit_into_shared_memory(shm, requested, evaluated, expected):
    machine = view("cuda", 16, memory=1 << 50, shm=shm * MIB)
    chosen = choose(requested, machine, BATCH, BATCH if evaluated else 0)
    assert (chosen.workers, chosen.prefetch, chosen.eval_workers) == expected
    assert chosen.eval_prefetch == (chosen.prefetch if chosen.eval_workers else None)
    flying = [
        workers * chosen.prefetch + 2
        for workers in (chosen.workers, chosen.eval_workers)
        if workers
    ]
    assert sum(flying) * BATCH <= 0.8 * shm * MIB


def test_default_container_is_told_what_it_needs():
    chosen = choose(own(4, 4), view("cuda", 16, shm=64 * MIB), BATCH)
    why = reason(chosen, "data.workers")
    assert why == (
        "lowered from 4: 64.0 MiB of /dev/shm free (statvfs): batches may take 80 % of it, "
        "51.2 MiB; 18 batches of 9.2 MiB (workers x prefetch + 2) need 165.4 MiB"
    )
    assert reason(chosen, "data.prefetch") == "lowered from 4 for the same reason"
    (warning,) = chosen.warnings
    assert "data.workers is lowered from 4 to 3 and data.prefetch is lowered from 4 to 1" in warning
    assert "--shm-size=207m" in warning
    assert "shm_size: 207m" in warning
    assert "lower data.batch_size" in warning


def test_the_remedy_is_enough():
    machine = view("cuda", 16, shm=207 * MIB)
    chosen = choose(own(4, 4), machine, BATCH)
    assert (chosen.workers, chosen.prefetch, chosen.warnings) == (4, 4, [])


def test_prefetch_chosen_by_the_machine_is_lowered_without_a_warning():
    chosen = choose(own(4), view("cuda", 16, shm=128 * MIB), BATCH)
    assert (chosen.workers, chosen.prefetch, chosen.warnings) == (4, 2, [])
    assert reason(chosen, "data.prefetch").startswith("lowered from 4: 128.0 MiB of /dev/shm")


def test_workers_lost_by_shared_memory_are_a_warning_even_when_chosen_by_the_machine():
    chosen = choose(own(), view("cuda", 16, shm=0), BATCH, BATCH)
    assert (chosen.workers, chosen.pin_memory) == (0, True)
    assert chosen.warnings[0].startswith("data.workers is lowered from 12 to 0: 0 B of /dev/shm")
    assert reason(chosen, "eval_workers") == "no workers for training either"


def test_evaluation_that_gives_way_is_explained():
    chosen = choose(own(3, 1), view("cuda", 16, shm=64 * MIB), BATCH, BATCH)
    assert (chosen.workers, chosen.eval_workers) == (3, 0)
    assert reason(chosen, "eval_workers").startswith("lowered to 0: 64.0 MiB of /dev/shm")
    assert "5 batches of 9.2 MiB and 5 for evaluation of 9.2 MiB" in reason(chosen, "eval_workers")


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        (1 * GIB, (4, 4)),  # 20 %: 22.3 batches, 4 x 4 + 2 are 18
        (512 * MIB, (4, 2)),  # 11.1 batches
        (300 * MIB, (4, 1)),  # 6.5 batches
        (200 * MIB, (2, 1)),  # 4.4 batches
        (100 * MIB, (0, None)),
        (0, (4, 4)),  # unknown
    ],
)
def test_batches_in_flight_take_a_fifth_of_the_memory_at_most(memory, expected):
    chosen = choose(Requested(4, 4), view("cpu", 16, memory=memory), BATCH)
    assert (chosen.workers, chosen.prefetch) == expected
    if expected != (4, 4):
        assert "of memory (MemTotal in /proc/meminfo)" in chosen.warnings[0]
        assert "docker run --memory=827m" in chosen.warnings[0]


def test_our_own_batches_do_not_need_dev_shm():
    chosen = choose(Requested(4, 4), view("cuda", 16, shm=0), BATCH, BATCH)
    assert (chosen.workers, chosen.prefetch, chosen.eval_workers) == (4, 4, 4)
    assert chosen.warnings == []
    assert reason(chosen, "data.workers") == (
        "as asked for; their batches lie outside /dev/shm, which could not hold them "
        "(0 B of /dev/shm free)"
    )
    roomy = choose(Requested(4, 4), view("cuda", 16), BATCH)
    assert not any("/dev/shm" in row.reason for row in roomy.reasons)


def test_neither_do_threads_that_make_samples_of_ones_own():
    chosen = choose(own(4, 4, workers_kind="thread"), view("cuda", 16, shm=0), BATCH)
    assert (chosen.workers, chosen.workers_kind, chosen.warnings) == (4, "thread", [])


def test_with_cuda_batches_on_their_way_to_the_device_count_too():
    room = 22 * BATCH * 5 + 5  # a fifth of it: 22 batches, 4 x 4 + 6
    assert choose(Requested(4, 4), view("cuda", 16, memory=room), BATCH).prefetch == 4
    assert choose(Requested(4, 4), view("cuda", 16, memory=room - BATCH), BATCH).prefetch == 3


def test_ranks_of_one_machine_share_its_memory():
    alone = choose(own(4, 4), view("cuda", 16, shm=256 * MIB), BATCH)
    shared = choose(own(4, 4), view("cuda", 16, shm=256 * MIB, ranks=2), BATCH)
    assert (alone.workers, alone.prefetch) == (4, 4)
    assert (shared.workers, shared.prefetch) == (4, 2)
    assert "shared by 2 ranks" in shared.warnings[0]
    assert "--shm-size=414m" in shared.warnings[0]


def test_no_workers_on_request():
    chosen = choose(Requested(workers=0), view("cuda", 8), BATCH, BATCH)
    assert (chosen.workers, chosen.prefetch, chosen.eval_workers) == (0, None, 0)
    assert chosen.pin_memory
    assert chosen.warnings == []
    idle = choose(Requested(workers=0, prefetch=4), view("cuda", 8), BATCH)
    assert idle.prefetch is None
    assert idle.warnings[0].startswith("data.prefetch=4 has no effect with data.workers=0")


def test_more_workers_than_cpus_are_kept_with_a_warning():
    chosen = choose(Requested(workers=9), view("cuda", 8), BATCH)
    assert chosen.workers == 9
    (warning,) = chosen.warnings
    assert "data.workers=9 is more than the usable CPUs, 8" in warning
    assert choose(Requested(workers=8), view("cuda", 8), BATCH).warnings == []


@pytest.mark.parametrize(("device", "pinned"), [("cuda", True), ("cpu", False)])
def test_memory_is_pinned_for_cuda_alone(device, pinned):
    chosen = choose(Requested(), view(device), BATCH)
    assert chosen.pin_memory is pinned


@pytest.mark.parametrize(
    ("platform", "method"), [("linux", "fork"), ("darwin", "spawn"), ("win32", "spawn")]
)
def test_start_method_by_the_system(platform, method):
    # Other systems have no /dev/shm; that must not cost the workers there.
    chosen = choose(own(), view("cpu", 8, shm=0, platform=platform), BATCH)
    assert chosen.start_method == method
    assert chosen.workers == (0 if platform == "linux" else 2)


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"workers": -1}, r"data\.workers must be 'auto' or a whole number >= 0, got -1; "),
        ({"workers": "many"}, r"data\.workers must be .* got 'many'"),
        ({"workers": True}, r"data\.workers must be .* got True"),
        ({"workers": 1.5}, r"data\.workers must be .* got 1\.5"),
        ({"prefetch": 0}, r"data\.prefetch must be 'auto' or a whole number >= 1, got 0; "),
        ({"prefetch": -2}, r"data\.prefetch must be .* got -2"),
        (
            {"workers_kind": "fibre"},
            r"data\.workers_kind must be one of auto, thread, process, fork, .* got 'fibre'",
        ),
    ],
)
def test_impossible_wishes(wish, message):
    with pytest.raises(ConfigError, match=message) as caught:
        choose(Requested(**wish), view(), BATCH)
    assert not str(caught.value).endswith(".")


@pytest.mark.parametrize(
    ("wish", "kind", "why"),
    [
        (Requested(2), plan.MEASURED_KIND, plan.MEASURED_WHY),
        (Requested(2, workers_kind="thread"), "thread", "as asked for"),
        (Requested(2, workers_kind="process"), "process", "as asked for"),
        (own(2), "process", "Python code of your own runs side by side in processes alone"),
        (Requested(0), plan.MEASURED_KIND, "no workers to start"),
    ],
)
def test_kind_of_worker(wish, kind, why):
    chosen = choose(wish, view("cuda", 8), BATCH)
    assert chosen.workers_kind == kind
    assert ("data.workers_kind", kind) in [(row.name, row.value) for row in chosen.reasons]
    assert reason(chosen, "data.workers_kind") == why


def test_threads_have_no_start_method():
    chosen = choose(Requested(2, workers_kind="thread"), view("cuda", 8), BATCH)
    assert reason(chosen, "start method").startswith("not used")


def test_windows_cannot_fork():
    with pytest.raises(
        ConfigError, match="one of auto, thread, process, spawn on this system, got 'fork'"
    ):
        choose(Requested(workers_kind="fork"), view(platform="win32"), BATCH)


def test_smaller_evaluation_batches_count_by_their_size():
    machine = view("cuda", 16, memory=1 << 50, shm=256 * MIB)
    full = choose(own(4, 4), machine, BATCH, BATCH)
    tiny = choose(own(4, 4), machine, BATCH, BATCH // 16)
    assert (full.prefetch, tiny.prefetch) == (2, 4)


def test_the_same_wishes_on_the_same_machine_give_the_same_settings():
    machine, wish = view("cuda", 16, shm=64 * MIB), own(4, 4)
    assert choose(wish, machine, BATCH, BATCH) == choose(wish, machine, BATCH, BATCH)


def test_the_choice_itself_imports_no_torch():
    # With an empty package in place of train.data: the rest of it needs torch, the choice must not.
    code = (
        "import sys, types\n"
        "sys.modules['train.data'] = package = types.ModuleType('train.data')\n"
        f"package.__path__ = [{str(Path(settings.__file__).parent)!r}]\n"
        "from train.data import settings\n"
        "print(settings.Requested().workers, 'torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(settings.__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert run.stdout.split() == ["auto", "False"]
