"""A record holds exactly the coefficients of its JPEG (jpeglib is the oracle), and nothing odd."""

import io
import threading

import jpeg_files
import numpy as np
import pictures
import plain_packer
import plain_reader
import pytest
from PIL import Image

from train.data.coefficients import pack, unpack
from train.data.coefficients.record import RGB
from train.data.jpeg import coefficients
from train.data.jpeg.markers import Unsupported
from train.errors import BadSample

SIZES = [*jpeg_files.SIZES, (8191, 3)]
SCENE = jpeg_files.encode(pictures.scene(53, 37), 85, "420")


def assert_as_libjpeg_reads(data, path, name):
    jpeglib = pytest.importorskip("jpeglib", reason="jpeglib, the oracle, is not installed")
    path.write_bytes(data)
    header, planes = plain_reader.read(pack.pack(data))
    oracle = jpeglib.read_dct(str(path))
    expected = [plane for plane in (oracle.Y, oracle.Cb, oracle.Cr) if plane is not None]
    assert (header["width"], header["height"]) == (oracle.width, oracle.height), name
    assert len(planes) == len(expected), name
    for number, ((fields, blocks), plane) in enumerate(zip(planes, map(np.asarray, expected))):
        rows, columns = blocks.shape[:2]
        assert np.array_equal(blocks, plane[:rows, :columns]), (name, number)
        table = np.asarray(oracle.qt)[oracle.quant_tbl_no[number]]
        assert np.array_equal(fields["quantiser"].reshape(8, 8).T, table), (name, number)


@pytest.mark.parametrize(("width", "height"), SIZES)
def test_every_kind_in_every_size(tmp_path, width, height):
    for name, data in jpeg_files.kinds(width, height).items():
        assert_as_libjpeg_reads(data, tmp_path / "one.jpg", name)
        assert unpack.holds(pack.pack(data), data), name


@pytest.mark.parametrize("orientation", range(1, 9))
def test_byte_for_byte_as_a_plain_packer(orientation):
    for name, data in jpeg_files.kinds(53, 37).items():
        found = pack.stored(coefficients.decode(data), orientation)
        assert found == plain_packer.pack(data, orientation).tobytes(), name


@pytest.mark.parametrize("name", jpeg_files.odd_kinds())
def test_kinds_that_few_encoders_write(tmp_path, name):
    data = jpeg_files.odd_kinds()[name]
    assert_as_libjpeg_reads(data, tmp_path / "one.jpg", name)
    header, _ = plain_reader.read(pack.pack(data))
    assert header["flags"] == (RGB if name.startswith("RGB") else 0)


def test_photographs(photos):
    for path in sorted(photos.glob("*/*"))[:60]:
        data = path.read_bytes()
        record = pack.pack(data)
        assert unpack.holds(record, data), path
        assert len(record) < 4 * len(data) + 4096


def test_just_the_blocks_that_the_picture_needs():
    """4:2:0, 53 x 37 pixels: JPEG has 8 x 6 blocks of luma, of which 7 x 5 are seen."""
    _, planes = plain_reader.read(pack.pack(SCENE))
    assert [blocks.shape[:2] for _, blocks in planes] == [(5, 7), (3, 4), (3, 4)]
    assert [(fields["h"], fields["v"]) for fields, _ in planes] == [(2, 2), (1, 1), (1, 1)]


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("sampling", ["444", "422", "420", "Gray"])
def test_orientation_is_taken_over(orientation, sampling):
    upright = pictures.marked(77, 45)
    kind = {"444": 0, "422": 1, "420": 2}
    stored = Image.fromarray(pictures.turned(upright, orientation))
    if sampling == "Gray":
        data = pictures.encode(stored.convert("L"), exif=pictures.exif(orientation))
    else:
        data = pictures.encode(
            stored, exif=pictures.exif(orientation), subsampling=kind[sampling], quality=95
        )
    record = pack.pack(data)
    header, planes = plain_reader.read(record)
    assert (header["width"], header["height"]) == (77, 45)
    assert header["orientation"] == {5: 1, 6: 2, 7: 3, 8: 4}.get(orientation, orientation)
    if orientation >= 5 and sampling == "422":
        assert [(fields["h"], fields["v"]) for fields, _ in planes] == [(1, 2), (1, 1), (1, 1)]
    assert unpack.holds(record, data)
    image = Image.open(io.BytesIO(unpack.to_jpeg(record)))
    assert image.getexif().get(0x0112, 1) == header["orientation"]


def test_the_same_file_gives_the_same_bytes_in_any_thread():
    files = [*jpeg_files.kinds(130, 67).values(), *jpeg_files.kinds(17, 33).values()]
    expected = [pack.pack(data) for data in files]
    found = {}

    def work(number):
        found[number] = [pack.pack(data) for data in files]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == expected for number in range(3))


def picture(fill):
    found = coefficients.decode(jpeg_files.encode(pictures.scene(16, 16), 90, "444"))
    found.blocks[1] = fill
    return found


def test_the_largest_coefficients():
    for mean, value in [(-1024, -1023), (1023, 1023), (0, 128), (0, -128), (0, 127), (0, -129)]:
        found = picture(value)
        found.blocks[1, 0] = mean
        _, planes = plain_reader.read(pack.stored(found))
        natural = np.full(64, value)
        natural[0] = mean
        assert np.array_equal(planes[0][1][0, 1].ravel(), natural)
    for k, value in [(0, 1024), (0, -1025), (5, 1024), (63, -1024), (1, 32767), (9, -32768)]:
        found = picture(0)
        found.blocks[1, k] = value
        with pytest.raises(Unsupported, match="8 bits a sample"):
            pack.stored(found)


def test_what_has_no_record_is_named():
    third = jpeg_files.replace_factors(jpeg_files.encode(pictures.scene(40, 24), 80, "444"), [0x31])
    two = jpeg_files.replace_factors(third, [0x31, 0x21])
    with pytest.raises((Unsupported, BadSample)):
        pack.pack(two)
    found = coefficients.decode(SCENE)
    planes = (found.planes[0]._replace(h=3), found.planes[1]._replace(h=2), found.planes[2])
    with pytest.raises(Unsupported, match="no whole ratios"):
        pack.stored(found._replace(planes=planes))
    with pytest.raises(Unsupported, match="CMYK"):
        pack.pack(pictures.encode(Image.new("CMYK", (40, 30))))
    with pytest.raises(BadSample, match="without an end marker"):
        pack.pack(SCENE[:-200])
