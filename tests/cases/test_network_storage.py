"""Data on a network disk: an LMDB file is read by position, and what else is advised."""

import dataclasses
import sys
from pathlib import Path

import packing
import pictures
import pytest

from train.data.sources.open import open_sets
from train.doctor.environment_checks import check_disk
from train.doctor.machine_facts import read_machine
from train.machine import Measure, usable_cpus


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lmdb")
    pictures.write_tree(folder / "source/train", count=3)
    pictures.write_tree(folder / "source/val", count=1, seed=5)
    packing.pack(folder / "source", folder / "pack", container="lmdb", content="original")
    return folder / "pack"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_lmdb_file_is_neither_mapped_nor_locked(database):
    """A mapping on a network disk comes page by page, and its lock is none between machines."""
    source = open_sets(str(database)).train
    before = {path: path.stat().st_mtime_ns for path in database.rglob("*.mdb")}
    records = [source[index] for index in range(len(source))]
    assert all(record.data for record in records)
    mapped = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    names = {line.split(maxsplit=5)[-1] for line in mapped}
    assert str(database / "train.lmdb/data.mdb.index") in names  # ours, read in order
    assert str(database / "train.lmdb/data.mdb") not in names
    assert {path: path.stat().st_mtime_ns for path in database.rglob("*.mdb")} == before
    assert [path.name for path in before] == ["data.mdb", "data.mdb"]  # and no lock.mdb


def test_a_network_disk_is_a_finding_with_tar_shards_as_its_mend():
    seen = dataclasses.replace(
        read_machine(usable_cpus(), None),
        disk=Measure("disk", "network", "nfs4 at /data from server:/data"),
        free_bytes=100 << 30,
    )
    (finding,) = check_disk(seen)
    assert "each file is a round trip" in finding.evidence
    assert "nfs4 at /data" in finding.evidence
    assert "train pack DIR OUT --container tar" in finding.mend
    local = dataclasses.replace(seen, disk=Measure("disk", "hard disk", "sda"))
    assert "--container tar" not in check_disk(local)[0].mend
