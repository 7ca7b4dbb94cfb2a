"""Checkpoint files: sealed, the last two good ones kept, a damaged one recognised."""

import errno
import io
import os
import random

import pytest
import torch

import train.files
from train import checkpoint_file
from train.checkpoint_file import Rotation, is_sealed, load, pack, unpack
from train.errors import CheckpointError, SetupError


def content(number):
    return {"model": {"weight": torch.arange(3000.0) + number}, "step": number}


def step(path):
    return load(path)["step"]


@pytest.fixture
def said():
    return []


@pytest.fixture
def rotation(tmp_path):
    return Rotation(tmp_path)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_sealed_file_is_one_that_torch_reads(tmp_path):
    path = tmp_path / "last.pt"
    path.write_bytes(pack(content(7)))
    assert is_sealed(path.read_bytes())
    assert torch.load(path, weights_only=True)["step"] == 7
    found = load(path)
    assert torch.equal(found["model"]["weight"], content(7)["model"]["weight"])


def test_no_damage_passes(tmp_path):
    """Bits flipped and ends cut off anywhere, with a fixed seed."""
    whole, draw = pack(content(1)), random.Random(5)
    for _ in range(300):
        damaged = bytearray(whole)
        if draw.random() < 0.5:
            del damaged[draw.randrange(len(damaged)) :]
        else:
            damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
        with pytest.raises(CheckpointError, match=r"torn or no checkpoint|has format"):
            unpack(bytes(damaged), tmp_path)


def test_a_flipped_bit_that_pytorch_would_not_notice(tmp_path):
    whole = bytearray(pack(content(1)))
    position = whole.index(torch.arange(3000.0).add(1).numpy().tobytes()[40:80])
    whole[position] ^= 1
    assert torch.load(io.BytesIO(whole), weights_only=True)["step"] == 1
    with pytest.raises(CheckpointError, match="its checksum is wrong"):
        unpack(bytes(whole), tmp_path)


def test_files_of_the_first_format_are_read(tmp_path):
    old = io.BytesIO()
    torch.save({"format": 1, "step": 3}, old)
    assert unpack(old.getvalue(), tmp_path)["step"] == 3
    unsealed = io.BytesIO()
    torch.save({"format": 2, "step": 3}, unsealed)
    with pytest.raises(CheckpointError, match="its checksum is missing"):
        unpack(unsealed.getvalue(), tmp_path)
    later = io.BytesIO()
    torch.save({"format": 99}, later)
    with pytest.raises(CheckpointError, match="has format 99, this version reads formats up to"):
        unpack(later.getvalue(), tmp_path)


def test_nothing_in_it_runs_code(tmp_path):
    import pickle

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    memory = io.BytesIO()
    torch.save({"format": 2, "step": Evil()}, memory)
    checkpoint_file.seal(memory)
    for data in (memory.getvalue(), pickle.dumps(Evil())):
        with pytest.raises(CheckpointError):
            unpack(data, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_the_last_two_are_kept(tmp_path, rotation, said):
    for number in range(1, 4):
        rotation.write(pack(content(number)), is_best=number == 2)
    assert names(tmp_path) == ["best.pt", "last.pt", "previous.pt"]
    assert (step(rotation.last), step(rotation.previous), step(rotation.best)) == (3, 2, 2)
    path, data = rotation.read(said.append)
    assert (path, unpack(data, path)["step"], said) == (rotation.last, 3, [])


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "empty"])
def test_the_one_before_is_taken_and_never_given_up_for_a_damaged_one(
    tmp_path, rotation, said, damage
):
    for number in (1, 2):
        rotation.write(pack(content(number)))
    data = bytearray(rotation.last.read_bytes())
    rotation.last.unlink()  # previous.pt may be the same file by a hard link
    if damage == "cut":
        del data[-100:]
    elif damage == "flipped":
        data[len(data) // 2] ^= 4
    elif damage == "empty":
        data.clear()
    if damage != "gone":
        rotation.last.write_bytes(bytes(data))
    later = Rotation(tmp_path)  # of a new process
    path, found = later.read(said.append)
    assert unpack(found, path)["step"] == 1
    assert len(said) == 1
    assert f"going on from the one before it, {later.previous}" in said[0]
    later.write(pack(content(3)))
    assert (step(later.last), step(later.previous)) == (3, 1)  # not the damaged one
    later.write(pack(content(4)))
    assert (step(later.last), step(later.previous)) == (4, 3)


def test_when_none_is_good_all_reasons_are_told(tmp_path, rotation, said):
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*last\.pt"):
        rotation.read(said.append)
    for number in (1, 2):
        rotation.write(pack(content(number)), is_best=number == 1)
    for path in (rotation.last, rotation.previous):
        path.unlink()
        path.write_bytes(b"PK")
    with pytest.raises(CheckpointError, match=r"last\.pt.*previous\.pt.*best\.pt may still be"):
        rotation.read(said.append)


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "none here"])
def test_at_every_moment_a_good_one_has_a_name(tmp_path, monkeypatch, links):
    """A process that dies at any call to the system leaves a whole checkpoint behind."""
    calls = ["fsync", "link", "replace"]
    real = {name: getattr(os, name) for name in calls}
    if not links:

        def no_links(*paths):
            raise OSError(errno.EPERM, "not permitted")

        real["link"] = no_links

    class Died(BaseException):
        pass

    fatal = count = 0

    def counted(name):
        def call(*words, **options):
            nonlocal count
            count += 1
            if count == fatal:
                raise Died
            return real[name](*words, **options)

        return call

    while fatal < 12:
        fatal, count = fatal + 1, 0
        folder = tmp_path / str(fatal)
        folder.mkdir()
        rotation = Rotation(folder)
        for name in calls:
            monkeypatch.setattr(os, name, real[name])
        rotation.write(pack(content(1)))
        for name in calls:
            monkeypatch.setattr(os, name, counted(name))
        try:
            rotation.write(pack(content(2)), is_best=True)
        except Died:
            pass
        for name in calls:
            monkeypatch.setattr(os, name, real[name])
        path, data = Rotation(folder).read(lambda text: None)
        assert unpack(data, path)["step"] in (1, 2)


def test_what_a_killed_process_left_is_removed(tmp_path, rotation):
    rotation.write(pack(content(1)))
    (tmp_path / ".last.pt.123.part").write_bytes(b"half")
    (tmp_path / ".last.pt.123.link").write_bytes(b"half")  # it holds as much room
    rotation.tidy()
    assert names(tmp_path) == ["last.pt"]


def test_a_full_disk_keeps_what_is_there(tmp_path, rotation, monkeypatch):
    for number in (1, 2):
        rotation.write(pack(content(number)))

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(train.files.os, "fsync", full)
    with pytest.raises(SetupError, match="the disk is full"):
        rotation.write(pack(content(3)), is_best=True)
    assert names(tmp_path) == ["last.pt", "previous.pt"]
    assert (step(rotation.last), step(rotation.previous)) == (2, 1)


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_read_only_folder_is_refused_at_the_start(rotation, monkeypatch, number):
    from pathlib import Path

    def refuse(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    with pytest.raises(SetupError, match="nothing that this run computes could be saved"):
        rotation.refuse_if_unwritable()
