"""Lines and what moves on one terminal: letters stay letters, and no line holds two things."""

import io
import os
import re
import sys

import pytest
from rich.console import Console
from rich.file_proxy import FileProxy
from terminal import SPINNER, lines_of, shown_on_a_terminal

from train import console


def test_letters_survive_beside_a_spinner(deadline):
    text = shown_on_a_terminal(
        "import time\n"
        "from train.console import say, waiting\n"
        "with waiting('at first') as tell:\n"
        "    time.sleep(0.2)\n"
        "    say('bar ███▌ 3 µs')\n"
        "    tell('then')\n"
        "    time.sleep(0.2)\n"
        "    print('of somebody else')\n"
        "    say('the end')\n"
    )
    assert "\\u25" not in text
    assert "\\xb5" not in text
    lines = lines_of(text)
    for said in ("bar ███▌ 3 µs", "of somebody else", "the end"):
        assert said in lines
    assert any(sign in text for sign in SPINNER)
    assert not [line for line in lines if re.search(rf"[{SPINNER}].*(bar|else|end)", line)]


def test_standard_output_that_is_no_terminal_has_no_spinner(tmp_path, deadline):
    with open(tmp_path / "out", "wb") as out:
        text = shown_on_a_terminal(
            "from train.console import say, waiting\n"
            "with waiting('at first', apart=True):\n"
            "    print('{}')\n",
            stdout=out,
        )
    assert (tmp_path / "out").read_text() == "{}\n"
    assert "at first" in text


def test_messages_of_the_end_fit_the_terminal(deadline):
    text = shown_on_a_terminal(
        "import os, fcntl, struct, sys, termios\n"
        "fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 80, 0, 0))\n"
        "from train.console import complain\n"
        "complain('error: ' + 'some words ' * 30 + 'µs')\n"
    )
    lines = lines_of(text)
    assert max(map(len, lines)) < 80
    assert " ".join(text.split()) == "error: " + "some words " * 30 + "µs"


def test_messages_of_the_end_are_whole_where_there_is_no_terminal(capsys):
    console.complain("error: " + "x " * 100)
    assert capsys.readouterr().err == "error: " + "x " * 100 + "\n"


def test_a_forked_child_does_not_write_through_a_lock_of_its_parent(monkeypatch):
    plain = io.StringIO()
    monkeypatch.setattr(sys, "stdout", FileProxy(Console(file=plain), plain))
    child = os.fork()
    if child == 0:
        os._exit(0 if sys.stdout is plain else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", None])
def test_a_stream_of_any_encoding_is_written_to(encoding):
    class Stream:
        pass

    stream = Stream()
    stream.encoding = encoding
    assert console._safe("µ", stream) == ("\\xb5" if encoding == "ascii" else "µ")
