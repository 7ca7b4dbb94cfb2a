"""`--content coefficients`: nothing is lost, what can't be packed stays, all containers hold it."""

import io
import shutil

import numpy as np
import pictures
import pytest
from packing import (
    CONTAINERS,
    die,
    files,
    ledger,
    marker,
    pack,
    pack_and_die,
    records,
    write_source,
)
from PIL import Image

from train.data.coefficients import record
from train.data.coefficients.record import is_record
from train.data.coefficients.unpack import holds
from train.data.sources.handles import close_all
from train.data.sources.open import open_sets
from train.errors import DataError
from train.pack.contents import convert, pixels_of
from train.pack.options import PackOptions
from train.pack.write import SplitWriting

CMYK = pictures.encode(Image.new("CMYK", (40, 30), (10, 200, 30, 0)))


def options(content="coefficients", **more):
    return PackOptions("", "", content=content, **more)


def opened(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("kind", sorted(pictures.kinds_of_jpeg()))
def test_a_jpeg_without_loss(kind):
    data = pictures.kinds_of_jpeg()[kind]
    made = convert(data, options())
    assert (made.way, made.reason, made.ending) == ("coefficients", "", ".coef")
    assert holds(made.data, data)
    assert np.array_equal(pixels_of(made.data), pixels_of(data))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright(orientation):
    stored = pictures.turned(pictures.marked(96, 60), orientation)
    data = pictures.encode(stored, quality=95, exif=pictures.exif(orientation))
    made = pixels_of(convert(data, options()).data)
    # libjpeg rounds between its passes over columns and rows, so a turned picture may differ by 1.
    away = np.abs(made.astype(int) - pixels_of(data))
    assert away.max() <= (0 if orientation < 5 else 2)
    assert away.mean() < 0.1
    assert made[3, 3, 0] > 150  # red is top left again


def test_what_has_no_record_stays_as_it_is():
    plain = pictures.encode(pictures.scene(40, 24))
    place = plain.index(b"\xff\xc0") + 1
    arithmetic = plain[:place] + b"\xc9" + plain[place + 1 :]
    made = convert(CMYK, options())
    assert (made.data, made.way, made.bad) == (CMYK, "kept", False)
    assert "CMYK" in made.reason
    made = convert(arithmetic, options())
    assert (made.data, made.way) == (arithmetic, "kept")


def test_what_is_no_jpeg_is_encoded_nearly_without_loss():
    pixels = pictures.scene(64, 48)
    made = convert(pictures.encode(pixels, "PNG"), options())
    fields = record.parse(made.data)
    assert (made.way, made.ending) == ("encoded", ".coef")
    assert {(plane.h, plane.v) for plane in fields.planes} == {(1, 1)}
    assert np.abs(pixels_of(made.data).astype(int) - pixels).mean() < 3
    coarse = convert(pictures.encode(pixels, "PNG"), options(quality=50))
    assert len(coarse.data) < len(made.data)
    assert options().lasting()["quality"] == 95


def test_grey_pixels_have_one_plane():
    grey = np.repeat(pictures.scene(64, 48)[:, :, :1], 3, 2)
    fields = record.parse(convert(pictures.encode(grey, "PNG"), options()).data)
    assert len(fields.planes) == 1
    assert np.abs(pixels_of(convert(grey, options()).data).astype(int) - grey).mean() < 2


def test_scaled_down_as_other_contents_are():
    data = pictures.encode(pictures.scene(200, 150), quality=95, subsampling=0)
    made = convert(data, options(short_side=60))
    fields = record.parse(made.data)
    assert (made.way, fields.width, fields.height) == ("encoded", 80, 60)
    assert (fields.planes[0].h, fields.planes[0].v) == (2, 2)
    assert np.array_equal(
        pixels_of(made.data), opened(convert(data, options("jpeg", short_side=60)).data)
    )
    assert options(short_side=60).lasting()["quality"] == 90


@pytest.mark.parametrize("damage", [b"", b"no image", "half", "record"])
def test_a_damaged_image_stays_as_it_is_and_is_told(damage):
    whole = pictures.encode(pictures.scene(90, 70))
    if damage == "half":
        damage = whole[: len(whole) // 2]
    elif damage == "record":
        damage = convert(whole, options()).data[:-200] + bytes(200)
    made = convert(damage, options())
    assert (made.data, made.way, made.bad, made.ending) == (damage, "kept", True, None)
    assert made.reason


@pytest.mark.parametrize("orientation", [1, 3, 6])
def test_records_become_everything_else(orientation):
    data = pictures.encode(
        pictures.turned(pictures.scene(70, 50), orientation), exif=pictures.exif(orientation)
    )
    packed = convert(data, options()).data
    assert convert(packed, options()) == convert(data, options())._replace(ending=None)
    assert convert(packed, options("original")).data == packed
    made = convert(packed, options("windows"))
    assert (made.way, made.ending) == ("windows", ".jpg")
    assert np.array_equal(pixels_of(made.data), pixels_of(packed))
    if orientation < 5:
        assert np.array_equal(pixels_of(made.data), pixels_of(data))
        for other in ("raw", "jpeg"):
            assert convert(packed, options(other)).data == convert(data, options(other)).data


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = write_source(tmp_path_factory.mktemp("coefficients") / "source", count=4)
    (folder / "train/cat/cmyk.jpg").write_bytes(CMYK)
    (folder / "val/dog/001.jpg").write_bytes(b"no image at all")
    return folder


@pytest.fixture(scope="module")
def packs(source, tmp_path_factory):
    root = tmp_path_factory.mktemp("packs")
    for container in CONTAINERS:
        pack(source, root / container, container=container, content="coefficients", verify=True)
    return root


def test_every_container_holds_the_same(source, packs):
    before = records(source)
    for container in CONTAINERS:
        found = records(packs / container)
        for split in ("train", "val"):
            assert [r[1:] for r in found[split]] == [
                (label, convert(data, options()).data) for _, label, data in before[split]
            ]
        assert [entry["key"] for entry in ledger(packs / container)] == ["val:dog/001.jpg"]
        counts = marker(packs / container)["counts"]
        assert (counts["kept"], counts["encoded"]) == (2, 1)
        assert counts["coefficients"] == sum(map(len, before.values())) - 3


def test_names_and_endings(packs):
    import tarfile

    keys = {key for key, _, _ in records(packs / "folder")["train"]}
    assert {"cat/000.jpg", "cat/below/it/x.png", "cat/cmyk.jpg"} <= keys
    with tarfile.open(packs / "tar/train-000000.tar") as shard:
        endings = {name.rsplit(".", 1)[1] for name in shard.getnames()}
    assert endings == {"coef", "jpg", "cls"}  # jpg: the one of four inks


def test_what_is_said(source, tmp_path, capsys):
    pack(source, tmp_path / "out", container="lmdb", content="coefficients")
    said = " ".join(capsys.readouterr().out.split())
    assert "made coefficient records: the file loses nothing; decoded pixels differ by" in said
    assert "1 encoded as coefficients of quality 95, colour 4:4:4" in said
    assert "kept: 1 x JPEG with 4 components (CMYK)" in said


FILES = {
    "tar": "train-000000.tar",
    "lmdb": "train.lmdb/data.mdb",
    "hdf5": "train.h5",
    "tfrecord": "train-00000.tfrecord",
}


def plant(folder, container):
    """Change one bit of a record, as a worn disk does."""
    key, _, image = max(records(folder)["train"], key=lambda found: len(found[2]))
    path = folder / FILES.get(container, f"train/{key}")
    data = bytearray(path.read_bytes())
    data[data.index(image) + len(image) // 2] ^= 4
    path.write_bytes(bytes(data))
    close_all()


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_flipped_bit_is_found(source, packs, tmp_path, container):
    shutil.copytree(packs / container, tmp_path / "out")
    plant(tmp_path / "out", container)
    for words in ((tmp_path / "out", None), (source, tmp_path / "out")):
        with pytest.raises(DataError, match=r"1 images of .* are damaged:\n  train:"):
            pack(*words, verify=True)


def test_a_flipped_bit_is_found_without_the_packs_checksums(packs, tmp_path, capsys):
    shutil.copytree(packs / "lmdb", tmp_path / "out")
    plant(tmp_path / "out", "lmdb")
    shutil.copytree(tmp_path / "out/train.lmdb", tmp_path / "train.lmdb")
    pack(tmp_path / "train.lmdb", None, verify=True)
    said = capsys.readouterr().out
    assert "1 images can't be decoded" in said
    assert "damaged coefficient record: its checksum" in said


def test_a_packer_that_loses_something_is_caught(source, tmp_path, monkeypatch):
    """The comparison is with the JPEG's coefficients, not with what the packer makes once more."""
    from train.data.coefficients import pack as packing

    real = packing.coefficients.decode

    def loses(data):
        picture = real(data)
        picture.blocks[0, 1] += 1
        return picture

    fake = type("coefficients", (), {"decode": staticmethod(loses)})
    monkeypatch.setattr(packing, "coefficients", fake)
    with pytest.raises(DataError, match="its coefficients are not the original's"):
        pack(source, tmp_path / "out", content="coefficients", verify=True)


@pytest.mark.parametrize("container", ["tar", "lmdb"])
def test_killed_it_goes_on_and_becomes_the_same(source, packs, tmp_path, monkeypatch, container):
    monkeypatch.setattr("train.pack.write.COMMIT_RECORDS", 3)
    asked = {"container": container, "content": "coefficients"}
    pack(source, tmp_path / "whole", **asked)

    def hook(number):
        real, left = SplitWriting._take, [number]

        def take(self, item):
            real(self, item)
            left[0] -= 1
            if left[0] == 0:
                die()

        SplitWriting._take = take

    for number in (2, 5, 9):
        assert pack_and_die(source, tmp_path / "cut", lambda number=number: hook(number), **asked)
    pack(source, tmp_path / "cut", **asked)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def test_a_pack_of_a_pack(packs, source, tmp_path):
    pack(packs / "lmdb", tmp_path / "again", container="tar", content="coefficients", verify=True)
    assert records(tmp_path / "again") == records(packs / "tar")
    pack(packs / "lmdb", tmp_path / "windows", content="windows", verify=True)
    keys = [key for key, _, _ in records(source)["train"]]
    found = open_sets(str(tmp_path / "windows")).train
    originals = open_sets(str(source)).train
    place = keys.index("dog/002.jpg")
    assert not is_record(found[place].data)
    assert np.array_equal(pixels_of(found[place].data), pixels_of(originals[place].data))
