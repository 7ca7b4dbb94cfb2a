"""The blocks of a progressive scan: first the upper bits of coefficients, then one bit at a time.

`block` int16 (64,), zigzag order. `runs[0]` counts blocks ahead that are known to be empty. Each
kernel returns the next bit position, or a reason (negative, see bits.py).

Source: ITU-T T.81, annex G.
"""

import numpy as np

from train.data.jpeg.bits import NO_CODE, RANGE, TOO_MANY, bits_of, kernel, signed, word_at
from train.data.jpeg.huffman import lookup


@kernel
def first_pass(clean, at, row, block, first, last, low, runs):
    """AC coefficients `first` to `last`, all bits but the lower `low` ones."""
    if runs[0] > 0:
        runs[0] -= 1
        return at
    k = first
    while k <= last:
        word = word_at(clean, at)
        found = lookup(row, word)
        if found == 0:
            return NO_CODE
        length, run, size = found >> 8, (found >> 4) & 15, found & 15
        if size == 0 and run < 15:
            runs[0] = _empty_blocks(word, length, run) - 1
            return at + length + run
        at += length + size
        k += run
        if size == 0:
            k += 1
            if k > last + 1:
                return TOO_MANY
            continue
        if k > last:
            return TOO_MANY
        value = signed(word, length, size) << low
        if value > 32767 or value < -32768:
            return RANGE
        block[k] = value
        k += 1
    return at


@kernel
def refine(clean, at, row, block, first, last, low, runs):
    """One more bit of the AC coefficients `first` to `last`, the one that is worth 1 << low."""
    k = first
    one = 1 << low
    if runs[0] == 0:
        while k <= last:
            word = word_at(clean, at)
            found = lookup(row, word)
            if found == 0:
                return NO_CODE
            length, run, size = found >> 8, (found >> 4) & 15, found & 15
            at += length
            if size > 1:
                return RANGE
            value = 0
            if size == 1:
                value = one if bits_of(word, length, 1) else -one
                at += 1
            elif run < 15:
                runs[0] = _empty_blocks(word, length, run)
                at += run
                break
            at, k = _refine_known(clean, at, block, k, last, run, one)
            if k > last:
                return TOO_MANY
            if value != 0:
                block[k] = value
            k += 1
    if runs[0] > 0:
        at, k = _refine_known(clean, at, block, k, last, 64, one)
        runs[0] -= 1
    return at


@kernel
def _empty_blocks(word, length, run):
    """How many blocks are empty from here on, this one included (EOBRUN)."""
    if run == 0:
        return np.int64(1)
    return (1 << run) + bits_of(word, length, run)


@kernel
def _refine_known(clean, at, block, k, last, zeros, one):
    """One more bit of each known coefficient from k on, until `zeros` unknown ones were passed."""
    while k <= last:
        if block[k] != 0:
            if bits_of(word_at(clean, at), 0, 1) and (abs(np.int64(block[k])) & one) == 0:
                block[k] += one if block[k] > 0 else -one
            at += 1
        else:
            if zeros == 0:
                break
            zeros -= 1
        k += 1
    return at, k
