import json
import subprocess
import sys
from pathlib import Path

import cold
import limit
import loaders
import make_pictures
import memory
import pytest
from PIL import Image
from race import data as race_data

from train.data.sources import tfrecord

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Five generated pictures in two classes."""
    folder = tmp_path_factory.mktemp("files")
    for number in (0, 1, 15, 18, 19):
        picture = make_pictures.make_image(0, number % 10, number, 120)
        path = folder / ("even" if number % 2 == 0 else "odd") / f"{number}.jpg"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(make_pictures.encode(picture, number))
    return folder


def test_pictures_are_of_the_kinds_that_photographs_are(files):
    about = {}
    for path in files.glob("*/*.jpg"):
        with Image.open(path) as image:
            about[path.stem] = image.mode, image.layer[0][1:3]
    assert about["19"][0] == "L"
    assert about["0"] == ("RGB", (1, 1))
    assert about["15"] == ("RGB", (2, 2))


def test_few_files_are_repeated_as_copies(files, tmp_path):
    folder, described = race_data.prepare(race_data.find_jpegs(files), "few", 12, tmp_path)
    train = sorted((folder / "full" / "train").glob("*/*.jpg"))
    assert len(train) == 12
    assert len({path.stat().st_ino for path in train}) == 12
    assert {path.parent.name for path in train} == {"even", "odd"}
    assert len(list((folder / "full" / "val").glob("*/*.jpg"))) == 2
    assert described["full"]["files"] == 12
    assert described["full"]["kinds"]["grey"] == 2
    # small pictures are not enlarged
    assert described["short256"]["pixels"] == described["full"]["pixels"]
    assert race_data.prepare(race_data.find_jpegs(files), "few", 12, tmp_path)[0] == folder


def test_the_short_side_is_shortened(tmp_path):
    source, target = tmp_path / "a.jpg", tmp_path / "b.jpg"
    Image.new("L", (600, 300)).save(source)
    race_data._shorten(source, target)
    with Image.open(target) as image:
        assert image.size == (512, 256)
        assert image.layer[0][1:3] == (2, 2)


def test_a_folder_without_pictures_is_refused(tmp_path, capsys):
    assert loaders.main(["--data", str(tmp_path), "--work", str(tmp_path / "work")]) == 2
    assert "holds no .jpg or .jpeg file" in capsys.readouterr().err
    assert loaders.main(["--data", str(tmp_path / "x"), "--work", str(tmp_path / "work")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_a_packs_bytes_are_those_of_its_training_part(tmp_path):
    (tmp_path / "train-000000.tar").write_bytes(bytes(100))
    (tmp_path / "train-000000.tar.index").write_bytes(bytes(10))
    (tmp_path / "val-000000.tar").write_bytes(bytes(1000))
    assert race_data.bytes_of(tmp_path) == 110
    assert race_data.bytes_of(tmp_path / "val-000000.tar") == 1000


@pytest.mark.parametrize("name", ["loaders", "limit", "cold", "memory", "make_pictures"])
def test_help_teaches(name):
    command = [sys.executable, str(ROOT / "benchmarks" / f"{name}.py"), "--help"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True)
    assert "usage:" in shown.stdout
    assert "--count" in shown.stdout or name == "limit"


def test_the_machines_limits(files, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(limit, "COPY_BYTES", 1 << 20)
    monkeypatch.setattr(limit, "DISK_BYTES", 8 << 20)
    rates = limit.disk_rates(tmp_path, 2, size=8 << 20)
    assert [threads for _, threads, _, _ in rates] == [1, 1, 2, 1, 2]
    assert all(rate > 0 for _, _, rate, _ in rates)
    assert {how for *_, how in rates} <= {"fsync", "O_DIRECT", "posix_fadvise DONTNEED"}
    assert limit.main(["--data", str(files), "--seconds", "0.01", "--no-disk"]) == 0
    shown = capsys.readouterr().out
    assert "5 pictures of" in shown
    assert "decode, 1 thread(s)" in shown
    assert "memory copy, 1 thread(s)" in shown


def test_a_race_of_ours_against_the_limit(files, tmp_path, capsys):
    work, out = tmp_path / "work", tmp_path / "out"
    options = ["--data", str(files), "--count", "64", "--rounds", "1", "--seconds", "0.05"]
    options += ["--workers", "1", "--only", "ours-threads"]
    assert loaders.main([*options, "--work", str(work), "--prepare"]) == 0
    assert "2 arms are ready, 0 can't run here" in capsys.readouterr().out
    assert loaders.main([*options, "--work", str(work), "--out", str(out)]) == 0
    shown = capsys.readouterr().out
    assert "the JPEG files, threads" in shown
    assert "Not run" not in shown
    document = json.loads(next(out.glob("*.json")).read_text())
    (ours,) = [row for row in document["rows"] if row["arm"]["name"] == "ours-threads"]
    assert ours["output"] == "uint8 NHWC"
    assert ours["of_limit"] > 0
    assert ours["kb_an_image"] > 0
    assert document["machine"]["CPUs"]
    assert next(out.glob("*.png")).read_bytes().startswith(b"\x89PNG")


def test_an_index_can_name_its_records_over_and_over(files, tmp_path):
    path = tmp_path / "train-00000.tfrecord"
    images = [file.read_bytes() for file in sorted(files.glob("*/*.jpg"))]
    records = [
        tfrecord.encode_record(image, number, b"%d.jpg" % number)
        for number, image in enumerate(images)
    ]
    path.write_bytes(b"".join(records))
    memory.tile_index(path, 12)
    source = tfrecord.open_tfrecord([str(path)]).source
    assert len(source) == 12
    assert source.labels.tolist() == [0, 1, 2, 3, 4] * 2 + [0, 1]
    assert bytes(source[7].data) == images[2]
    assert len({source.key(number) for number in range(12)}) == 12


def test_without_root_a_packs_own_files_are_dropped(files, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(cold, "open", refuse, raising=False)
    assert cold.drop_caches(files) == "posix_fadvise"


def test_the_list_of_arms_fits_a_terminal_of_eighty_columns(capsys):
    assert loaders.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("* limit ") for line in lines)
    assert any(line.startswith("  short256 ") for line in lines)
