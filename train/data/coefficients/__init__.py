"""Coefficient records: a JPEG whose Huffman decoding was done once, by `train pack`.

| module | job |
|---|---|
| [record.py](record.py) | the layout of a record, field by field; parsed and checked |
| [create.py](create.py) | a new record: its header, and room for the rest |
| [pack.py](pack.py), [pack_kernels.py](pack_kernels.py) | a JPEG -> its record |
| [unpack.py](unpack.py) | a record -> all of its coefficients, and a JPEG again |
| [words.py](words.py) | what numba has no words for: pointers, bits |
| [checks.py](checks.py) | the checks of record.py as a kernel |
| [expand.py](expand.py) | masks and values -> coefficients, never outside of the record |
| [vectors.py](vectors.py) | inner steps in vectors: mixing, turning, colour |
| [inverse_vectors.py](inverse_vectors.py) | the same for the inverse DCT |
| [expand_vbmi2.py](expand_vbmi2.py) | `expand` by an instruction of AVX-512 |
| [inverse.py](inverse.py) | coefficients -> samples: the inverse DCT, 16 blocks at a time |
| [mixing.py](mixing.py) | rows of samples -> their mixture |
| [taps.py](taps.py) | which samples of a plane each pixel is mixed from |
| [axes.py](axes.py) | those of a window, across and down, and where they lie |
| [planes.py](planes.py) | a window of one plane -> its columns, scaled |
| [colour.py](colour.py) | scaled planes -> rows of pixels |
| [batch_kernel.py](batch_kernel.py) | records and windows -> pixels, in one call |
| [compiling.py](compiling.py) | compiles all that once |
| [render.py](render.py) | what the line calls |

A record holds the quantised DCT coefficients of a picture so that a window of it is found and
expanded without looking at the rest. All kernels are numba, so nothing is compiled at install; this
file, record.py, create.py and render.py import without it.
"""

MAGIC = b"WFcoef\r\n"
"""How a record begins; no image format begins so."""

VERSION = 1
"""Of the layout; records of a newer one are refused."""
