"""What the measurements share: the first reading, the pack and where it differs."""

import json
import os

import pictures
import pytest

from train.bench import prepare
from train.bench.progress import Plan, Show
from train.data.sources import Subset
from train.data.sources.splits import open_splits
from train.errors import DataError
from train.machine import Measure
from train.pack import target
from train.pack.options import PackOptions
from train.pack.run import pack

CPUS = Measure("CPUs", 2, "test")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    return pictures.write_tree(tmp_path_factory.mktemp("data") / "tree")


@pytest.fixture(scope="module")
def packed(tree, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packs") / "pack"
    pack(PackOptions(str(tree), str(folder), content="original"), CPUS, look=False)
    return folder


def opened(path):
    return open_splits(str(path), 0.2, 42)


def show():
    return Show(Plan([], 1.0))


def test_all_is_read_once(tree):
    source = opened(tree).train
    warm = prepare.warm(source, "reading", lambda: False, show())
    assert warm == (len(source), sum(len(source[n].data) for n in range(len(source))), True)
    assert warm.words().startswith("warm: all ")


def test_reading_stops_at_what_memory_holds(tree, monkeypatch):
    source = opened(tree).train
    monkeypatch.setattr(prepare.machine, "memory_available_bytes", lambda: Measure("", 4000, ""))
    warm = prepare.warm(source, "reading", lambda: False, show())
    assert not warm.whole
    assert 0 < warm.records < len(source)
    assert warm.words().startswith(f"partly cold: {warm.records} images were read before")
    assert prepare.warm(source, "reading", lambda: True, show()).records == 0


def test_a_pack_says_what_it_is(packed, tmp_path):
    found = prepare.opened_pack(packed)
    assert (found.content, found.container, found.seconds) == ("original", "tar", None)
    assert found.size > 1000
    assert "packed in" not in found.words()
    record = tmp_path / "record.json"
    record.write_text(json.dumps({"seconds": 12.5}))
    assert (
        prepare.opened_pack(packed, record).words().endswith("packed in 12.5 s in an earlier run")
    )
    record.write_text("torn")
    assert prepare.opened_pack(packed, record).seconds is None
    assert prepare.opened_pack(tmp_path) is None


def test_where_a_pack_differs_is_told(tree, packed):
    data, same = opened(tree).train, opened(packed).train
    assert prepare.differences(data, same, "original") == []
    assert prepare.differences(data, same, "windows") == []
    assert "not quite those of the files" in prepare.differences(data, same, "raw")[0]
    fewer = Subset(same, range(3))
    assert "the pack has 3 training images" in prepare.differences(data, fewer, "windows")[0]
    turned = Subset(same, range(len(same))[::-1])
    assert "in another order" in prepare.differences(data, turned, "windows")[0]


def test_files_that_changed_get_a_pack_of_their_own(tree, tmp_path):
    import shutil

    folder = shutil.copytree(tree, tmp_path / "copy")
    before = prepare._fingerprint(opened(folder))
    assert prepare._fingerprint(opened(folder)) == before
    assert prepare._fingerprint(opened(tree)) != before
    path = next(folder.glob("*/*.jpg"))
    os.utime(path, ns=(1, 1))
    assert prepare._fingerprint(opened(folder)) != before


def test_a_pack_of_other_data_is_refused(tree, packed):
    data, same = opened(tree), opened(packed)
    prepare.refuse_other_data(data, same, packed)
    fewer = same._replace(train=Subset(same.train, range(3)))
    for other in (fewer, same._replace(classes=same.classes[1:])):
        with pytest.raises(DataError, match="a pack of other data; leave --packed out"):
            prepare.refuse_other_data(data, other, packed)


def test_images_that_packing_left_out_are_no_other_data(tree, packed, tmp_path):
    data, same = opened(tree), opened(packed)
    fewer = same._replace(train=Subset(same.train, range(1, len(same.train))))
    gone = {"key": "train: class/0.jpg", "index": 0, "kept": False}
    (tmp_path / target.LEDGER).write_text(json.dumps(gone) + "\n")
    prepare.refuse_other_data(data, fewer, tmp_path)
