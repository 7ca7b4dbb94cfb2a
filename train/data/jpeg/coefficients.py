"""A JPEG file -> its quantised coefficients, exactly; or the reason why not.

Baseline, extended and progressive files of 8 bits a sample, one or three components, any sampling.
"""

from typing import Dict, List, NamedTuple, Tuple

import numpy as np

from train.data.jpeg import bits, huffman, markers
from train.data.jpeg.markers import Frame, Scan, Unsupported
from train.data.jpeg.scans import decode_scan
from train.errors import BadSample

MAX_SCANS = 200
"""More than any encoder writes: a file can't make us go over its blocks again and again."""


class Plane(NamedTuple):
    """One component.

    Attributes:
        h, v: sampling factors, without a common divisor over all components.
        quantiser: uint16 (64,), zigzag order.
        first: its first block in `Coefficients.blocks`.
        rows, columns: of blocks; whole MCUs, so often more than the picture needs.
    """

    h: int
    v: int
    quantiser: np.ndarray
    first: int
    rows: int
    columns: int


class Coefficients(NamedTuple):
    """A picture before the inverse DCT.

    Attributes:
        width, height: pixels, as stored (no EXIF orientation applied).
        blocks: int16 (N, 64), zigzag order; plane after plane, row after row.
        planes: one or three.
        rgb: the three planes are red, green, blue; else luma and two of colour.
        metadata: (marker, payload) of every APP and COM segment, in the file's order.
    """

    width: int
    height: int
    blocks: np.ndarray
    planes: Tuple[Plane, ...]
    rgb: bool
    metadata: Tuple[Tuple[int, bytes], ...]

    def plane(self, number: int) -> np.ndarray:
        """The blocks of one plane: int16 (rows, columns, 64), a view."""
        plane = self.planes[number]
        count = plane.rows * plane.columns
        blocks = self.blocks[plane.first : plane.first + count]
        return blocks.reshape(plane.rows, plane.columns, 64)


def decode(data: bytes) -> Coefficients:
    """Decode all coefficients.

    Args:
        data: the file's bytes; what stands behind the end marker is ignored.

    Raises:
        BadSample: damaged.
        Unsupported: of another kind, or put together in a way that is better left as it is.
    """
    data = bytes(data)
    if data[:2] != b"\xff\xd8":
        raise BadSample(f"no JPEG ({len(data)} bytes, begins with {data[:8]!r})")
    picture = _Picture(data)
    position = 2
    while True:
        marker, position, end = markers.next_segment(data, position)
        if marker == markers.EOI:
            return picture.finish()
        position = picture.take(marker, position, end)


class _Picture:
    """The state of a decoder between two segments."""

    def __init__(self, data: bytes):
        self.data = data
        self.bytes = np.frombuffer(data, np.uint8)
        self.frame: Frame = Frame(False, 0, 0, ())
        self.quantisers: Dict[int, np.ndarray] = {}
        self.latched: Dict[int, np.ndarray] = {}
        self.tables = huffman.empty_tables()
        self.interval = 0
        self.num_scans = 0
        self.metadata: List[Tuple[int, bytes]] = []

    def take(self, marker: int, start: int, end: int) -> int:
        """Read one segment, and the scan behind it where it is SOS -> where the next one begins."""
        payload = self.data[start:end]
        if marker == markers.DQT:
            markers.read_quantisers(payload, self.quantisers)
        elif marker == markers.DHT:
            for kind, number, counts, symbols in markers.read_huffman(payload):
                huffman.fill_table(self.tables, kind, number, counts, symbols)
        elif marker == markers.DRI:
            self.interval = int.from_bytes(payload[:2], "big")
        elif marker == markers.SOS:
            return self._scan(markers.read_scan(payload, self.frame), end)
        elif markers.APP0 <= marker <= markers.APP15 or marker == markers.COM:
            self.metadata.append((marker, payload))
        elif marker == markers.DNL:
            raise Unsupported("JPEG that tells its height after its pixels (DNL)")
        elif 0xC0 <= marker <= 0xCF or marker == 0xDE:
            frame = markers.read_frame(marker, payload)
            if self.frame.components:
                raise BadSample("damaged JPEG: two frame headers")
            self._begin(frame)
        return end

    def _begin(self, frame: Frame) -> None:
        parts = frame.components
        if len(parts) == 1:  # a scan of one component has MCUs of one block, whatever its factors
            parts = (parts[0]._replace(h=1, v=1),)
        self.frame = frame._replace(components=parts)
        h, v = max(part.h for part in parts), max(part.v for part in parts)
        self.mcus = _ceil(frame.width, 8 * h), _ceil(frame.height, 8 * v)
        # Blocks of each component that the picture needs; scans of one component hold these alone.
        self.needed = [
            (_ceil(_ceil(frame.width * p.h, h), 8), _ceil(_ceil(frame.height * p.v, v), 8))
            for p in parts
        ]
        self.sizes = [(self.mcus[1] * part.v, self.mcus[0] * part.h) for part in parts]
        blocks = [rows * columns for rows, columns in self.sizes]
        if sum(blocks) > 8 * len(self.data):  # a block costs a bit at the very least
            raise BadSample(
                f"damaged JPEG: {frame.width} x {frame.height} pixels in {len(self.data)} bytes"
            )
        starts = np.cumsum([0] + blocks)
        self.starts = starts[:-1].tolist()
        self.blocks = np.zeros((int(starts[-1]), 64), np.int16)
        # Bits still missing of each coefficient; -1: never seen.
        self.missing = np.full((len(parts), 64), -1, np.int64)
        self.padded = [False] * len(parts)

    def _scan(self, scan: Scan, start: int) -> int:
        self.num_scans += 1
        if self.num_scans > MAX_SCANS:
            raise BadSample(f"damaged JPEG: more than {MAX_SCANS} scans")
        self._check_progress(scan)
        units, planes, grid = self._layout(scan)
        mcus = grid[1]
        interval = self.interval
        clean = np.zeros(len(self.data) - start + bits.TAIL, np.uint8)
        ends = np.zeros(_ceil(mcus, interval) if interval else 1, np.int64)
        position, intervals, code = bits.unstuff(self.bytes, start, clean, ends)
        if code == bits.OK and intervals != len(ends):
            code = bits.NO_RESTART
        mcu = 0
        if code == bits.OK:
            band = (scan.first, scan.last, scan.high, scan.low)
            code, mcu = decode_scan(
                clean, ends, interval, units, planes, grid,
                self.frame.progressive, band, self.tables, self.blocks,
            )  # fmt: skip
        if code == bits.LEFT_OVER and mcu == mcus:
            raise Unsupported("JPEG with bytes between its pixels and the next segment")
        if code != bits.OK:
            raise BadSample(
                f"damaged JPEG of {len(self.data)} bytes: {bits.REASONS[code]} "
                f"(scan {self.num_scans}, MCU {mcu} of {mcus})"
            )
        return position

    def _check_progress(self, scan: Scan) -> None:
        """Every bit of every coefficient comes once, the upper ones first."""
        for number in scan.components:
            state = self.missing[number, scan.first : scan.last + 1]
            expected = scan.high if scan.high else -1
            if (state != expected).any() or (scan.first > 0 and self.missing[number, 0] < 0):
                raise Unsupported("JPEG with scans in an odd order")
            state[:] = scan.low
            table = self.frame.components[number].table
            if number not in self.latched:
                if table not in self.quantisers:
                    raise BadSample("damaged JPEG: a quantisation table is missing")
                self.latched[number] = self.quantisers[table]

    def _layout(self, scan: Scan) -> Tuple[np.ndarray, np.ndarray, Tuple[int, int]]:
        """What the kernel wants: units, planes, grid; see scans.py."""
        parts = self.frame.components
        alone = len(scan.components) == 1
        units = []
        for number, dc, ac in zip(scan.components, scan.dc, scan.ac):
            h, v = (1, 1) if alone else (parts[number].h, parts[number].v)
            units += [(number, dc, 4 + ac, row, column) for row in range(v) for column in range(h)]
            self.padded[number] |= not alone
        if len(units) > 10:
            raise BadSample(f"damaged JPEG: {len(units)} blocks in an MCU, at most 10 are allowed")
        planes = [
            (start, columns, 1 if alone else part.v, 1 if alone else part.h)
            for start, (_, columns), part in zip(self.starts, self.sizes, parts)
        ]
        across, down = self.needed[scan.components[0]] if alone else self.mcus
        return np.array(units), np.array(planes), (across, across * down)

    def finish(self) -> Coefficients:
        """All scans were read."""
        if self.num_scans == 0:
            raise BadSample("damaged JPEG: no scan")
        if (self.missing != 0).any():
            # libjpeg smooths such pictures by guessing; rewritten as baseline they would change.
            raise Unsupported("progressive JPEG without all of its scans")
        parts = self.frame.components
        common_h = int(np.gcd.reduce([part.h for part in parts]))
        common_v = int(np.gcd.reduce([part.v for part in parts]))
        planes = tuple(
            Plane(part.h // common_h, part.v // common_v, self.latched[number], first, *size)
            for number, (part, first, size) in enumerate(zip(parts, self.starts, self.sizes))
        )
        rgb = len(parts) == 3 and markers.is_rgb(self.metadata, [p.identifier for p in parts])
        size = self.frame.width, self.frame.height
        picture = Coefficients(*size, self.blocks, planes, rgb, tuple(self.metadata))
        for number in range(len(parts)):
            if not self.padded[number]:
                pad(picture.plane(number), *self.needed[number])
        return picture


def _ceil(number: int, divisor: int) -> int:
    return -(-number // divisor)


def pad(blocks: np.ndarray, columns: int, rows: int) -> None:
    """Blocks beyond the picture that were not coded: as flat and as cheap as can be."""
    blocks[:, columns:, 0] = blocks[:, columns - 1 : columns, 0]
    blocks[rows:, :, 0] = blocks[rows - 1, :, 0]
