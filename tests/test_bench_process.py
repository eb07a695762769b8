"""One setup in a process of its own: what is asked and told, errors and deaths on the way, and that none is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict

import pytest

from cosycli import engine as engine_module
from cosycli.bench import child
from cosycli.bench.child import Listener, heard, measure, serve
from cosycli.bench.figures import Spoken, Trial
from cosycli.bench.setups import Setup
from cosycli.errors import CosyError, InferenceError, ModelError, UsageError
from cosycli.tuning import Tuning

SETUP = Setup("kokoro", "int8", "cpu")
# A process that tells its number and then does nothing for a minute.
TELL = 'import os, time; print(\'{"step": "%d"}\' % os.getpid(), flush=True); time.sleep(60)'
SLEEPER = [sys.executable, "-c", TELL]
SPOKEN = {"first": 0.1, "gaps": [0.2, 0.3], "stall": 0.0, "work": 0.6, "audio": 2.0}
DONE = {
    "precision": "int8",
    "provider": "cpu",
    "voice": "zm_yunxi",
    "threads": 2,
    "load_seconds": 1.0,
    "memory_mb": 400,
}


def asked(setup=SETUP, texts=("你好。", "再见。"), warm_up=("早。",)):
    return json.dumps({"setup": asdict(setup), "texts": texts, "warm_up": warm_up})


def lines(*told):
    return [json.dumps(one) + "\n" for one in told]


def process(*told, then=""):
    """A command that reads its request and tells this."""
    code = f"import sys, os, time; sys.stdin.read(); print({''.join(lines(*told))!r}, end='', flush=True); {then}"
    return [sys.executable, "-c", code]


# The side that measures


def test_it_warms_up_first_and_tells_every_text(tones):
    told = []
    serve(asked(), told.append)
    assert [list(one) for one in told] == [["spoken"], ["spoken"], ["done"]]  # the text for warming up is not told
    assert tones.loads == 1
    assert tones.pulled == 1 + 2 + 2
    done = told[-1]["done"]
    assert (done["precision"], done["voice"]) == ("test", "zm_yunxi")
    assert done["memory_mb"] > 10
    assert heard(lines(*told), Listener()).spoken[0].audio == pytest.approx(0.4)


def test_a_silent_text_is_told_as_none(tones):
    told = []
    serve(asked(texts=["……", "你好。"]), told.append)
    assert told[0] == {"spoken": None}
    assert len(heard(lines(*told), Listener()).spoken) == 1
    serve(asked(texts=["……"]), told.append)
    assert told[-1]["error"][2] == 2


def test_a_process_that_builds_the_bundle_measures_nothing(tones, monkeypatch):
    """After an upgrade, memory was 900 MB in place of 440 and load time 6 s: those of building, which comes once."""
    real = engine_module.Engine._load

    def load(self, rebuild):
        backend = real(self, rebuild)
        self.timing = engine_module.Timing(9.0, True)
        return backend

    monkeypatch.setattr(engine_module.Engine, "_load", load)
    told = []
    serve(asked(), told.append)
    assert told == [{"built": True}]
    assert tones.pulled == 0


def test_the_graphs_are_opened_as_the_trial_says(tones, monkeypatch):
    monkeypatch.delenv("COSY_THREADS", raising=False)
    told = []
    serve(asked(Setup("kokoro", tuning=Tuning(threads=5))), told.append)
    assert told[-1]["done"]["threads"] == 5


def test_an_error_is_told_with_its_exit_code(tones, monkeypatch):
    def fails(self, rebuild):
        raise ModelError("the model is gone", "make it again")

    monkeypatch.setattr(engine_module.Engine, "_load", fails)
    told = []
    serve(asked(), told.append)
    assert told == [{"error": ("the model is gone", "make it again", 3)}]


# The side that asks


def test_what_is_told_becomes_a_trial():
    seen = []
    listener = Listener(seen.append, lambda text: seen.append(text.upper()), lambda: seen.append("+"))
    told = lines({"step": "building"}, {"note": "tried"}, {"spoken": SPOKEN}, {"spoken": None}, {"done": DONE})
    trial = heard(told, listener)
    assert trial == Trial(**DONE, spoken=(Spoken(0.1, (0.2, 0.3), 0.0, 0.6, 2.0),))
    assert seen == ["building", "TRIED", "+", "+"]
    assert heard(told[:-1], Listener()) is None


@pytest.mark.parametrize(
    ("code", "kind"), [(1, CosyError), (2, UsageError), (3, ModelError), (4, InferenceError), (77, CosyError)]
)
def test_its_error_is_ours(code, kind):
    """A provider that does not work is exit code 4 with the command that mends it, in whatever process it was found."""
    with pytest.raises(CosyError, match="no CUDA") as caught:
        measure(SETUP, ["x"], [], command=process({"error": ["no CUDA", "install it", code]}))
    assert type(caught.value) is kind
    assert caught.value.hint == "install it"


def test_a_process_that_tells_all_is_heard():
    assert measure(SETUP, ["x"], [], command=process({"spoken": SPOKEN}, {"done": DONE})).threads == 2


def test_after_building_another_process_measures(tmp_path):
    """The first to come tells that it built; the second finds its trace and measures."""
    told = "".join(lines({"spoken": SPOKEN}, {"done": DONE}))
    code = (
        f"import pathlib; been = pathlib.Path({str(tmp_path / 'been')!r})\n"
        f"print({told!r} if been.exists() else '{{\"built\": true}}')\nbeen.touch()"
    )
    assert measure(SETUP, ["x"], [], command=[sys.executable, "-c", code]).threads == 2


@pytest.mark.parametrize("then", ["os._exit(9)", "os.kill(os.getpid(), 9)"])
def test_a_process_that_dies_is_an_error_with_its_exit_code(then):
    """Killed for memory in the middle, its half of the texts must not be taken for a result."""
    with pytest.raises(InferenceError, match=r"measured kokoro:int8:cpu ended with -?9") as caught:
        measure(SETUP, ["x"], [], command=process({"spoken": SPOKEN}, then=then))
    assert "memory" in caught.value.hint


def test_a_process_that_never_read_its_request_is_an_error_too():
    with pytest.raises(InferenceError, match="ended with 5"):
        measure(SETUP, ["长" * 500_000], [], command=[sys.executable, "-c", "import os; os._exit(5)"])


def test_whatever_interrupts_us_ends_the_process():
    """Ctrl-C during a benchmark left a process that went on speaking to nobody for a minute."""
    found = []

    def interrupt(text):
        found.append(int(text))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(SETUP, ["x"], [], Listener(step=interrupt), SLEEPER)
    with pytest.raises(ProcessLookupError):
        os.kill(found[0], 0)


def test_what_libraries_print_is_no_answer():
    """TensorRT and the loader of CUDA print on standard output, which carries the answers."""
    code = (
        "import os\nfrom cosycli.bench import child\n"
        "def serve(request, say):\n"
        "    os.write(1, b'Loading libnvinfer')\n    print('again')\n    say({'step': request})\n"
        "child.serve = serve\nchild.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], input="mine", capture_output=True, text=True, timeout=60)
    assert done.stdout == '{"step": "mine"}\n'
    assert "libnvinfer" in done.stderr
    assert done.returncode == 0


COSY = f"""
import sys
from cosycli import __main__
from cosycli.bench import child
child.measure.__defaults__ = (child.Listener(), {SLEEPER!r})
sys.argv[1:] = ["bench", "--rounds", "1"]
__main__.main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_ctrl_c_ends_with_its_code_and_leaves_no_process(number, code):
    """A terminal sends it to the whole group: the process that measured printed its traceback over the prompt."""
    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    cosy = subprocess.Popen([sys.executable, "-c", COSY], **pipes, start_new_session=True)
    words = ""
    while "…" not in words:
        words = cosy.stderr.readline()
        assert words, "it ended before it measured anything"
    os.killpg(cosy.pid, number)
    out, err = cosy.communicate(timeout=60)
    assert (cosy.returncode, out, err) == (code, "", "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(words.split()[0]), 0)


def test_the_command_is_this_python():
    assert child.COMMAND[0] == sys.executable
