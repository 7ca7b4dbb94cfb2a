"""`train fit` on several ranks: resume at another number, ends, signals, bad samples, orphans."""

import json
import os
import re
import signal
from collections import Counter

import pytest
import ranks
import torch
from processes import alive, children, wait_until
from small_run import arguments, assert_same_weights, make_images

pytestmark = pytest.mark.usefixtures("deadline")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return make_images(tmp_path_factory.mktemp("images"), train=15, val=4)


def words(data, folder, **settings):
    # Without batch normalisation: after so few steps its running statistics are no use.
    options = {
        "model__name": "squeezenet1_1",
        "data__batch_size": 4,
        "data__workers": 0,
        "optim__epochs": 2,
        **settings,
    }
    return arguments(data, folder, **options)


def resume(folder, **settings):
    options = {"run.max_steps": "null", **{k.replace("__", "."): v for k, v in settings.items()}}
    return ["fit", f"--run.resume={folder}"] + [
        f"--{key}={value}" for key, value in options.items()
    ]


def saved(folder, name="last"):
    return torch.load(folder / f"checkpoints/{name}.pt", weights_only=True)


def watched(out, line, at=None, act=None):
    """A rank's work: `train fit`, writing down which training samples count.

    `act` is called with the rank at its batch number `at`.
    """
    from train.__main__ import main
    from train.data.batch import NO_LABEL
    from train.data.shared_ledger import SharedLedger

    note, rank, number = SharedLedger.note, os.environ["RANK"], Counter()

    def noted(self, split, batch):
        number[split] += 1
        if split == "train":
            kept = batch.indices[(batch.labels != NO_LABEL).numpy()]
            with open(out / f"seen-{rank}", "a") as file:
                file.writelines(f"{batch.epoch} {index}\n" for index in kept.tolist())
            if act is not None and number["train"] == at:
                act(int(rank))
        note(self, split, batch)

    SharedLedger.note = noted
    return main(line)


def seen(out):
    """How often each sample was seen in each epoch."""
    lines = [line for path in out.glob("seen-*") for line in path.read_text().splitlines()]
    return {
        epoch: Counter(int(line.split()[1]) for line in lines if line.startswith(f"{epoch} "))
        for epoch in (0, 1)
    }


@pytest.mark.parametrize(("before", "after", "steps"), [(2, 3, 3), (1, 4, 11), (4, 1, 2)])
def test_resumed_on_other_ranks_and_workers_the_rest_is_seen_once(
    tmp_path, data, before, after, steps
):
    folder, out = tmp_path / "run", tmp_path
    first = words(data, folder, data__workers=4 if before == 2 else 1, run__max_steps=steps)
    ended = ranks.call(before, watched, (out, first), tmp_path / "logs")
    assert ended.codes == [0] * before, ended.outputs
    assert len(saved(folder)["ranks"]) == before
    position = saved(folder)["loader"]["samples_seen"]
    assert 0 < position < 45  # in the middle of an epoch
    again = resume(folder, data__workers=1)
    ended = ranks.call(after, watched, (out, again), tmp_path / "logs")
    assert ended.codes == [0] * after, ended.outputs
    assert seen(out) == {epoch: Counter(range(45)) for epoch in (0, 1)}
    assert f"warning: {before} rank(s) saved this and {after} go on" in ended.outputs[0]
    assert [text for text in ended.outputs[1:] if text] == []  # rank 0 speaks for all
    state = saved(folder)
    assert (state["loader"]["epoch"], len(state["ranks"])) == (2, after)
    # the learning rate ends where it would have
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [0, 1]
    assert rows[1]["lr"] < 0.003


def test_stopped_and_resumed_on_three_ranks_is_bit_equal(tmp_path, data):
    # squeezenet's dropout draws on each rank from a generator of its own
    more = {"optim__accumulate": 2}
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert ranks.run(3, words(data, whole, **more), tmp_path / "logs").codes == [0] * 3
    ended = ranks.run(3, words(data, cut, run__max_steps=3, **more), tmp_path / "logs")
    assert ended.codes == [0] * 3
    states = [row["rng"]["torch"] for row in saved(cut)["ranks"]]
    assert not torch.equal(states[0], states[1])
    assert ranks.run(3, resume(cut), tmp_path / "logs").codes == [0] * 3
    assert_same_weights(cut, whole)
    rows = [
        [
            {key: row[key] for key in ("step", "train_loss", "val_loss", "val_samples")}
            for row in map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
        ]
        for folder in (whole, cut)
    ]
    assert rows[0] == rows[1]


def fail(rank):
    from train.errors import DataError

    if rank == 1:
        raise DataError("the disk of this rank is gone")


def break_down(rank):
    if rank == 1:
        raise ZeroDivisionError("a mistake in the code")


def die(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("act", "codes", "message"),
    [
        (fail, [2, 2, 2], "error: the disk of this rank is gone"),
        (break_down, [2, 1, 2], "rank 1:"),
        (die, [2, -9, 2], r"error: rank \d lost the others: one of 3 ranks was killed"),
    ],
    ids=["told", "bug", "killed"],
)
def test_one_rank_ends_all_with_one_message(tmp_path, data, act, codes, message):
    line = words(data, tmp_path / "run", data__workers=1)
    with ranks.Ranks(3, watched, (tmp_path, line, 2, act), tmp_path / "logs") as group:
        pids = group.pids()
        ended = group.wait()
        assert ended.codes == codes, ended.outputs
        told = [line for line in "\n".join(ended.outputs).splitlines() if re.match(message, line)]
        assert len(told) == 1, ended.outputs
        ends = [line for line in ended.errors if not line.startswith("Traceback")]
        assert len(ends) == (0 if act is break_down else 1)
        assert wait_until(lambda: not any(children(pid) for pid in pids), 10)


def test_what_all_ranks_find_wrong_is_said_once(tmp_path, data):
    ended = ranks.run(3, words(data, tmp_path / "run", model__name="resnet19"), tmp_path / "logs")
    assert ended.codes == [2, 2, 2]
    assert len(ended.errors) == 1
    assert "did you mean resnet" in ended.errors[0]
    ended = ranks.run(3, ["fit", "--data.batchsize=3"], tmp_path / "logs")
    assert ended.codes == [2, 2, 2]
    assert "".join(ended.outputs).count("data.batchsize") == 1


def hear(rank):
    if rank == 2:  # one rank alone
        os.kill(os.getpid(), signal.SIGTERM)


def hear_all(rank):
    os.kill(os.getpid(), signal.SIGUSR1)
    os.kill(os.getpid(), signal.SIGUSR1)  # torchrun hands on what the whole job got: no second one


@pytest.mark.parametrize(
    ("act", "code", "name"), [(hear, 143, "SIGTERM"), (hear_all, 138, "SIGUSR1")]
)
def test_a_signal_saves_at_the_same_step_on_all_ranks(tmp_path, data, act, code, name):
    folder, size = tmp_path / "run", 3
    line = words(data, folder, data__workers=1, optim__epochs=3)
    with ranks.Ranks(size, watched, (tmp_path, line, 2, act), tmp_path / "logs") as group:
        pids = group.pids()
        ended = group.wait()
        assert ended.codes == [code] * size, ended.outputs
        assert wait_until(lambda: not any(children(pid) for pid in pids), 10)
    assert len(saved(folder)["ranks"]) == size
    assert saved(folder)["step"] == 2
    assert re.search(rf"^{name}: saved at epoch 1, step 2; go on with:", ended.outputs[0], re.M)
    assert ended.outputs[1:] == ["", ""]
    # What was seen before the signal is not seen again.
    ended = ranks.call(size, watched, (tmp_path, resume(folder)), tmp_path / "logs")
    assert ended.codes == [0] * size, ended.outputs
    assert seen(tmp_path)[0] == Counter(range(45))


def wait_for_ever(rank):
    with open(os.environ["STARTED"], "a") as file:
        file.write(f"{rank}\n")
    signal.pause()


def test_a_killed_rank_leaves_no_worker(tmp_path, data):
    started = tmp_path / "started"
    line = words(data, tmp_path / "run", data__workers=2, optim__epochs=3)
    with ranks.Ranks(
        2, watched, (tmp_path, line, 2, wait_for_ever), tmp_path / "logs", {"STARTED": str(started)}
    ) as group:
        assert wait_until(lambda: started.exists() and len(started.read_text()) == 4)
        workers = [worker for pid in group.pids() for worker in children(pid)]
        assert len(workers) == 6
        for pid in group.pids():
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not any(map(alive, workers)), 10)


def test_bad_samples_of_all_ranks_count_for_one_budget(tmp_path):
    mine = make_images(tmp_path / "images", train=8, val=4)
    for name in ("train/bird/00", "train/cat/01", "train/dog/02", "val/cat/03"):
        (mine / f"{name}.png").write_bytes(b"no image")
    folder = tmp_path / "run"
    ended = ranks.run(
        2, words(mine, folder, data__bad_budget=0.2, optim__epochs=1), tmp_path / "logs"
    )
    assert ended.codes == [0, 0], ended.outputs
    entries = [json.loads(line) for line in (folder / "bad_samples.jsonl").read_text().splitlines()]
    assert sorted(entry["key"] for entry in entries) == [
        "train:bird/00.png",
        "train:cat/01.png",
        "train:dog/02.png",
        "val:cat/03.png",
    ]
    assert {entry["rank"] for entry in entries} <= {0, 1}
    row = json.loads((folder / "metrics.jsonl").read_text())
    assert (row["bad_samples"], row["val_samples"]) == (4, 11)
    # Two of 36 are allowed, and no rank meets more than two of the four.
    ended = ranks.run(2, words(mine, tmp_path / "strict", data__bad_budget=0.05), tmp_path / "logs")
    assert ended.codes == [2, 2], ended.outputs
    assert len(ended.errors) == 1
    assert "of 36 samples are bad, more than the 2" in ended.errors[0]


def test_a_loss_that_is_no_number_ends_all_and_names_the_batch(tmp_path, data):
    folder = tmp_path / "run"
    ended = ranks.run(2, words(data, folder, optim__lr=1e30), tmp_path / "logs")
    assert ended.codes == [2, 2], ended.outputs
    assert len(ended.errors) == 1
    assert re.search(r"training loss is (nan|inf) at epoch 1, step \d", ended.errors[0])
    told = json.loads((folder / "diverged.json").read_text())
    assert len(told["batches"]) == 2
    assert told["batches"][-1]["step"] == told["step"]
    assert all(re.fullmatch(r"\w+/\d\d\.png", key) for key in told["batches"][-1]["keys"])
    assert not (folder / "checkpoints/last.pt").exists()


def test_ranks_that_find_other_data_do_not_begin(tmp_path):
    mine = make_images(tmp_path / "images", train=4, val=2)
    make_images(tmp_path / "images-other", train=5, val=2)
    # Rank 0's settings hold for all, so the path is the same: another disk is mounted there.
    ended = ranks.call(2, swap_data, (mine, words(mine, tmp_path / "run")), tmp_path / "logs")
    assert ended.codes == [2, 2], ended.outputs
    assert len(ended.errors) == 1
    assert "do not find the same data" in ended.errors[0]
    assert not (tmp_path / "run").exists()


def swap_data(data, line):
    import train.prepare
    from train.__main__ import main

    real = train.prepare.open_splits
    if os.environ["RANK"] == "1":
        train.prepare.open_splits = lambda path, *rest: real(f"{data}-other", *rest)
    return main(line)
