"""JPEG from the inside: a lossless transcoder, and files of which a window decodes alone.

| module | job |
|---|---|
| [markers.py](markers.py) | the segments around the coded bits: read, checked, written |
| [bits.py](bits.py) | how kernels are compiled; coded bytes -> bits, bits -> numbers |
| [huffman.py](huffman.py) | Huffman tables: to decode with, and the best ones to encode with |
| [scans.py](scans.py) | decodes one scan |
| [progressive.py](progressive.py) | the blocks of a progressive scan |
| [coefficients.py](coefficients.py) | a file -> its quantised coefficients |
| [entropy.py](entropy.py) | coefficients -> a baseline scan, each row of MCUs by itself |
| [tables.py](tables.py) | the segments in front of that scan |
| [index.py](index.py) | where each group of MCUs begins, in APP9 segments of the file |
| [made_up.py](made_up.py) | the made-up MCU at the left of a window |
| [splice.py](splice.py) | the bits under a window, as a small JPEG |
| [windows.py](windows.py) | `pack`, `parse`, `cut`: what the rest of the package calls |

An MCU ("minimum coded unit") is the smallest rectangle that JPEG codes as a whole: 8 x 8 pixels, or
16 x 16 where colour has half the resolution. All kernels are numba, so nothing is compiled at
install; this file alone imports without numba.

**Why a window can be decoded alone.** A block's bits begin anywhere within a byte, and its mean is
coded as the difference from the block before it. `pack` keeps every coefficient, ends each
row of MCUs with a restart marker (so rows begin at a byte, and count from zero), and notes for each
group of 64 pixels the bit at which it begins and the means before it. `cut` builds a JPEG of the
rows and groups under a window. Each of its rows starts with one made-up MCU, which sets the means,
and which is just as many bits long that the rest of the row can be copied byte by byte. Any width
works, nothing is padded, and to everybody else the file is an ordinary JPEG.
"""

MARKER = 0xE9
"""APP9, the segments that hold our index. Few programs write it; IDENTIFIER tells ours apart."""

IDENTIFIER = b"Wellfed\0"
"""How the payload of our segments begins."""
