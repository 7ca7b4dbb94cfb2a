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


@kernel("int64(float64, float64, int64, boolean, boolean, int32[::1], int32[::1], uint32[:, ::1])")
def weigh(start, length, size, antialias, mirrored, firsts, counts, weights):
    """Weights of one axis.

    Args:
        start: of the part that is scaled, in pixels.
        length: of that part.
        size: pixels that there are.
        antialias: as defined above; else the support is 1, and edges are repeated.
        mirrored: the last pixel comes first.
        firsts: written, (S,): the first pixel that counts.
        counts: written, (S,): how many count.
        weights: zeros; written, (S, most): their weights, sum ONE.

    Returns:
        The largest of the counts.
    """
    count = len(firsts)
    scale = length / count
    support = max(scale, 1.0) if antialias else 1.0
    most = 1
    values = np.empty(weights.shape[1])
    for i in range(count):
        centre = start + (i + 0.5) * scale
        if not antialias:
            centre = min(max(centre, 0.5), size - 0.5)
        first = max(int(centre - support + 0.5), 0)
        end = min(int(centre + support + 0.5), size)
        total = 0.0
        for k in range(end - first):
            value = max(1.0 - abs(first + k + 0.5 - centre) / support, 0.0)
            values[k] = value
            total += value
        row = count - 1 - i if mirrored else i
        unit = ONE / total
        # Rounding the running sum makes the weights add up to ONE.
        done, running, skip, last = 0, 0.0, 0, 0
        for k in range(end - first):
            running += values[k]
            upto = int(running * unit + 0.5)
            weights[row, k - skip] = upto - done
            if upto == done and k == skip:
                skip += 1
            elif upto != done:
                last = k
            done = upto
        firsts[row] = first + skip
        counts[row] = last - skip + 1
        most = max(most, last - skip + 1)
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
