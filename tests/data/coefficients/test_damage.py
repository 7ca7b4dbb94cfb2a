"""Whatever a record holds: nothing outside of its memory is touched, and what is bad is told."""

import numpy as np
import plain_packer
import pytest
from guarded import GuardedScratch, guarded
from mutations import mutated, originals
from rendered import boxes, jpeg, rendered

from train.data.coefficients import create
from train.data.coefficients import record as records
from train.data.coefficients import render as rendering
from train.data.coefficients.record import check_checksum, parse
from train.data.decode import decode, probe
from train.errors import BadSample

METHODS = rendering.METHODS


def test_mutated_records_between_guard_pages():
    """Each is rendered or refused; header checks of Python and of the kernel agree."""
    generator = np.random.default_rng(0)
    scratch = GuardedScratch(16 << 20)
    out = guarded(16 * 16 * 3).reshape(16, 16, 3)
    places = {len(record): guarded(len(record)) for record in originals()}
    found = {"rendered": 0, "refused header": 0, "refused data": 0}
    for turn in range(1500):
        for original in originals_():
            place = places[len(original)]
            place[:] = mutated(original, generator)
            fields = parse(original)
            box = boxes(fields.width, fields.height, turn)[turn % 8]
            task = rendering.Task(place, box, turn % 2 == 0, out)
            (reason,) = rendering.render([task], scratch, METHODS[turn % 3])
            seen = parsed(place)
            if isinstance(seen, str):
                assert reason == seen
                found["refused header"] += 1
                continue
            if (seen.width, seen.height) == (fields.width, fields.height):
                assert reason is None or "masks" in reason
            found["rendered" if reason is None else "refused data"] += 1
    assert min(found.values()) > 200, found


def parsed(record):
    """Its fields, or why there are none."""
    try:
        return parse(record)
    except BadSample as error:
        return str(error)


_originals = []


def originals_():
    """Made once."""
    if not _originals:
        _originals.extend(originals())
    return _originals


def test_a_damaged_block_matters_only_where_it_is_used():
    record = plain_packer.pack(jpeg(200, 30, "444"))
    plane = parse(record).planes[0]
    create.sections(record, plane).masks[-1] ^= np.uint64(4)
    left, right = boxes(200, 30)[0]._replace(width=100), boxes(200, 30)[0]._replace(x=150, width=50)
    rendered(record, left)
    with pytest.raises(BadSample, match="masks"):
        decode(record.tobytes(), probe(record.tobytes(), 1 << 20), right)


def test_the_checksum_finds_every_flipped_bit():
    record = plain_packer.pack(jpeg(16, 9, "420"))
    check_checksum(record)
    for bit in range(0, 8 * len(record), 3):
        record[bit // 8] ^= 1 << bit % 8
        with pytest.raises(BadSample):
            check_checksum(record)
        record[bit // 8] ^= 1 << bit % 8
    check_checksum(record.tobytes())


def test_a_newer_version_is_refused_with_what_to_do():
    record = plain_packer.pack(jpeg(16, 9))
    record[records.HEADER.fields["version"][1]] += 1
    for read in (parse, records.size_of, lambda data: probe(data.tobytes(), 1 << 20)):
        with pytest.raises(BadSample, match=r"version 2, this program reads version 1: update it"):
            read(record)


@pytest.mark.parametrize("size", [0, 8, 63, 64, 300, 1000])
def test_cut_off(size):
    data = plain_packer.pack(jpeg(30, 20)).tobytes()[:size]
    with pytest.raises(BadSample):
        probe(data, 1 << 20)


def test_the_layout_is_as_it_is_documented():
    assert (records.HEADER.itemsize, records.PLANE.itemsize) == (64, 192)
    record = plain_packer.pack(jpeg(61, 43), 3)
    header = record[:64].view(records.HEADER)[0]
    assert (header["width"], header["height"], header["size"]) == (61, 43, len(record))
    fields = parse(record)
    table = record[64 : int(header["header_size"])].view(records.PLANE)
    for row, plane in zip(table, fields.planes):
        assert [int(row[name]) for name in records.Plane._fields[:-1]] == list(plane[:-1])
        assert (row["quantiser"] == plane.quantiser).all()
    assert [(p.h, p.v, p.strips, p.blocks) for p in fields.planes] == [
        (2, 2, 8, 6), (1, 1, 4, 3), (1, 1, 4, 3),
    ]  # fmt: skip
    assert fields.orientation == 3
    assert not record[-records.TAIL :].any()
