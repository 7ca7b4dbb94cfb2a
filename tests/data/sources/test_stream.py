"""Shards streamed from a web server on this machine, and what must never run."""

import gzip
import http.server
import pickle
import random
import threading
from pathlib import Path

import numpy as np
import pytest
from tar_files import image, samples, write_tar
from torch.utils.data import DataLoader

from train.data.batch import Bad, Recipe
from train.data.sources import Record, remote
from train.data.sources.stream import Stream
from train.data.stream_batches import StreamBatches, identity
from train.errors import ConfigError, DataError

webdataset = pytest.importorskip("webdataset", reason="webdataset is missing")
RECIPE = Recipe(True, 8, 0.2, 0.5, 10**6, 3)


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves a folder; the path decides what goes wrong."""

    def do_GET(self):
        server = self.server
        server.asked.append(self.path)
        try:
            data = (server.folder / self.path.split("/")[-1]).read_bytes()
        except OSError:
            self.send_error(404)
            return
        if self.path.startswith("/busy/") and server.asked.count(self.path) < 3:
            self.send_error(503)
            return
        start = 0
        if "Range" in self.headers and not self.path.startswith("/stubborn/"):
            start = int(self.headers["Range"][len("bytes=") : -1])
            self.send_response(206)
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        breaks = self.path.startswith(("/breaking/", "/stubborn/"))
        end = start + 7000 if breaks else len(data)
        self.wfile.write(data[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch, deadline):
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(remote, "_PAUSE_S", 0.001)
    folder = tmp_path / "served"
    folder.mkdir()
    for shard in range(4):
        members = [(f"{shard}_{name}", data) for name, data in samples(6, 10 * shard)]
        write_tar(folder / f"a-{shard:06}.tar", members)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        served.folder, served.asked = folder, []
        served.address = f"http://127.0.0.1:{served.server_address[1]}"
        thread = threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield served
        served.shutdown()
        thread.join(10)


def keys(items):
    items = list(items)
    assert all(isinstance(item, Record) for item in items), items
    return [item.key for item in items]


EVERY = [f"{shard}_{number:06}" for shard in range(4) for number in range(6)]


def test_shards_of_a_server_are_read_in_order_without_a_buffer(server):
    stream = Stream(server.address + "/a-{000000..000003}.tar", buffer=0)
    records = list(stream.read())
    assert keys(records) == EVERY
    assert records[7].data == image(11)
    assert records[7].label == 1
    assert server.asked == [f"/a-{shard:06}.tar" for shard in range(4)]


def test_the_order_depends_on_seed_and_epoch_and_is_repeatable(server):
    address = server.address + "/a-{000000..000003}.tar"
    stream = pickle.loads(pickle.dumps(Stream(address, seed=1, buffer=5)))
    first = keys(stream.read(epoch=0))
    assert sorted(first) == EVERY != first
    assert keys(stream.read(epoch=0)) == first
    assert keys(stream.read(epoch=1)) != first
    assert keys(Stream(address, seed=2, buffer=5).read()) != first


def test_parts_share_the_shards_without_overlap(server):
    stream = Stream(server.address + "/a-{000000..000003}.tar", buffer=3)
    parts = [keys(stream.read(2, part, 3)) for part in range(3)]
    assert sorted(key for part in parts for key in part) == EVERY
    assert keys(stream.read(2, 4, 5)) == []


def test_a_connection_that_breaks_goes_on_where_it_broke(server):
    stream = Stream(f"{server.address}/breaking/a-000001.tar", buffer=0)
    assert keys(stream.read()) == EVERY[6:12]
    assert len(server.asked) > 1


def test_a_busy_server_is_asked_again(server):
    assert keys(Stream(f"{server.address}/busy/a-000001.tar", buffer=0).read()) == EVERY[6:12]
    assert len(server.asked) == 3


def test_what_is_lost_is_named_and_the_rest_is_read(server):
    stream = Stream(
        [
            f"{server.address}/stubborn/a-000000.tar",
            f"{server.address}/missing.tar",
            "/nowhere/b.tar",
            f"{server.address}/a-000002.tar",
        ],
        buffer=0,
    )
    items = list(stream.read())
    bad = [item for item in items if isinstance(item, Bad)]
    good = [item.key for item in items if isinstance(item, Record)]
    assert good[-6:] == EVERY[12:18]
    assert 0 < len(good) < 12
    reasons = {item.key.split("/")[-1]: item.reason for item in bad if "/" in item.key}
    assert "can't go on" in reasons["a-000000.tar"]
    assert reasons["missing.tar"] == "HTTP 404 Not Found"
    assert reasons["b.tar"] == "No such file or directory"
    with pytest.raises(DataError, match=r"none of the 1 shards .*missing\.tar.*404"):
        list(Stream(f"{server.address}/missing.tar").read())


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(DataError, match=r"none of the 1 shards"):
        list(Stream("file:///nowhere.tar").read())


def test_compressed_shards_and_file_addresses(server, tmp_path):
    plain = server.folder / "a-000000.tar"
    packed = tmp_path / "b 1.tar.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert keys(Stream(str(packed), buffer=0).read()) == EVERY[:6]
    address = "file://" + str(packed).replace(" ", "%20")
    assert keys(Stream(address, buffer=0).read()) == EVERY[:6]


def test_damaged_samples_and_files_are_bad_and_named(tmp_path):
    members = [
        *samples(1),
        ("no_image.cls", b"1"),
        ("bad.jpg", b"x"),
        ("bad.cls", b"abc"),
        ("far.jpg", b"x"),
        ("far.cls", b"99"),
        ("../out.jpg", b"x"),
        ("v1/22.05.jpg", b"x"),
        ("v1/22.05.cls", b"1"),
        ("v1/22.06.jpg", b"y"),
        ("v1/22.06.cls", b"2"),
    ]
    path = write_tar(tmp_path / "a.tar", members)
    (tmp_path / "b.tar").write_bytes(b"<html>" * 500)
    (tmp_path / "c.tar").write_bytes(b"")
    (tmp_path / "d.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:700])
    paths = [path, *(str(tmp_path / f"{name}.tar") for name in "bcd")]
    items = list(Stream(paths, buffer=0, num_classes=3).read())
    assert [item.key for item in items if isinstance(item, Record)] == [
        "000000",
        "v1/22.05",
        "v1/22.06",
    ]
    bad = {item.key: item.reason for item in items if isinstance(item, Bad)}
    assert set(bad) == {"no_image", "bad", "far", *paths[1:]}
    assert "0 to 2" in bad["far"]


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("pipe:touch {}", "would run a command"),
        ("PIPE:touch {}", "would run a command"),
        ("gs://bucket/'; touch {} #.tar", "can't have"),
        ("s3://bucket/a.tar", "unknown kind of address 's3'"),
        ("a-{{0..9.tar", "a-{0..9.tar"),
        ("a-{{0..99999999999}}.tar", "more than 1,000,000"),
        ("http://[::1/a.tar", "no address"),
    ],
)
def test_addresses_that_are_refused(tmp_path, address, text):
    trap = tmp_path / "trap"
    with pytest.raises(ConfigError, match=text):
        Stream(address.format(trap))
    assert not trap.exists()
    with pytest.raises(ConfigError, match="no shards"):
        Stream([])


def test_a_pipe_runs_when_the_user_trusts_it(tmp_path):
    path = write_tar(tmp_path / "a.tar", samples(2))
    assert keys(Stream(f"pipe:cat {path}", buffer=0, trust=True).read()) == ["000000", "000001"]


def test_a_quote_in_an_http_address_reaches_no_shell(server, tmp_path):
    trap = tmp_path / "trap"
    with pytest.raises(DataError):
        list(Stream(f"{server.address}/';touch$IFS{trap};'.tar").read())
    assert not trap.exists()


def test_pickles_of_a_stream_are_left_alone(tmp_path):
    path = write_tar(tmp_path / "a.tar", [("a.jpg", b"x"), ("a.pyd", pickle.dumps(1))])
    [item] = Stream(path, buffer=0).read()
    assert "data.trust=code" in item.reason
    [item] = Stream(path, buffer=0, trust=True).read()
    assert (item.key, item.label, item.data) == ("a", 1, b"x")


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_of_a_stream(server, workers):
    stream = Stream(server.address + "/a-{000000..000003}.tar", buffer=4)
    data = StreamBatches(stream, RECIPE, batch_size=5)
    loader = DataLoader(data, batch_size=None, num_workers=workers, collate_fn=identity)
    batches = list(loader)
    assert sum(len(batch.labels) for batch in batches) == 24
    assert all(batch.images.shape[1:] == (8, 8, 3) for batch in batches)
    assert all(batch.bad == () for batch in batches)
    again = list(loader)
    assert all(np.array_equal(a.images, b.images) for a, b in zip(batches, again))
    data.epoch = 1
    assert not all(np.array_equal(a.images, b.images) for a, b in zip(batches, loader))


def test_a_bad_image_of_a_stream_is_substituted_and_named(tmp_path):
    members = samples(4) + [("bad.jpg", b"no image"), ("bad.cls", b"1"), ("lost.jpg", b"")]
    stream = Stream(write_tar(tmp_path / "a.tar", members), buffer=0)
    [batch] = StreamBatches(stream, RECIPE, batch_size=10)
    assert len(batch.labels) == 5
    assert {item.key for item in batch.bad} == {"bad", "lost"}
    assert {item.sample for item in batch.bad} == {-1}
    with pytest.raises(ConfigError, match="1 shards can't be dealt out to 2 ranks"):
        StreamBatches(stream, RECIPE, 4, world_size=2)


def test_damage_never_crashes_hangs_or_takes_memory(tmp_path, deadline):
    whole = Path(write_tar(tmp_path / "a.tar", samples(3))).read_bytes()
    draw = random.Random(0)
    for number in range(150):
        data = bytearray(whole[:6144])
        if number % 4 == 0:
            del data[draw.randrange(1, len(data)) :]
        elif number % 4 == 1:  # a size of -512, with a right checksum: Python's own trap
            head = data[:512]
            head[124:136] = b"\xff" * 10 + b"\xfe\x00"
            head[148:156] = b" " * 8
            head[148:156] = b"%06o\0 " % sum(head)
            data[:512] = head
        for _ in range(draw.randrange(3)):
            data[min(512 * draw.randrange(12) + draw.randrange(160), len(data) - 1)] ^= 1 << 6
        (tmp_path / "b.tar").write_bytes(data)
        for item in Stream(str(tmp_path / "b.tar"), buffer=0).read():
            assert isinstance(item, Bad) or len(item.data) <= len(data)
