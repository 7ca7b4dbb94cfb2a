"""For each verdict one command, which exists."""

import shlex

import pytest
from recorded import FAULTS, HEALTHY, SLOW, like, own, run

from train.command_line import build_parser, read_config
from train.config import Config, DataConfig
from train.doctor.asked import Asked, changed
from train.doctor.measurements import Item
from train.doctor.mend import mend
from train.doctor.verdict import CAUSES, judge
from train.pack import options as packing

ASKED = Asked(Config(data=DataConfig(path="my data", batch_size=32)))
OWN = Asked(Config(), "mypkg.data:make_dataset", "sim:1000")


def mend_of(measured, asked=ASKED):
    return mend(measured, judge(measured), asked)


@pytest.mark.parametrize("asked", [ASKED, OWN])
@pytest.mark.parametrize("cause", CAUSES)
def test_each_command_is_understood(cause, asked):
    measured = FAULTS[cause]
    if asked is OWN:
        measured = own(measured)
    cure = mend(measured, judge(measured), asked)
    words = shlex.split(cure.command)
    assert cure.command != asked.again("doctor")  # the one that was just run
    if not words:
        assert not cure.settings
        return
    if words[0] == "nvidia-smi":
        return
    assert words[0] == "train"
    parser = build_parser()
    options = parser.parse_args(words[1:])
    if words[1] == "pack":
        assert packing.from_namespace(options.pack).src == "my data"
    else:
        config = read_config(parser, options)
        for name, value in cure.settings.items():
            section, key = name.split(".")
            assert getattr(getattr(config, section), key) == value
        assert config.data.path == (asked.config.data.path)


@pytest.mark.parametrize("cause", CAUSES)
def test_words_say_what_to_do(cause):
    assert len(mend_of(FAULTS[cause]).words) > 20


def test_waiting_is_hidden_by_more_workers():
    waits = Item(0.02, 0.001, blocked_s=0.019, items=50)
    cure = mend_of(like(SLOW, alone=waits))
    assert cure.settings["data.workers"] > SLOW.workers
    assert cure.settings["data.workers"] <= 16


def test_a_disk_that_serves_one_after_the_other_is_not_asked_by_more_workers():
    waits = Item(0.02, 0.001, blocked_s=0.019)
    cure = mend_of(like(SLOW, alone=waits, together=Item(0.04, 0.001, blocked_s=0.038)))
    assert cure.pack is not None


def test_cpus_that_nobody_uses_get_a_worker():
    cure = mend_of(like(SLOW, cpus=8))
    assert 2 < cure.settings["data.workers"] <= 8
    assert cure.can_be_tried


def test_where_all_cpus_are_busy_the_data_are_packed():
    cure = mend_of(like(SLOW, warm=run(200, cores=3.9), image_side=1200))
    assert cure.pack == {"short_side": 256}
    assert cure.command == "train pack 'my data' 'my data-packed' --short-side 256"


def test_cpus_that_others_use_are_not_promised():
    assert mend_of(like(SLOW, cpus=8, alone=Item(0.01, 0.001, queued_s=0.009))).pack is not None


def test_images_that_are_small_keep_their_pixels():
    assert mend_of(like(SLOW, warm=run(200, cores=3.9), image_side=300)).pack == {}


def test_threads_that_take_turns_become_processes():
    measured = like(FAULTS["lock"], workers_kind="thread")
    assert mend_of(measured).settings == {"data.workers_kind": "process"}


def test_a_lock_of_the_users_is_the_users_to_take_out():
    cure = mend_of(FAULTS["lock"], OWN)
    assert not cure.can_be_tried
    assert cure.command == ""  # the same one again mends nothing


def test_small_batches_grow():
    measured = like(FAULTS["batches"], large_batch=32)
    assert mend_of(measured).settings == {"data.batch_size": 32}


def test_a_slow_model_with_small_batches_is_told_of_larger_ones():
    measured = like(HEALTHY, batch_size=4, large=run(1400), large_batch=32)
    assert mend_of(measured).settings == {"data.batch_size": 32}
    assert mend_of(like(measured, large=run(1010))).settings == {}


def test_commands_say_what_was_asked_for_and_no_more():
    assert ASKED.again("fit") == "train fit --data.path 'my data' --data.batch_size 32"
    assert (
        ASKED.again("fit", data__batch_size=8)
        == "train fit --data.path 'my data' --data.batch_size 8"
    )
    assert OWN.again("doctor") == (
        "train doctor --dataset mypkg.data:make_dataset --accelerator sim:1000"
    )


def test_settings_are_changed_without_touching_others():
    config = changed(ASKED.config, {"data.workers": 3})
    assert (config.data.workers, config.data.batch_size) == (3, 32)
    assert ASKED.config.data.workers == "auto"
