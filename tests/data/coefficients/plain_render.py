"""What the kernels compute, in plain NumPy and float64: dense matrices, nothing folded together."""

import functools

import numpy as np

from train.data.coefficients import create
from train.data.coefficients.record import parse


def samples(record, number, side=8):
    """A plane of a record, decoded: float64 (rows, columns), whole levels; whole blocks."""
    return _samples(record.tobytes(), number, side)


@functools.lru_cache(8)
def _samples(data, number, side):
    record = np.frombuffer(data, np.uint8)
    plane = parse(record).planes[number]
    starts, masks, means, values = create.sections(record, plane)
    blocks, at = np.zeros((len(masks), 64)), 0
    for n, mask in enumerate(masks.tolist()):
        where = [i for i in range(1, 64) if mask >> i & 1]
        kind = "<i2" if mask & 1 else "i1"
        size = len(where) * np.dtype(kind).itemsize
        blocks[n, where] = values[at : at + size].view(kind)
        blocks[n, 0] = means[n]
        at += size
    assert at == len(values) == starts[-1]
    blocks = (blocks * plane.quantiser).reshape(-1, 8, 8).transpose(0, 2, 1)[:, :side, :side]
    basis = cosines(side)
    pixels = np.floor(np.clip(basis.T @ blocks @ basis / 8 + 128, 0, 255) + 0.5)
    pixels = pixels.reshape(plane.strips, plane.blocks, side, side)
    return pixels.transpose(1, 2, 0, 3).reshape(plane.blocks * side, plane.strips * side)


def cosines(side):
    """(frequency, sample)."""
    frequency, sample = np.mgrid[0:side, 0:side]
    wave = np.cos((2 * sample + 1) * frequency * np.pi / (2 * side)) * np.sqrt(2)
    wave[0] = 1
    return wave


def upsampled(ratio, size, smooth):
    """(pixels, samples): how libjpeg makes pixels."""
    matrix = np.zeros((ratio * size, size))
    for pixel in range(ratio * size):
        own = pixel // ratio
        if smooth:
            other = own + (1 if pixel % 2 else -1)
            matrix[pixel, own] += 0.75
            matrix[pixel, min(max(other, 0), size - 1)] += 0.25
        else:
            matrix[pixel, own] = 1
    return matrix


def triangle(start, length, size, count, antialias=True):
    """(count, size): the weights of Pillow's BILINEAR; pixels outside of 0 to size left out."""
    scale = length / count
    support = max(scale, 1) if antialias else 1
    centre = start + (np.arange(count) + 0.5) * scale
    if not antialias:
        centre = np.clip(centre, 0.5, size - 0.5)
    distance = np.abs(np.arange(size) + 0.5 - centre[:, None]) / support
    weights = np.maximum(1 - distance, 0)
    return weights / weights.sum(1, keepdims=True)


def render(record, box, count, flip=False, antialias=True):
    """One window: float64 (count, count, 3), not rounded. All samples of every block are used."""
    fields = parse(record)
    x, y, width, height = box
    if fields.orientation in (2, 3):
        x, flip = fields.width - x - width, not flip
    down = fields.orientation in (3, 4)
    if down:
        y = fields.height - y - height
    most_h = max(plane.h for plane in fields.planes)
    most_v = max(plane.v for plane in fields.planes)
    planes = []
    for number, plane in enumerate(fields.planes):
        ratios = most_h // plane.h, most_v // plane.v
        sizes = -(-fields.width // ratios[0]), -(-fields.height // ratios[1])
        stored = samples(record, number)[: sizes[1], : sizes[0]]
        both = ratios in ((2, 1), (1, 2), (2, 2)) and (ratios[0] == 1 or sizes[0] > 2)
        pixels = [upsampled(r, n, r == 2 and both) for r, n in zip(ratios, sizes)]
        across = triangle(0, width, width, count, antialias) @ pixels[0][x : x + width]
        below = triangle(0, height, height, count, antialias) @ pixels[1][y : y + height]
        planes.append(below @ stored @ across.T)
    if len(planes) == 1:
        pixels = np.stack(planes * 3, 2)
    elif fields.rgb:
        pixels = np.stack(planes, 2)
    else:
        luma, blue, red = planes[0], planes[1] - 128, planes[2] - 128
        green = luma - 0.344136286 * blue - 0.714136286 * red
        pixels = np.stack([luma + 1.402 * red, green, luma + 1.772 * blue], 2)
    pixels = np.clip(pixels, 0, 255)
    return (pixels[:, ::-1] if flip else pixels)[:: -1 if down else 1]
