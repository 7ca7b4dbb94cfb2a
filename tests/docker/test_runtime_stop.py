"""How the container ends: everything in it may save, whatever started it."""

import os
import shutil
import signal
import subprocess

import processes
import pytest
from runtime_box import Box, needs_namespaces

pytestmark = [
    needs_namespaces,
    pytest.mark.skipif(not shutil.which("perl"), reason="NOT TESTED: needs perl"),
]

# Stands for a training run: SIGTERM asks it to save, which takes a while.
# A second one, or SIGHUP, ends it unsaved.
TRAINER = r"""
$| = 1; my ($file, $asked) = ($ARGV[0], 0);
$SIG{TERM} = sub { exit 99 if $asked++; };
open(my $began, ">", "$file.began"); close($began);
until ($asked) { select(undef, undef, undef, 0.05); print "step\n"; }
for (1 .. 14) { select(undef, undef, undef, 0.05); print "saving\n"; }
open(my $out, ">", $file) or exit 98; print $out "saved"; close($out);
exit 3;
"""


@pytest.fixture
def box():
    with Box() as made:
        (made.folder / "trainer.pl").write_text(TRAINER)
        yield made.owned_by(1234, 1235)


def trainer(box, name):
    return ["perl", str(box.folder / "trainer.pl"), str(box.folder / "workspace" / name)]


def began(box, *names):
    files = [box.folder / "workspace" / f"{name}.began" for name in names]
    assert processes.wait_until(lambda: all(file.exists() for file in files)), files


def saved(box, name):
    file = box.folder / "workspace" / name
    return file.exists() and file.read_text() == "saved"


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_the_command_gets_the_signal_and_its_code_is_passed_on(box, signum):
    words = trainer(box, "run")
    if signum == signal.SIGINT:
        (box.folder / "trainer.pl").write_text(
            TRAINER.replace("$SIG{TERM}", "$SIG{INT} = $SIG{TERM}")
        )
    container = box.start(*words)
    began(box, "run")
    container.signal(signum)
    assert container.wait() == 3, container.log
    assert saved(box, "run")


def test_a_command_that_ends_by_itself_ends_the_container(box):
    for words, code in ((["true"], 0), (["bash", "-c", "exit 42"], 42), (["no-such-command"], 127)):
        assert box.start(*words).wait() == code
    assert box.start("bash", "-c", "kill -KILL $$").wait() == 137
    assert "there is no command 'no-such-command'" in box.started[2].log


def test_words_and_output_of_a_command_are_its_own(box):
    container = box.start("printf", "%s\n", "a  b", "c'\"d", "", "*")
    assert container.wait() == 0
    assert container.log.endswith("\na  b\nc'\"d\n\n*\n")


def test_what_docker_exec_started_may_save_too(box):
    container = box.start("sleep", "600")
    container.says("CPU")
    runs = [
        container.exec(*trainer(box, "as-root")),
        container.exec(*trainer(box, "as-user"), user=1234),
    ]
    shell = container.exec("bash", "-c", " ".join(trainer(box, "in-shell")) + "; exit 5", user=1234)
    line = " ".join(trainer(box, "stopped")) + " & wait"
    stopped = container.exec("bash", "-c", line, user=1234)
    began(box, "as-root", "as-user", "in-shell", "stopped")
    bash = processes.children(stopped.pid)[0]
    os.kill(processes.children(bash)[0], signal.SIGSTOP)  # as Ctrl-Z does
    container.signal()
    assert container.wait() == 143, container.log
    assert [run.wait(10) for run in runs] == [3, 3]
    assert shell.wait(10) == 5
    stopped.wait(10)
    assert all(saved(box, name) for name in ("as-root", "as-user", "in-shell", "stopped"))


def test_a_run_in_a_terminal_saves_before_the_terminal_goes(box):
    container = box.start("sleep", "600")
    container.says("CPU")
    words = " ".join(trainer(box, "typed"))
    terminal = container.exec(
        "script", "-qec", f"bash --norc -ic '{words}'", "/dev/null", user=1234
    )
    began(box, "typed")
    container.signal()
    assert container.wait() == 143, container.log
    terminal.wait(10)
    assert saved(box, "typed")


# It passes SIGTERM on to its child and waits for it, as make and torchrun do.
PASSES_ON = r"""
my $child = fork() // die; exec(@ARGV) unless $child;
$SIG{TERM} = sub { kill("TERM", $child); }; 1 while waitpid($child, 0) == -1;
"""
# It has a worker, and saves only if that one lives as long as itself.
HAS_A_WORKER = r"""
my $worker = fork() // die; unless ($worker) { sleep(1) while 1; }
my $asked = 0; $SIG{TERM} = sub { $asked++; };
open(my $began, ">", "$ARGV[0].began"); close($began);
select(undef, undef, undef, 0.05) until $asked;
select(undef, undef, undef, 0.5); kill(0, $worker) or exit 9;
kill("KILL", $worker); open(my $out, ">", $ARGV[0]); print $out "saved"; close($out);
"""


def test_each_run_is_asked_once_and_by_one(box):
    runs = {name: " ".join(trainer(box, name)) for name in ("made", "passed", "piped", "wrapped")}
    (box.folder / "passes.pl").write_text(PASSES_ON)
    (box.folder / "worker.pl").write_text(HAS_A_WORKER)
    (box.folder / "Makefile").write_text(f"run:\n\t@{runs['made']}\n")
    lines = [
        f"perl {box.folder}/passes.pl {runs['passed']}",
        f"{runs['piped']} | tee {box.folder}/workspace/log",
        # it dies at once and leaves its child behind
        f"perl -e 'system(@ARGV)' {runs['wrapped']}",
        f"perl {box.folder}/worker.pl {box.folder}/workspace/worker",
    ]
    names = ["passed", "piped", "wrapped", "worker"]
    if shutil.which("make"):
        lines.append(f"make -s -C {box.folder} run")
        names.append("made")
    container = box.start("sleep", "600")
    container.says("CPU")
    for line in lines:
        container.exec("bash", "-c", line, user=1234)
    began(box, *names)
    container.signal()
    assert container.wait() == 143, container.log
    assert [name for name in names if not saved(box, name)] == []


def test_orphans_are_waited_for_and_reaped(box):
    words = " ".join(trainer(box, "orphan"))
    children = "for i in $(seq 50); do (sleep 0 & ) ; done"
    container = box.start("bash", "-c", f"(setsid {words} &) ; {children}; exec sleep 600")
    began(box, "orphan")

    def zombies():
        listing = container.exec("ps", "-eo", "stat=", stdout=subprocess.PIPE, text=True)
        return listing.communicate(timeout=10)[0].count("Z")

    assert processes.wait_until(lambda: not zombies(), 10)
    container.signal()
    assert container.wait() == 143
    assert saved(box, "orphan")


def test_waiting_has_an_end(box):
    deaf = "$SIG{TERM} = sub {}; print qq(deaf\n); sleep 1 while 1"
    container = box.start("perl", "-e", f"$| = 1; {deaf}", STOP_GRACE=2)
    container.says("deaf")
    container.signal()
    assert container.wait() == 137
    assert "note: not ended in time: perl" in container.log


def test_a_second_signal_hurries(box):
    deaf = "$SIG{TERM} = sub {}; print qq(deaf\n); sleep 1 while 1"
    container = box.start("perl", "-e", f"$| = 1; {deaf}")
    container.says("deaf")
    container.signal()
    container.says("stopping: waiting up to 52 s")
    container.signal()
    assert container.wait(20) == 137
    assert "asked to hurry" in container.log


@pytest.mark.parametrize("value", ["soon", "-1", "1.5"])
def test_a_wrong_time_is_refused(box, value):
    container = box.start("true", STOP_GRACE=value)
    assert container.wait() == 2
    assert f"STOP_GRACE must be a number of seconds, got '{value}'" in container.log


def test_a_service_that_is_not_known_is_refused(box):
    container = box.start(SERVICES="jupyter,gitlab")
    assert container.wait() == 2
    assert "SERVICES names 'gitlab', which is not known" in container.log


def test_a_service_that_dies_ends_the_container_with_its_last_words(box):
    fake = box.folder / "env" / "bin"
    fake.mkdir(parents=True)
    program = fake / "tensorboard"
    program.write_text('#!/bin/bash\necho "port $6 is taken" >&2\nsleep 0.5\nexit 4\n')
    program.chmod(0o755)
    container = box.start(SERVICES="tensorboard", WELLFED_PREFIX=fake.parent)
    assert container.wait() == 1
    assert "error: tensorboard ended (exit code 4), so the container ends" in container.log
    assert container.log.count("  tensorboard | port 6006 is taken") == 1
    assert "curves of" in container.log


def test_services_run_beside_a_command_when_asked_for(box):
    fake = box.folder / "env" / "bin"
    fake.mkdir(parents=True)
    program = fake / "tensorboard"
    program.write_text("#!/bin/bash\necho up\nexec sleep 600\n")
    program.chmod(0o755)
    container = box.start(
        "bash", "-c", "sleep 1; exit 9", SERVICES="tensorboard", WELLFED_PREFIX=fake.parent
    )
    assert container.wait() == 9
    assert "tensorboard | up" in container.log


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (
            "low 0\noom 3\noom_kill 1\n",
            "error: the kernel ended a process, since the container's memory",
        ),
        ("oom 0\noom_kill 0\n", "note: the command was ended by SIGKILL"),
        (None, "note: the command was ended by SIGKILL"),
    ],
)
def test_a_killed_command_says_why(box, events, message):
    cgroup = box.folder / "cgroup"
    cgroup.mkdir()
    if events:
        (cgroup / "memory.events").write_text(events)
    container = box.start("bash", "-c", "kill -KILL $$", WELLFED_CGROUP=cgroup)
    assert container.wait() == 137
    assert message in container.log
    assert "supervise.sh" not in container.log
