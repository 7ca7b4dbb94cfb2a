"""The encoder's tables: the best ones, legal for JPEG, with codes for the made-up MCU."""

import heapq

import jpeg_files
import numpy as np
import pictures
import pytest

from train.data.jpeg import coefficients, entropy, huffman
from train.data.jpeg.markers import Unsupported


def cost_of_the_best_code(counts):
    """Bits that Huffman's algorithm needs, without a limit of 16."""
    heap = [int(count) for count in counts if count]
    heapq.heapify(heap)
    cost = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        cost += both
        heapq.heappush(heap, both)
    return cost


@pytest.mark.parametrize("symbols", [1, 2, 3, 12, 162])
@pytest.mark.parametrize("steep", [0.3, 1.0, 5.0])
def test_tables_are_legal_and_the_best(symbols, steep):
    generator = np.random.default_rng(symbols)
    for _ in range(20):
        counts = np.zeros(257, np.int64)
        chosen = generator.choice(256, symbols, replace=False)
        counts[chosen] = np.minimum(generator.pareto(steep, symbols) * 10, 1e9).astype(int) + 1
        numbers, order = huffman.best_table(counts)
        codes, lengths = huffman.codes_of(numbers, order)
        assert sorted(order) == sorted(chosen)
        assert numbers.sum() == symbols
        assert (lengths[chosen] >= 1).all()
        # Room for all, and one code of the longest length is left: that of ones alone.
        assert sum(int(n) << (16 - bits) for bits, n in enumerate(numbers, 1)) < 1 << 16
        assert all(codes[s] < (1 << lengths[s]) - 1 for s in chosen)
        if lengths.max() < 16:
            reserved = lengths.max()  # the code of ones, counted once
            cost = int((counts[:256] * lengths).sum()) + int(reserved)
            assert cost == cost_of_the_best_code([*counts[:256], 1])


def test_a_made_up_mcu_can_always_be_written():
    """Few symbols often have an even number of bits each; then others get a code as well."""
    generator = np.random.default_rng(0)
    symbols = [run << 4 | size for run in range(16) for size in range(1, 11)] + [0x00, 0xF0]
    for trial in range(400):
        counts = np.zeros((4, 257), np.int64)
        chosen = generator.choice(symbols, trial % 9)
        counts[1, chosen] = generator.integers(1, 10 ** generator.integers(1, 8), len(chosen))
        tables, _, sizes, pad = entropy._tables(counts, 2)
        assert (sizes[1, pad] + (pad & 15)) % 2 == 1
        assert pad >> 4 < 7
        assert (sizes[0, :12] > 0).all()
        assert sizes[1, 0] > 0
        assert len(tables) == 2


def test_coefficients_that_baseline_cannot_hold():
    picture = coefficients.decode(jpeg_files.encode(pictures.scene(16, 16), 90, "444"))
    for k, value in [(0, 1024), (0, -1025), (5, 1024), (5, -1024), (63, -32768)]:
        picture.blocks[1] = 0
        picture.blocks[1, k] = value
        with pytest.raises(Unsupported, match="cannot hold"):
            entropy.encode(picture, 8)


def test_the_largest_coefficients_of_baseline_survive():
    picture = coefficients.decode(jpeg_files.encode(pictures.scene(16, 16), 90, "444"))
    picture.blocks[:, :] = np.where(np.arange(64) % 3, 1023, -1023)
    picture.blocks[::2, 0] = -1024
    coded = entropy.encode(picture, 1)
    assert coded.rows.sum() == len(coded.bits) + 2
