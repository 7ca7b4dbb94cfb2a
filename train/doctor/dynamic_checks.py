"""What is to be said of a data set by what reading it does: pure functions of what was observed."""

from typing import List

from train.doctor.findings import Finding
from train.doctor.observe import Observed


def same_draws(one: Observed, other: Observed) -> List[Finding]:
    """The same random numbers in two workers, whose generators were seeded differently."""
    random = one.first != one.second
    if not random or (one.first, one.second) != (other.first, other.second):
        return []
    if one.changed and not one.generators:
        return []  # it is no generator that decides, see shared_state
    name = ", ".join(f"self.{name}" for name in one.generators) or "a generator of its own"
    return [
        Finding(
            "the same draw in two workers",
            True,
            f"two workers with different seeds drew the same numbers for the same sample: {name} "
            "was made in the parent, and each worker has a copy of it",
            "draw from numpy.random, random or torch, which are seeded for each batch here; or "
            "make the generator in __getitem__ from the index",
        )
    ]


def shared_state(one: Observed, other: Observed) -> List[Finding]:
    """Reading a sample changes the data set: what comes next depends on what came before."""
    if same_draws(one, other):
        return []  # its generator is what changes
    findings = []
    different = sum(pair[0] != pair[1] for pair in one.repeated)
    changed = ", ".join(f"self.{name}" for name in one.changed)
    if different:
        why = f"; reading changes {changed}" if changed else ""
        findings.append(
            Finding(
                "samples depend on what was read before",
                True,
                f"{different} of {len(one.repeated)} samples came out different when they were "
                f"read again under the same seed{why}; workers have copies that drift apart",
                "keep what __getitem__ needs read-only, made in __init__; draw random numbers from "
                "numpy.random, random or torch, which are seeded for each batch here",
            )
        )
    elif changed:
        grows = one.grown_bytes >= 1
        by = f" by {one.grown_bytes:,.0f} bytes a sample" if grows else ""
        findings.append(
            Finding(
                "reading changes the data set",
                grows,
                f"{changed} {'grows' if grows else 'changes'}{by}: each worker has its own copy"
                + (", so memory grows with every epoch" if grows else ""),
                "keep what __getitem__ needs read-only, made in __init__; a cache of samples "
                "belongs into a file that all workers share (numpy.memmap)",
            )
        )
    return findings


def library_threads(seen: Observed, workers: int, cpus: int) -> List[Finding]:
    """Threads that __getitem__ has switched on again; a worker is given one a library."""
    named = []
    if seen.cv2_threads > 1:
        named.append(f"OpenCV has {seen.cv2_threads}")
    if seen.torch_threads > 1:
        named.append(f"PyTorch has {seen.torch_threads}")
    if seen.threads > 0:
        named.append(f"{seen.threads} Python thread(s) go on")
    if not named:
        return []
    most = max(seen.cv2_threads, seen.torch_threads, seen.threads + 1)
    return [
        Finding(
            "threads in workers",
            most * max(1, workers) > cpus,
            f"after a sample, in a worker that had one thread a library: {'; '.join(named)}; "
            f"times {max(1, workers)} worker(s), on {cpus} CPU(s)",
            "cv2.setNumThreads(0) and torch.set_num_threads(1) in workers, and no pool of threads "
            "in __getitem__",
        )
    ]


def cuda_in_worker(seen: Observed) -> List[Finding]:
    """__getitem__ uses CUDA."""
    if not seen.asked_cuda:
        return []
    return [
        Finding(
            "CUDA in a worker",
            True,
            "__getitem__ uses CUDA: a forked worker can't (\"Cannot re-initialize CUDA in forked "
            'subprocess"), and a spawned one takes hundreds of MB of the GPU, each',
            "do in __getitem__ what the CPU does, and the rest on the whole batch, on the device",
        )
    ]


def heavy_type(seen: Observed) -> List[Finding]:
    """Images in a type that takes more bytes than the pixels have."""
    sizes = {"float64": 8, "int64": 8, "float32": 4, "int32": 4}
    size = sizes.get(seen.image_dtype)
    if size is None:
        return []
    return [
        Finding(
            f"images are {seen.image_dtype}",
            size == 8,
            f"{size} bytes a value travel from the workers to the device; a pixel has one",
            "return uint8 (h, w, 3): it is normalised on the device; float32 where the values are "
            "no pixels",
        )
    ]
