"""Records and windows -> their places in a batch: the whole way in one call without the GIL.

All memory comes from the caller: what a call needs depends on the windows, and is told when it is
too little.
"""

import numpy as np

from train.data.coefficients import checks, colour
from train.data.coefficients.axes import (
    axis_taps,
    block_side,
    pixel_weights,
    round_up,
    sample_taps,
    smoothed,
    tap_scratch,
)
from train.data.coefficients.checks import NUMBERS, H, V
from train.data.coefficients.expand import LANES
from train.data.coefficients.inverse import scaled
from train.data.coefficients.mixing import mix_words
from train.data.coefficients.planes import COLUMNS, ring_strips, scale_columns
from train.data.coefficients.taps import AROUND, EXTRA, most_taps
from train.data.coefficients.vectors import STEP
from train.data.coefficients.words import carray, kernel, pointer
from train.data.kernels import kernel as compiled

GOOD, HEADER, DATA, BOX = 0, 1, 2, 3
"""What became of a record: fine; its header or its blocks are damaged; the window lies outside."""

ANTIALIAS, BILINEAR, DCT = 0, 1, 2
"""How windows are scaled, see `render`."""

_ALIGNMENT = 64


@kernel
def render_one(record, size, x, y, width, height, flip, method, lines, columns, out, memory, space):
    """One window of one record -> uint8 (lines, columns, 3) at `out`.

    Args:
        record: its address, a multiple of 8.
        size: its bytes.
        x: where the window begins, upright pixels.
        y: the same.
        width: of the window.
        height: of the window.
        flip: exchange left and right.
        method: ANTIALIAS, BILINEAR or DCT.
        lines: of the result, pixels.
        columns: of the result.
        out: address of 3 * lines * columns bytes.
        memory: address of scratch, a multiple of 64.
        space: bytes of it.

    Returns:
        GOOD or another of these; or -n: n bytes of scratch are needed, nothing was done.
    """
    memory_end = memory + space
    if space < 1 << 16:
        return -(1 << 16)
    table = carray(pointer(memory), (3, NUMBERS), np.int64)
    planes, full_width, full_height, orientation, rgb = checks.check(record, size, table)
    if planes == 0:
        return HEADER
    if not (0 <= x <= x + width <= full_width and 0 <= y <= y + height <= full_height):
        return BOX
    if width <= 0 or height <= 0:
        return BOX
    if orientation == 2 or orientation == 3:
        x, flip = full_width - x - width, not flip
    upside_down = orientation >= 3
    if upside_down:
        y = full_height - y - height
    antialias, dct = method != BILINEAR, method == DCT
    most_h, most_v = 0, 0
    for p in range(planes):
        most_h, most_v = max(most_h, table[p, H]), max(most_v, table[p, V])
    row = round_up(columns, STEP)
    most = max(most_taps(width, columns), most_taps(height, lines))
    at = memory + 1024
    quantiser = carray(pointer(at), (64,), np.float32)
    at += 256
    work = carray(pointer(at), (64 * LANES,), np.int16)
    at += 128 * LANES
    longest = max(lines, columns)
    line = round_up(4 * longest, _ALIGNMENT)
    wide = round_up(4 * longest * (most + 2 * AROUND), _ALIGNMENT)
    narrow = round_up(2 * longest * (most + EXTRA), _ALIGNMENT)
    pixels_at = at
    at += 2 * (line + wide)
    tap_memory = at
    at += round_up(longest * (48 + 4 * (most + EXTRA)), _ALIGNMENT)
    across_at = at
    at += 2 * line + narrow
    # Three sets, since all planes are needed for a row of pixels.
    down_at = at
    at += 3 * (2 * line + narrow)
    sums = at
    tallest = round_up(full_height, 8 * LANES) + _ALIGNMENT
    at += 4 * max(tallest, row)
    mixtures = at
    at += 2 * max(COLUMNS * tallest, 3 * row)
    if at > memory_end:
        return -(at - memory + (1 << 20))
    rest = carray(pointer(memory + 640), (3 * STEP,), np.uint8)
    begins = carray(pointer(memory + 512), (3,), np.int64)
    places = carray(pointer(memory + 544), (3,), np.int64)
    sets = carray(pointer(memory + 568), (3,), np.int64)
    sets[:] = 0
    known, top, bottom = False, np.int64(0), np.int64(0)
    for p in range(planes):
        ratio_x, ratio_y = most_h // table[p, H], most_v // table[p, V]
        samples_x = -(-full_width // ratio_x)
        samples_y = -(-full_height // ratio_y)
        spare = min(width / (ratio_x * columns), height / (ratio_y * lines))
        side = block_side(spare, dct)
        smooth_x, smooth_y = smoothed(ratio_x, ratio_y, samples_x)
        less = 8 // side
        samples_x, samples_y = -(-samples_x // less), -(-samples_y // less)
        same = p > 0 and table[p, H] == table[p - 1, H] and table[p, V] == table[p - 1, V]
        across = sample_taps(across_at, line, columns, most)
        sets[p] = sets[p - 1] if same else p
        down = sample_taps(down_at + sets[p] * (2 * line + narrow), line, lines, most)
        if not same:
            axis_taps(
                x, width, flip, ratio_x, samples_x, smooth_x, side, antialias, known,
                pixel_weights(pixels_at, line, columns, most),
                tap_scratch(tap_memory, columns, most), across,
            )  # fmt: skip
            top, bottom = axis_taps(
                y, height, upside_down, ratio_y, samples_y, smooth_y, side, antialias, known,
                pixel_weights(pixels_at + line + wide, line, lines, most),
                tap_scratch(tap_memory, lines, most), down,
            )  # fmt: skip
            known = side == 8
        begin, end = top // side, -(-bottom // side)
        begins[p] = begin * side
        rows = round_up(bottom - begin * side, STEP)
        stride = round_up(round_up(end - begin, LANES) * side, _ALIGNMENT)
        strips = ring_strips(across[0], across[1], side)
        places[p] = at
        at += round_up(2 * rows * row, _ALIGNMENT)
        if at + strips * side * stride > memory_end:
            missing = at + strips * side * stride - memory
            return -(missing + (planes - 1 - p) * (2 * rows * row + (1 << 12)))
        checks.quantiser(record, p, quantiser)
        scaled(quantiser, side)
        good = scale_columns(
            record, table[p], quantiser, side, begin, end,
            across[0], across[1], across[2], flip, work,
            at, strips, stride,
            carray(pointer(mixtures), (COLUMNS, rows), np.uint16),
            carray(pointer(sums), (rows,), np.uint32),
            places[p], row,
        )  # fmt: skip
        if not good:
            return DATA
    kind = colour.RGB if rgb else colour.YCBCR if planes == 3 else colour.GREY
    taps = 2 * line + narrow
    first = sample_taps(down_at, line, lines, most)
    second = sample_taps(down_at + sets[1] * taps, line, lines, most)
    third = sample_taps(down_at + sets[2] * taps, line, lines, most)
    _write_rows(
        kind, places, begins, (first, second, third), row, lines, columns, out,
        sums, mixtures, rest,
    )  # fmt: skip
    return GOOD


@kernel
def _write_rows(kind, places, begins, downs, row, lines, columns, out, sums, mixtures, rest):
    """Mix the rows of the planes, and write them as pixels.

    Args:
        kind: of colour, see `colour.write_pixels`.
        places: int64 (3,), where the scaled columns of each plane lie: uint16 (n, row).
        begins: int64 (3,), their first rows.
        downs: for each plane firsts, counts and weights of its rows, see `fold`.
        row: numbers of a row.
        lines: of the result.
        columns: of the result.
        out: address of 3 * lines * columns bytes, written.
        sums: address of uint32 (row,), scratch.
        mixtures: address of uint16 (3, row), scratch.
        rest: uint8 (3 * STEP,), scratch.
    """
    first, second, third = downs
    totals = carray(pointer(sums), (row,), np.uint32)
    mixed = (
        carray(pointer(mixtures), (row,), np.uint16),
        carray(pointer(mixtures + 2 * row), (row,), np.uint16),
        carray(pointer(mixtures + 4 * row), (row,), np.uint16),
    )
    step = 2 * row
    for i in range(lines):
        place = places[0] + step * (first[0][i] - begins[0])
        mix_words(place, step, first[2][i], first[1][i], totals, mixed[0])
        if kind != colour.GREY:
            place = places[1] + step * (second[0][i] - begins[1])
            mix_words(place, step, second[2][i], second[1][i], totals, mixed[1])
            place = places[2] + step * (third[0][i] - begins[2])
            mix_words(place, step, third[2][i], third[1][i], totals, mixed[2])
        colour.write_pixels(
            kind, mixed[0], mixed[1], mixed[2], columns, out + 3 * columns * i, rest
        )


@compiled(
    "int64(int64[::1], int64[::1], int64[:, ::1], int64, int64[::1], int64[::1], int64, int64,"
    " int64)"
)
def render_many(records, sizes, windows, method, outs, found, first, memory, space):
    """Windows of many records, in order.

    Args:
        records: addresses, multiples of 8.
        sizes: bytes of each.
        windows: int64 (N, 7): x, y, width, height (upright pixels), flip; lines and columns of the
            result.
        method: ANTIALIAS, BILINEAR or DCT.
        outs: addresses, 3 * lines * columns bytes each.
        found: written: GOOD, HEADER, DATA or BOX.
        first: where to begin.
        memory: address of scratch, a multiple of 64.
        space: bytes of it.

    Returns:
        N; or the record that needs more scratch: `found` says how much, negative. Begin again with
        that one.
    """
    for n in range(first, len(records)):
        found[n] = render_one(
            records[n], sizes[n], windows[n, 0], windows[n, 1], windows[n, 2], windows[n, 3],
            windows[n, 4] != 0, method, windows[n, 5], windows[n, 6], outs[n], memory, space,
        )  # fmt: skip
        if found[n] < 0:
            return n
    return len(records)
