"""`cosy bench` as a command: values checked before it measures, tables, JSON, drawings, comparisons, tuning."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from cosycli import cli, runtime, tuning
from cosycli.bench import chart, child, machine
from cosycli.bench.figures import FIGURES, Spoken, Trial
from cosycli.bench.setups import Setup, combined, parse, shipped_texts
from cosycli.bundles import embedded, store
from cosycli.errors import UsageError
from cosycli.tuning import Tuning


class Bench:
    """Stands for the processes that measure: `price(setup)` is what anything costs, `asked` who was measured when."""

    def __init__(self):
        self.price, self.asked = lambda setup: 0.2 if setup.precision == "float32" else 0.1, []

    def measure(self, setup, texts, warm_up, listener, command=()):
        self.asked.append((setup, list(texts), list(warm_up)))
        price = self.price(setup)
        listener.note("the GPU was passed over")
        for _ in texts:
            listener.advance()
        spoken = tuple(Spoken(price, (price,), 0.0, price, 1.0) for _ in texts)
        precision = setup.precision or "int8"
        provider = "cpu" if setup.provider == "auto" else setup.provider
        return Trial(precision, provider, setup.voice or "zm_yunxi", 2, 10 * price, 4000 * price, spoken)


@pytest.fixture
def bench(tmp_path, monkeypatch):
    found = Bench()
    monkeypatch.setattr(child, "measure", found.measure)
    monkeypatch.setenv("COSY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path / "config"))
    for name in ("COSY_THREADS", "COSY_MODEL", "COSY_PROVIDER", "COSY_VOICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(runtime, "available_cores", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.9, 5.0, 5.0), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.chdir(tmp_path)
    return found


def said(capsys, *arguments, code=0):
    found = cli.program(["bench", *map(str, arguments)])
    told = capsys.readouterr()
    assert found == code, told.err
    return told


def bundle(name, precision):
    """A bundle that `cosy quantize` could have made."""
    wanted = replace(embedded.wanted(), name=name, precision=precision)
    store.ensure(wanted, lambda folder: (folder / "a.onnx").write_bytes(b"graph"))


def test_it_says_machine_versions_threads_and_that_it_warmed_up(bench, capsys):
    told = said(capsys)
    for word in (machine.cpu_name(), "2 cores", "2 threads", "onnxruntime", "Python 3", "cosy 0", "warmed up first"):
        assert word in told.out
    for figure in FIGURES.values():
        assert figure.label in told.out
    assert "warmed up" in told.err
    assert told.err.count("passed over") == 1  # not once a round
    assert len(bench.asked) == 3
    setup, texts, warm_up = bench.asked[0]
    assert (setup, texts) == (Setup("kokoro"), shipped_texts())
    assert len(warm_up) == 2


def test_it_has_help(capsys):
    told = said(capsys, "-h").out
    assert all(option in told for option in ("--compare", "--tune", "--reset", "--plot", "--rounds", "--sentences"))


def test_json_is_all_of_stdout(bench, capsys):
    told = said(capsys, "--json", "--rounds", "2", "-q")
    run = json.loads(told.out)
    assert told.err == ""
    assert (run["rounds"], run["warmed_up"], run["texts"]) == (2, True, len(shipped_texts()))
    assert set(FIGURES) <= set(run["results"][0])
    assert {"cpu", "cores", "gpu", "python", "onnxruntime", "cosy"} <= set(run["machine"])


def test_setups_take_turns_and_the_order_rotates(bench, capsys):
    bundle("small", "float16")
    said(capsys, "kokoro:int8", "small", "--provider", "cpu", "--rounds", "2")
    order = [str(setup) for setup, _, _ in bench.asked]
    assert order == ["kokoro:int8:cpu", "small::cpu", "small::cpu", "kokoro:int8:cpu"]


def test_every_precision_with_every_provider(bench, capsys):
    run = json.loads(said(capsys, "--precision", "int8", "--precision", "float32", "--provider", "cpu", "--provider",
                          "cuda", "--voice", "zf_xiaoyi", "--rounds", "1", "--json").out)  # fmt: skip
    names = [result["name"] for result in run["results"]]
    assert names == [f"kokoro:{p}:{r}" for p in ("int8", "float32") for r in ("cpu", "cuda")]
    assert {result["voice"] for result in run["results"]} == {"zf_xiaoyi"}


def test_a_setup_that_names_its_own_keeps_it():
    found = combined([parse("a:int8:cuda"), parse("b"), parse("b")], ["float32"], ["cpu", "cuda"])
    assert [str(setup) for setup in found] == ["a:int8:cuda", "b:float32:cpu", "b:float32:cuda"]
    for bad in ("", ":int8", "a:b:cpu:d"):
        with pytest.raises(UsageError, match="no setup"):
            parse(bad)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nobody"], 3, ["no model 'nobody'", "kokoro, small"]),
        (["kokoro:int8:gpu"], 2, ["no provider 'gpu'", "cuda"]),
        (["--provider", "gpu"], 2, ["no provider 'gpu'"]),
        (["--precision", "int9"], 2, ["kokoro holds int8 and float32, not int9"]),
        (["small", "--precision", "int8"], 2, ["small holds float16, not int8"]),
        (["--voice", "nobody"], 3, ["nobody", "cosy voices"]),
        (["--rounds", "0"], 2, ["--rounds"]),
        (["--sentences", "none.txt"], 2, ["none.txt"]),
        (["--sentences", "dots.txt"], 2, ["dots.txt has no sentences"]),
        (["--plot", "x.pdf"], 2, ["x.pdf", ".html"]),
        (["--plot", "missing/x.html"], 1, ["missing/x.html"]),
        (["--compare", "kokoro", "nobody"], 3, ["nobody"]),
        (["--compare", "kokoro", "none.json"], 2, ["none.json"]),
        (["--compare", "kokoro", "dots.txt"], 2, ["dots.txt is no run"]),
        (["--compare", "a", "b", "kokoro"], 2, ["--compare"]),
        (["--tune", "kokoro", "small"], 2, ["--tune takes one"]),
        (["--tune", "--provider", "cuda"], 2, ["CPU"]),
    ],
)
def test_values_are_checked_before_anything_is_measured(bench, tmp_path, capsys, arguments, code, words):
    """A name mistyped in the last of three setups was found after the first two had been measured for minutes."""
    bundle("small", "float16")
    (tmp_path / "dots.txt").write_text("……\n")
    told = said(capsys, *arguments, code=code)
    assert told.out == ""
    assert all(word in told.err for word in words), told.err
    assert "hint: " in told.err
    assert bench.asked == []


def test_sentences_of_ones_own(bench, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("你好。\n\n……\n再见了。\n", "utf-8")
    said(capsys, "--sentences", "mine.txt", "--rounds", "1")
    assert bench.asked == [(Setup("kokoro"), ["你好。", "再见了。"], ["你好。", "再见了。"])]


def test_the_model_and_provider_of_the_environment(bench, capsys, monkeypatch):
    bundle("small", "float16")
    monkeypatch.setenv("COSY_MODEL", "small")
    monkeypatch.setenv("COSY_PROVIDER", "cpu")
    said(capsys, "--rounds", "1")
    assert str(bench.asked[0][0]) == "small::cpu"


def test_verbose_tells_every_process(bench, capsys):
    assert said(capsys, "-v").err.count("opened in 1.00 s, 400 MB") == 3


# --plot


def test_a_page_is_one_file_that_needs_no_other(bench, tmp_path, capsys):
    said(capsys, "kokoro:int8", "kokoro:float32", "--plot", "b.html")
    page = (tmp_path / "b.html").read_text("utf-8")
    root = ElementTree.fromstring(page.partition("\n")[2])
    svg = root.find(".//{http://www.w3.org/2000/svg}svg")
    bars = svg.findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) == 2 * 3 + 2
    longest = [float(bar.get("width")) for bar in bars]
    assert longest[3] == pytest.approx(2 * longest[0])  # 0.2 s in place of 0.1 s
    assert "kokoro:float32:cpu" in page
    assert "light dark" in page
    assert not any(word in page for word in ("<script", "<link", "src=", "href=", "@import", "url("))
    assert page.count("http") == 1  # the namespace of SVG
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["b.html"]


def test_names_are_escaped_in_a_page(bench, capsys, monkeypatch):
    monkeypatch.setattr(machine, "cpu_name", lambda: "<b>AT&T</b>")
    run = json.loads(said(capsys, "--json").out)
    run["results"][0]["name"] = "<i>"
    page = chart.html(run, machine.told(run))
    assert "&lt;b&gt;AT&amp;T&lt;/b&gt;" in page
    assert page.count("&lt;i&gt;") == 3  # twice beside bars, once in the table
    assert "<i>" not in page


def test_a_picture(bench, tmp_path, capsys):
    pytest.importorskip("PIL")
    from PIL import Image

    said(capsys, "kokoro:int8", "kokoro:float32", "--plot", "b.PNG")
    image = Image.open(tmp_path / "b.PNG")
    assert image.format == "PNG"
    assert image.width > 1000
    colours = {colour: count for count, colour in image.getcolors(1 << 20)}
    assert max(colours, key=colours.get) == (255, 255, 255)
    assert colours[(0x2A, 0x6F, 0x97)] > 10_000  # the bars of the first colour
    assert sum(count for colour, count in colours.items() if max(colour) < 60) > 2000  # words


def test_without_pillow_a_picture_is_refused_at_once(bench, tmp_path, capsys, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "PIL" else real(name, *rest))
    told = said(capsys, "--plot", "b.png", code=1)
    assert "pip install 'cosycli[plot]'" in told.err
    assert bench.asked == []
    assert list(tmp_path.iterdir()) == []


def test_a_drawing_that_fails_leaves_the_old_one(bench, tmp_path, capsys, monkeypatch):
    """The disk was full, and half a page stood under the name of a whole one."""

    def full(fd):
        raise OSError(28, "No space left on device")

    (tmp_path / "b.html").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in said(capsys, "--plot", "b.html", code=1).err
    assert (tmp_path / "b.html").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["b.html"]


# --compare


def test_two_setups_are_measured_in_turns_and_compared(bench, capsys):
    told = said(capsys, "--compare", "kokoro:float32", "kokoro", "--rounds", "2")
    assert "A kokoro:float32:cpu\tB kokoro:int8:cpu\tB/A\tmeaning" in told.out
    assert "first chunk, p50 (ms)\t200\t100\t0.50\tB is 2.0 times faster" in told.out
    assert "memory, peak (MB)\t800\t400\t0.50\tB is 2.0 times smaller" in told.out
    assert "turns" in told.err
    assert "not measured in turns" not in told.err
    assert machine.cpu_name() in told.out
    assert [str(setup) for setup, _, _ in bench.asked] == ["kokoro:float32", "kokoro", "kokoro", "kokoro:float32"]


def test_a_setup_against_itself_is_measured_twice(bench, capsys):
    """It shows what noise is; one measurement compared with itself would show none."""
    prices = iter((0.1, 0.2))
    bench.price = lambda setup: next(prices)
    told = said(capsys, "--compare", "kokoro", "kokoro", "--rounds", "1")
    assert "B is 2.0 times slower" in told.out


def test_files_of_earlier_runs_are_compared(bench, tmp_path, capsys):
    (tmp_path / "a.json").write_text(said(capsys, "--json", "--rounds", "1").out)
    bench.price = lambda setup: 0.15
    (tmp_path / "b.json").write_text(said(capsys, "--json", "--rounds", "1").out)
    bench.asked.clear()
    told = said(capsys, "--compare", "a.json", "b.json", "--json", "--plot", "ab.html")
    ratios = {ratio["figure"]: ratio for ratio in json.loads(told.out)["compared"]}
    assert ratios["latency_p50"]["ratio"] == 1.5
    assert ratios["latency_p50"]["meaning"] == "B is 1.5 times slower"
    assert bench.asked == []
    assert "not measured in turns" in told.err
    assert (tmp_path / "ab.html").exists()


def test_a_file_against_a_setup(bench, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("你好。", "utf-8")
    (tmp_path / "a.json").write_text(said(capsys, "--json", "--rounds", "1", "--sentences", "mine.txt").out)
    told = said(capsys, "--compare", "a.json", "kokoro:float32")
    assert "B is 2.0 times slower" in told.out
    assert "the texts are not the same" in told.err


# --tune


def test_tune_keeps_what_is_faster_and_reset_forgets_it(bench, capsys):
    bench.price = lambda setup: 0.1 if setup.tuning.threads == 1 else 0.15
    told = said(capsys, "--tune")
    assert "1 thread, optimisation all, buffers not shared, spinning within: costs 33.3% less" in told.out
    assert str(tuning.path()) in told.err
    assert tuning.current(2) == Tuning(threads=1)
    kept = json.loads(tuning.path().read_text("utf-8"))
    assert kept["cpu"] == machine.cpu_name()
    assert runtime.threads() == 1
    assert {setup.provider for setup, _, _ in bench.asked} == {"cpu"}
    assert str(tuning.path()) in said(capsys, "--reset").err
    assert runtime.threads() == 2
    assert "nothing was kept" in said(capsys, "--reset").err


def test_tune_keeps_nothing_where_the_defaults_are_best(bench, capsys):
    """What was kept before stays: it was measured too, and the defaults only stood in for it."""
    told = said(capsys, "--tune", "--json", "-q")
    found = json.loads(told.out)
    assert (found["better"], found["file"], found["decision"]) == (False, None, "nothing beats the defaults")
    assert len(found["tried"]) == 2 + 5
    assert not tuning.path().exists()


def test_tune_with_threads_that_are_set(bench, capsys, monkeypatch):
    """It would write what COSY_THREADS then overrides, and measure nothing but that number."""
    monkeypatch.setenv("COSY_THREADS", "2")
    assert "unset COSY_THREADS" in said(capsys, "--tune", code=2).err
    assert bench.asked == []


def test_tune_refuses_a_busy_machine(bench, capsys, monkeypatch):
    """Others computed on both cores. One thread cost half of what two did, round after round, and was kept for all
    later processes: steady contention is no noise, and no number of rounds shows it.
    """
    bench.price = lambda setup: 0.1 if setup.tuning.threads == 1 else 0.2
    monkeypatch.setattr(os, "getloadavg", lambda: (5.8, 0.0, 0.0), raising=False)
    told = said(capsys, "--tune", code=1)
    assert "load 5.8 on 2 CPUs" in told.err
    assert bench.asked == []
    assert not tuning.path().exists()
    monkeypatch.setattr(os, "cpu_count", lambda: 64)  # a container of two cores on a large host
    said(capsys, "--tune")
    monkeypatch.delattr(os, "getloadavg")
    assert machine.busy() is None


def test_an_interrupted_tune_writes_nothing(bench, capsys):
    def interrupt(setup):
        if len(bench.asked) == 20:
            raise KeyboardInterrupt
        return 0.1 if setup.tuning.threads == 1 else 0.15

    bench.price = interrupt
    said(capsys, "--tune", code=130)
    assert not tuning.path().exists()


# The machine


def test_a_gpu_is_named(monkeypatch):
    from cosycli import providers

    monkeypatch.setattr(providers, "has_nvidia", lambda: True)
    monkeypatch.setattr(machine, "_lines", lambda *command: ["NVIDIA H200"] if command[0] == "nvidia-smi" else [])
    assert machine.machine()["gpu"] == ["NVIDIA H200"]
    monkeypatch.setattr(providers, "has_nvidia", lambda: False)
    assert machine.machine()["gpu"] == []


def test_a_tool_that_is_missing_or_fails_is_no_error():
    assert machine._lines("no-such-tool-here") == []
    assert machine._lines(sys.executable, "-c", "import sys; sys.exit(1)") == []
    assert machine._lines(sys.executable, "-c", "print(' a \\n\\nb')") == ["a", "b"]


def test_shipped_texts_are_short_and_long_and_of_both_languages():
    texts = shipped_texts()
    assert min(map(len, texts)) < 15
    assert max(map(len, texts)) > 120
    assert any(text.isascii() for text in texts)
