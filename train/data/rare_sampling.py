"""JPEGs whose sampling factors simplejpeg refuses: Pillow decodes them, after they were checked.

The standard allows any factor from 1 to 4 for each component. libjpeg decodes all of them; the
interface that simplejpeg uses has names for the usual ones alone. Pillow does not tell when libjpeg
has filled up a damaged scan with grey, so the coefficients are read by our own decoder first.
"""

from typing import Any

from train.errors import BadSample

# Sampling factors of three components, horizontal and vertical in a byte: 4:4:4 in three ways,
# 4:2:2 and 4:4:0 in two, 4:2:0, 4:1:1. What stands here libjpeg-turbo 2.1 names already.
_USUAL = frozenset(
    bytes.fromhex(factors)
    for factors in (
        *("111111", "121212", "212121"),
        *("211111", "221212", "121111", "222121"),
        *("221111", "411111"),
    )
)


def is_rare(frame: bytes) -> bool:
    """Whether a frame header (SOF, from its sample precision on) has such factors."""
    return frame[5] == 3 and len(frame) >= 15 and frame[7:15:3] not in _USUAL


def check_whole(data: Any) -> None:
    """Read all coefficients of a JPEG.

    Raises:
        BadSample: damaged, or of a kind that can't be checked.
    """
    from train.data.jpeg import coefficients, markers  # late: they need numba

    try:
        coefficients.decode(bytes(data))
    except markers.Unsupported as error:
        raise BadSample(f"rare sampling factors in a file that can't be checked: {error}") from None
