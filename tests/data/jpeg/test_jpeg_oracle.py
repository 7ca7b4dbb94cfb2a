"""Coefficients are exactly those that libjpeg reads (jpeglib is the oracle)."""

import jpeg_files
import numpy as np
import pytest

from train.data.jpeg import coefficients

jpeglib = pytest.importorskip(
    "jpeglib", reason="jpeglib, the oracle of this file, is not installed"
)

# Where the k-th coefficient of the zigzag order stands, row by row (T.81, figure A.6).
ZIGZAG = sorted(
    range(64),
    key=lambda at: (
        at // 8 + at % 8,
        at // 8 if (at // 8 + at % 8) % 2 else at % 8,
    ),
)


def assert_as_libjpeg_reads(data, path, name):
    path.write_bytes(data)
    picture, oracle = coefficients.decode(data), jpeglib.read_dct(str(path))
    planes = [plane for plane in (oracle.Y, oracle.Cb, oracle.Cr) if plane is not None]
    assert len(planes) == len(picture.planes), name
    for number, expected in enumerate(planes):
        expected = np.asarray(expected)
        rows, columns = expected.shape[:2]
        found = np.empty((rows, columns, 64), np.int16)
        found[:, :, ZIGZAG] = picture.plane(number)[:rows, :columns]
        assert np.array_equal(found, expected.reshape(rows, columns, 64)), (name, number)
        quantiser = np.empty(64, np.uint16)
        quantiser[ZIGZAG] = picture.planes[number].quantiser
        table = np.asarray(oracle.qt)[oracle.quant_tbl_no[number]]
        assert np.array_equal(quantiser, table.ravel()), (name, number)
    assert (picture.height, picture.width) == (oracle.height, oracle.width), name


@pytest.mark.parametrize(("width", "height"), jpeg_files.SIZES)
def test_every_kind_in_every_size(tmp_path, width, height):
    for name, data in jpeg_files.kinds(width, height).items():
        assert_as_libjpeg_reads(data, tmp_path / "one.jpg", name)


@pytest.mark.parametrize("name", jpeg_files.odd_kinds())
def test_kinds_that_few_encoders_write(tmp_path, name):
    assert_as_libjpeg_reads(jpeg_files.odd_kinds()[name], tmp_path / "one.jpg", name)


def test_photographs(tmp_path, photos):
    for path in sorted(photos.glob("*/*"))[:60]:
        assert_as_libjpeg_reads(path.read_bytes(), tmp_path / "one.jpg", path)
