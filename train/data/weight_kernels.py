"""Which pixels of an axis each pixel of a smaller or larger one is mixed from, and how.

Definition, as Pillow and torchvision have it: pixel i of S has its centre at (i + 0.5) * scale of
the axis; a pixel at distance d counts max(1 - d / support, 0), support max(scale, 1); what lies
outside of the axis is left out, the rest adds up to one.
"""

import numpy as np

from train.data.kernels import kernel

ONE = 1 << 24
"""What the weights of one pixel add up to."""

LANES = 8
"""16-bit numbers in one vector: what every CPU has (SSE2, NEON)."""


@kernel("int64(float64, boolean)")
def reach(scale, antialias):
    """Pixels from the first to the last that one is mixed from, at most."""
    return int(2 * (max(scale, 1.0) if antialias else 1.0)) + 2


@kernel("float64(float64, float64, float64, float64)")
def _weight(distance, k, inverse, many):
    """Of the neighbour that lies k pixels behind the first; not yet a share of one."""
    value = 1.0 - abs(distance + k) * inverse
    return value if value > 0.0 and k < many else 0.0


@kernel(
    "void(float64, float64, int64, boolean, int32[::1], float64[::1], float64[::1], float64[::1],"
    " float64[::1], int32[:, ::1])"
)
def weigh_together(
    start, length, size, antialias, firsts, distances, many, running, units, weights
):
    """Weights of one axis, neighbour by neighbour: LLVM finds vectors of pixels in these loops.

    Args:
        start: of the part that is scaled, in pixels.
        length: of that part.
        size: pixels that there are.
        antialias: as defined above; else the support is 1, and edges are repeated.
        firsts: written, (S,): the first pixel that may count.
        distances: (S,), scratch.
        many: the same.
        running: the same.
        units: the same.
        weights: written, (reach, S): weight k is that of pixel firsts + k; they add up to ONE.
    """
    count = len(firsts)
    scale = length / count
    support = max(scale, 1.0) if antialias else 1.0
    inverse = 1.0 / support
    low, high = (-np.inf, np.inf) if antialias else (0.5, size - 0.5)
    for i in range(count):
        centre = start + (i + 0.5) * scale
        centre = low if centre < low else high if centre > high else centre
        first = np.int32(centre - support + 0.5)
        first = np.int32(0) if first < 0 else first
        end = np.int32(centre + support + 0.5)
        end = np.int32(size) if end > size else end
        firsts[i] = first
        many[i] = np.float64(np.int32(end - first))
        distances[i] = first + 0.5 - centre
        units[i] = 0.0
        running[i] = 0.0
    for k in range(len(weights)):
        for i in range(count):
            units[i] += _weight(distances[i], k, inverse, many[i])
    for i in range(count):
        units[i] = ONE / units[i]
    # Rounding the running sum makes the weights add up to ONE.
    for k in range(len(weights)):
        row = weights[k]
        for i in range(count):
            before, unit = running[i], units[i]
            after = before + _weight(distances[i], k, inverse, many[i])
            running[i] = after
            row[i] = np.int32(after * unit + 0.5) - np.int32(before * unit + 0.5)


@kernel("int64(float64, float64, int64, boolean, boolean, int32[::1], int32[::1], uint32[:, ::1])")
def weigh(start, length, size, antialias, mirrored, firsts, counts, weights):
    """Weights of one axis, pixel by pixel.

    Args:
        start: see `weigh_together`.
        length: the same.
        size: the same.
        antialias: the same.
        mirrored: the last pixel comes first.
        firsts: written, (S,): the first pixel that counts.
        counts: written, (S,): how many count.
        weights: zeros; written, (S, most): their weights, sum ONE.

    Returns:
        The largest of the counts.
    """
    count, most = len(firsts), 1
    found = np.empty((reach(length / count, antialias), count), np.int32)
    begins, floats = np.empty(count, np.int32), np.empty((4, count))
    weigh_together(
        start, length, size, antialias, begins, floats[0], floats[1], floats[2], floats[3], found
    )
    for i in range(count):
        skip, end = 0, len(found)
        while found[skip, i] == 0:
            skip += 1
        while found[end - 1, i] == 0:
            end -= 1
        row = count - 1 - i if mirrored else i
        for k in range(skip, end):
            weights[row, k - skip] = found[k, i]
        firsts[row], counts[row] = begins[i] + skip, end - skip
        most = max(most, end - skip)
    return most


@kernel("void(int32[::1], uint32[:, ::1], int64, uint16[::1])")
def spread(counts, weights, pairs, vectors):
    """Weights in 16 bits as vectors for `mix_pixels`: each for three colours, two to a vector."""
    vectors[:] = 0
    for i in range(len(counts)):
        done, running = 0, 0
        for k in range(counts[i]):
            running += weights[i, k]
            upto = (running + 128) >> 8
            weight = min(upto - done, 65535)
            done = upto
            at = (i * pairs + k // 2) * LANES + k % 2 * 3
            for colour in range(3):
                vectors[at + colour] = weight
