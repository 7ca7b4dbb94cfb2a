"""Makes containers of the kinds that people really have, sound and damaged, with a manifest.

An entry says where a file is, how many usable samples it has (`samples`), and what should happen.
"""

import gzip
import os
import tarfile

import container_files as files
import h5py
import numpy as np
import pictures


def write(folder):
    """Make tar/, tfrecord/, hdf5/ and lmdb/ below `folder`; returns the manifest's entries."""
    for name in ("tar", "tfrecord", "hdf5", "lmdb"):
        (folder / name).mkdir()
    entries = []
    for make in (_tars, _damaged_tars, _tfrecords, _hdf5s, _lmdbs):
        for path, samples, behaviour in make(folder):
            size = {"bytes": (folder / path).stat().st_size} if (folder / path).is_file() else {}
            entry = {"path": path, "samples": samples, "behaviour": behaviour, **size}
            entries.append(entry)
    for entry in entries:
        if entry["path"] in ("tar/gzip_named.tar", "hdf5/channels_first.h5"):
            entry["also_ok"] = "clear error"
    return entries


def samples(count, classes=3):
    """Small JPEGs of three colours."""
    colours = list(pictures.COLOURS.values())
    return [
        (f"{n:06d}", n % classes, pictures.encode(pictures.tinted(colours[n % 3], 32, 24, n)))
        for n in range(count)
    ]


def _tars(folder):
    files.write_tar(folder / "tar/ok-000000.tar", samples(8, 1))
    yield "tar/ok-000000.tar", 8, "8 samples"
    files.write_tar(folder / "tar/ok-000001.tar", samples(3, 1))
    yield "tar/ok-000001.tar", 3, "3 samples; uneven with ok-000000"
    with tarfile.open(folder / "tar/missing_image.tar", "w") as file:
        for key, label, data in samples(5):
            if key != "000003":
                files.add_member(file, f"{key}.jpg", data)
            files.add_member(file, f"{key}.cls", b"%d" % label)
    yield "tar/missing_image.tar", 4, "000003 has no image: skip it by name"
    with tarfile.open(folder / "tar/dotted_keys.tar", "w") as file:
        for key, label, data in samples(2):
            files.add_member(file, f"a.b/v1.0.{key}.jpg", data)
            files.add_member(file, f"a.b/v1.0.{key}.cls", b"%d" % label)
    yield "tar/dotted_keys.tar", 2, "dots in folder and file name: 2 samples or a clear refusal"
    with tarfile.open(folder / "tar/bad_label.tar", "w") as file:
        for (key, _, data), label in zip(samples(3), (b"abc", b"99", b"1\n")):
            files.add_member(file, f"{key}.jpg", data)
            files.add_member(file, f"{key}.cls", label)
    yield "tar/bad_label.tar", 1, "'abc' and 99 are refused by key; '1\\n' is fine"
    with tarfile.open(folder / "tar/unsafe_names.tar", "w") as file:
        key, label, data = samples(1)[0]
        files.add_member(file, "../evil.jpg", data)
        files.add_member(file, "../evil.cls", b"0")
        files.add_member(file, "/abs.jpg", data)
        files.add_member(file, "link.jpg", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")
        files.add_member(file, f"{key}.jpg", data)
        files.add_member(file, f"{key}.cls", b"%d" % label)
    yield "tar/unsafe_names.tar", 1, "nothing is written outside; odd members skipped"
    with tarfile.open(folder / "tar/macos_dots.tar", "w") as file:
        files.add_member(file, "._000000.jpg", b"\0\5\x16\7" * 9)
        files.add_member(file, ".DS_Store", b"?" * 30)
        files.add_member(file, "000000.jpg", data)
        files.add_member(file, "000000.cls", b"0")
    yield "tar/macos_dots.tar", 1, "ignore ._ and .DS_Store members"


def _damaged_tars(folder):
    whole = folder / "tar/gzip_named.tar"
    files.write_tar(whole, samples(6))
    raw = whole.read_bytes()
    end = len(raw.rstrip(b"\0"))
    (folder / "tar/no_end_blocks.tar").write_bytes(raw[: -(-end // 512) * 512])
    yield "tar/no_end_blocks.tar", 6, "end-of-archive blocks missing"
    whole.write_bytes(gzip.compress(raw))
    yield "tar/gzip_named.tar", 6, "gzip data called .tar"
    (folder / "tar/zero_byte.tar").write_bytes(b"")
    yield "tar/zero_byte.tar", 0, "named error / skip, no hang"
    files.write_tar(folder / "tar/empty_archive.tar", [])
    yield "tar/empty_archive.tar", 0, "valid but no samples: warn"


def _tfrecords(folder):
    parts = [files.record(files.example(*sample)) for sample in samples(6)]
    whole = b"".join(parts)

    def put(name, data):
        (folder / "tfrecord" / f"{name}.tfrecord").write_bytes(data)
        return f"tfrecord/{name}.tfrecord"

    yield put("ok", whole), 6, "6 samples"
    at = len(b"".join(parts[:3])) + 8
    broken = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    yield put("bad_length_crc", broken), 3, "length checksum fails at record 3: stop there"
    cut = b"".join(parts[:4]) + parts[4][:40]
    yield put("truncated", cut), 4, "4 samples, then a named warning"
    huge = parts[0] + files.record(b"", 1 << 40)[:14]
    yield put("huge_length", huge), 1, "says 1 TiB: do not allocate"
    yield put("zero_byte", b""), 0, "0 samples, warn"
    key, _, data = samples(1)[0]
    unlabelled = parts[0] + files.record(files.example(key, None, data))
    yield put("no_label", unlabelled), 1, "record 1 has no label: skip by index"


def _hdf5s(folder):
    pixels = np.stack([pictures.scene(32, 24, seed) for seed in range(8)])
    labels, chunk = np.arange(8) % 3, (1, 24, 32, 3)
    files.write_pixels(folder / "hdf5/ok.h5", pixels, labels, chunks=chunk)
    yield "hdf5/ok.h5", 8, "8 samples; works with 0, 1, 4 workers, fork and spawn, same pixels"
    first = np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
    files.write_pixels(folder / "hdf5/channels_first.h5", first, labels, chunks=(1, 3, 24, 32))
    yield "hdf5/channels_first.h5", 8, "NCHW: handle or refuse, never a 24-channel image"
    (folder / "hdf5/zero_byte.h5").write_bytes(b"")
    yield "hdf5/zero_byte.h5", 0, "named error"
    with h5py.File(folder / "hdf5/ok.h5") as file:
        assert file["images"].shape == pixels.shape


def _lmdbs(folder):
    whole = files.lmdb_values(samples(8))

    def put(name, **changes):
        changed = {key.encode(): value for key, value in changes.items()}
        files.put_lmdb(folder / "lmdb" / name, {**whole, **changed})
        return f"lmdb/{name}"

    yield put("ok"), 8, "8 samples"
    yield put("len_too_big", __len__=b"10"), 8, "__len__ says 10, 8 stored"
    yield put("empty_value", **{"00000003": b""}), 7, "value 3 empty: skip by key"
    cut = whole[b"00000003"][:60]
    yield put("corrupt_image", **{"00000003": cut}), 7, "value 3 truncated: skip by key"
    path = put("truncated_mdb")
    file = folder / path / "data.mdb"
    os.truncate(file, file.stat().st_size // 2 // 4096 * 4096)
    yield path, 0, "data.mdb cut in half: reading beyond the end is SIGBUS"
