"""What becomes of each image, and that nothing is lost on the way."""

import io

import numpy as np
import pictures
import pytest
import simplejpeg
from packing import CONTAINERS, files, ledger, marker, pack, records, write_source
from PIL import Image

from train.data.batch import Batches, Recipe
from train.data.sampler import BatchRequest
from train.data.sources.open import open_sets
from train.errors import ConfigError
from train.pack.contents import convert, pixels_of
from train.pack.options import PackOptions


def options(content, **more):
    return PackOptions("", "", content=content, **more)


def opened(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize("kind", sorted(pictures.kinds_of_jpeg()))
def test_windows_keep_every_pixel(kind):
    data = pictures.kinds_of_jpeg()[kind]
    made = convert(data, options("windows"))
    assert (made.way, made.reason, made.ending) == ("windows", "", None)
    assert made.data != data
    assert np.array_equal(opened(made.data), opened(data))
    assert np.array_equal(pixels_of(made.data), pixels_of(data))


def test_what_can_have_no_windows_stays_as_it_is():
    cmyk = pictures.encode(Image.new("CMYK", (40, 30), (10, 200, 30, 0)))
    made = convert(cmyk, options("windows"))
    assert (made.data, made.way, made.bad) == (cmyk, "kept", False)
    assert made.reason


@pytest.mark.parametrize("content", ["windows", "jpeg", "raw"])
@pytest.mark.parametrize("damage", [b"", b"no image", "half"])
def test_a_damaged_image_stays_as_it_is_and_is_told(content, damage):
    if damage == "half":
        whole = pictures.encode(pictures.scene(90, 70))
        damage = whole[: len(whole) // 2]
    made = convert(damage, options(content))
    assert (made.data, made.way, made.bad, made.ending) == (damage, "kept", True, None)
    assert made.reason
    assert not convert(damage, options("original")).bad  # nobody looked


def test_a_png_becomes_a_jpeg_with_windows():
    pixels = pictures.scene(64, 48)
    made = convert(pictures.encode(pixels, "PNG"), options("windows", quality=95))
    assert (made.way, made.ending) == ("encoded", ".jpg")
    assert np.abs(opened(made.data).astype(int) - pixels).mean() < 6
    assert made.data != convert(pictures.encode(pixels, "PNG"), options("jpeg", quality=95)).data


@pytest.mark.parametrize("content", ["jpeg", "windows", "raw"])
def test_scaled_down_never_up_and_upright(content):
    stored = pictures.turned(pictures.marked(96, 60), 6)
    data = pictures.encode(stored, quality=95, exif=pictures.exif(6))
    small = convert(data, options(content, short_side=30))
    assert opened(small.data).shape == (30, 48, 3)
    assert opened(small.data)[3, 3, 0] > 150  # red is top left again
    assert not Image.open(io.BytesIO(small.data)).getexif()
    large = convert(data, options(content, short_side=1000))
    assert opened(large.data).shape == (60, 96, 3)


def test_scaling_is_antialiased():
    stripes = np.zeros((128, 128, 3), np.uint8)
    stripes[:, ::2] = 255
    made = convert(pictures.encode(stripes, "PNG"), options("raw", short_side=32))
    assert np.abs(opened(made.data).astype(int) - 127).max() <= 40


def test_raw_is_a_ppm_of_the_very_pixels():
    data = pictures.encode(pictures.scene(33, 20))
    made = convert(data, options("raw"))
    assert made.data.startswith(b"P6\n33 20\n255\n")
    assert np.array_equal(opened(made.data), simplejpeg.decode_jpeg(data))


def test_options_without_effect_are_refused():
    for content, more in (
        ("original", {"short_side": 256}),
        ("original", {"quality": 80}),
        ("raw", {"quality": 80}),
    ):
        with pytest.raises(ConfigError, match="--content"):
            options(content, **more)


@pytest.mark.parametrize("content", ["original", "windows", "coefficients", "jpeg", "raw"])
def test_the_same_batches_from_every_container(tmp_path, content):
    source = write_source(tmp_path / "source", count=3)
    recipe = Recipe(True, 32, 0.08, 0.5, 10**8, 0)
    request = BatchRequest(1, 0, np.arange(8))
    batches = []
    for container in CONTAINERS:
        pack(source, tmp_path / container, container=container, content=content)
        sets = open_sets(str(tmp_path / container))
        batch = Batches(sets.train, recipe).__getitems__(request)
        batches.append((np.asarray(batch.images).tobytes(), np.asarray(batch.labels).tolist()))
    assert all(batch == batches[0] for batch in batches)
    if content in ("original", "windows"):  # nothing is lost, so it trains as before
        batch = Batches(open_sets(str(source)).train, recipe).__getitems__(request)
        # cat/below/it/x.png, encoded under windows, is not among the first eight
        assert np.asarray(batch.images).tobytes() == batches[0][0]


@pytest.mark.parametrize("container", CONTAINERS)
def test_bad_images_are_kept_and_listed(tmp_path, container):
    source = write_source(tmp_path / "source")
    (source / "train/bird/001.jpg").write_bytes(b"")
    half = (source / "train/dog/002.jpg").read_bytes()[:200]
    (source / "train/dog/002.jpg").write_bytes(half)
    pack(source, tmp_path / "out", container=container, content="jpeg")
    assert [(entry["key"], entry["kept"]) for entry in ledger(tmp_path / "out")] == [
        ("train:bird/001.jpg", True),
        ("train:dog/002.jpg", True),
    ]
    assert marker(tmp_path / "out")["counts"]["bad"] == 2
    packed = open_sets(str(tmp_path / "out")).train
    assert len(packed) == len(open_sets(str(source)).train)
    keys = [packed.key(number) for number in range(len(packed))]
    assert bytes(packed[keys.index("dog/002.jpg")].data) == half


def test_what_can_not_be_read_is_left_out_and_listed(tmp_path, monkeypatch):
    from train.data.sources.folder import FolderSource

    source = write_source(tmp_path / "source")
    real = FolderSource.__getitem__

    def fails(self, index):
        if self.key(index) == "cat/003.jpg":
            raise OSError(5, "Input/output error")
        return real(self, index)

    monkeypatch.setattr(FolderSource, "__getitem__", fails)
    pack(source, tmp_path / "out", content="original")
    entries = ledger(tmp_path / "out")
    assert [(entry["key"], entry["kept"]) for entry in entries] == [
        ("train:cat/003.jpg", False),
        ("val:cat/003.jpg", False),
    ][: len(entries)]
    assert "Input/output error" in entries[0]["reason"]
    keys = [key for key, _, _ in records(tmp_path / "out")["train"]]
    assert "cat/003.jpg" not in keys
    assert "cat/004.jpg" in keys


def test_a_disk_that_is_gone_does_not_become_an_empty_pack(tmp_path, monkeypatch):
    from train.data.sources.folder import FolderSource
    from train.errors import SetupError

    source = write_source(tmp_path / "source")

    def gone(self, index):
        raise OSError(107, "Transport endpoint is not connected")

    monkeypatch.setattr(FolderSource, "__getitem__", gone)
    with pytest.raises(SetupError, match="is the source's disk still there"):
        pack(source, tmp_path / "out", content="original")
    assert not (tmp_path / "out").exists()


def test_one_thread_or_many_give_the_same(tmp_path):
    source = write_source(tmp_path / "source")
    for workers in (1, 7):
        pack(source, tmp_path / str(workers), content="jpeg", short_side=30, workers=workers)
    assert files(tmp_path / "1") == files(tmp_path / "7")
