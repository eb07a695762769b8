"""CosyVoice 2 and 3 from a checkpoint to a sound file, with tiny models: what they say is noise, how they say it is
checked.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from fakes import checkpoints

from cosycli import cli, engine
from cosycli.backends.cosyvoice import flow, kept, lm
from cosycli.bundles import catalog, store, voices
from cosycli.convert import make
from cosycli.types import Options, Sentence

TEXT = "你好，世界。"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.write_release(tmp_path_factory.mktemp("release"), 3)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recording") / "me.wav"
    t = np.arange(4 * 24000) / 24000
    soundfile.write(path, 0.3 * np.sin(2 * np.pi * 170 * t) * (1.1 + np.sin(2 * np.pi * 4 * t)) / 2, 24000)
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, release: Path, recording: Path) -> Path:
    """A cache with a converted model `tiny` and a voice `me`."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSY_HOME", str(folder))
        patch.setattr(make, "_default_voice", lambda *_: [])
        make.convert(release, "tiny")
        assert cli.program(["voice", "add", "me", "-a", str(recording), "-t", TEXT, "-q"]) == 0
    return folder


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory, recording: Path) -> Path:
    """A cache with the same of version 2: `tiny`, and in float32 `wide`."""
    folder, source = tmp_path_factory.mktemp("older"), tmp_path_factory.mktemp("release2")
    checkpoints.write_release(source, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSY_HOME", str(folder))
        patch.setattr(make, "_default_voice", lambda *_: [])
        for name, precision in (("tiny", "int8"), ("wide", "float32")):
            make.convert(source, name, precision=precision)
        assert cli.program(["voice", "add", "me", "-a", str(recording), "-t", TEXT, "-q"]) == 0
    return folder


@pytest.fixture(params=[2, 3])
def each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The test is of both versions."""
    if request.param == 2:
        monkeypatch.setenv("COSY_HOME", str(request.getfixturevalue("older")))
    return int(request.param)


@pytest.fixture(autouse=True)
def cache(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSY_HOME", str(home))
    monkeypatch.setenv("COSY_CONFIG", str(tmp_path / "config"))
    monkeypatch.setattr(engine, "_process", None)


@pytest.fixture
def own(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the cache that a test may change."""
    shutil.copytree(home, tmp_path / "home")
    monkeypatch.setenv("COSY_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert cli.program(list(arguments)) == code
    return capsys.readouterr()


def spoken(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> Any:
    engine._process = None
    said(capsys, "speak", "-m", "tiny", "--strict", "-o", str(path), *arguments)
    samples, rate = soundfile.read(path, dtype="float32")
    assert rate == 24000
    return samples


def test_a_seed_says_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str], each: int) -> None:
    first, again, other = (spoken(capsys, tmp_path / "a.wav", TEXT, "--seed", seed) for seed in ("1", "1", "2"))
    assert len(first) > 2400
    assert np.array_equal(first, again)
    assert len(first) != len(other) or not np.array_equal(first, other)


def test_the_seed_that_was_drawn_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str], each: int) -> None:
    _, err = said(capsys, "speak", "-m", "tiny", "--strict", "-o", str(tmp_path / "a.wav"), TEXT)
    seed = err.split("--seed ")[1].split()[0]
    first = soundfile.read(tmp_path / "a.wav", dtype="float32")[0]
    assert np.array_equal(spoken(capsys, tmp_path / "b.wav", TEXT, "--seed", seed), first)


@pytest.mark.parametrize("more", [["--instruct", "用四川话说"], ["--steps", "4"], ["--speed", "1.5"]])
def test_options_change_what_is_heard(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str], each: int
) -> None:
    plain = spoken(capsys, tmp_path / "a.wav", TEXT, "--seed", "1")
    other = spoken(capsys, tmp_path / "b.wav", TEXT, "--seed", "1", *more)
    assert len(plain) != len(other) or np.abs(plain - other).max() > 1e-3


def test_a_prompt_is_solved_once_and_for_all_processes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each `cosy speak` spent its first four seconds on the voice's recording: nine to the first sound, now five."""
    shutil.rmtree(own / "solved", ignore_errors=True)
    monkeypatch.setattr(kept, "SPARE", 0)
    solved: list[int] = []
    solve = flow.Stream.solve_prompt
    monkeypatch.setattr(flow.Stream, "solve_prompt", lambda stream: solved.append(1) or solve(stream))
    first = spoken(capsys, tmp_path / "a.wav", TEXT, "--seed", "1")
    for thread in threading.enumerate():
        if thread.name == cli.SAVING:
            thread.join()
    again = spoken(capsys, tmp_path / "a.wav", TEXT, "--seed", "1")
    assert len(solved) == 1
    assert np.array_equal(first, again)
    spoken(capsys, tmp_path / "a.wav", TEXT, "--seed", "1", "--steps", "4")
    assert len(solved) == 2
    assert len(list((own / "solved").iterdir())) == 2


def test_control_tokens_are_text_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    from cosycli.types import Options, Sentence

    backend: Any = engine.Engine("tiny").open()
    heard: list[Any] = []
    backend._lm.generate = lambda request, seed, **_: heard.append(request.text) or iter(())
    voice = engine.Engine("tiny").voice()
    for control in (False, True):
        list(backend.synthesize(Sentence("a[breath]", ""), voice, Options(control=control)))
    breath = backend._tokenizer.encode("[breath]", control=True)[0]
    assert breath not in heard[0]
    assert list(heard[-1]) == [*backend._tokenizer.encode("a[breath]", control=True)]


def drawn(tokens: list[int], watch: Any) -> Any:
    """These tokens, as if the language model had drawn them."""
    for token in tokens:
        watch.add(token)
        yield token


def test_streaming_gives_the_samples_of_the_whole() -> None:
    """What is said must not depend on how the work is cut: one run of flow and vocoder over all tokens is the same.

    1e-4 is allowed for each of the two, so 2e-4 for both: without AVX-512 it was 1.03e-4 once.
    """
    backend: Any = engine.Engine("tiny").open()
    voice = engine.Engine("tiny").voice()
    backend.prepare(voice)
    tokens = np.random.default_rng(0).integers(0, 96, 120)
    stream, speech = backend._stream(voice, 10, None), backend._vocoder.stream()
    stream.solve_prompt()  # in which the ranges of the caches are found
    whole = speech.feed(stream.feed(tokens, last=True), last=True)
    pieces = list(backend.revoice(tokens, voice))
    assert len(pieces) >= 4
    assert np.abs(np.concatenate(pieces) - whole).max() < 2e-4
    backend._lm.generate = lambda *_, watch, **__: drawn(tokens.tolist(), watch)
    backend._tokenizer.encode = lambda *_, **__: [1] * 50
    streamed = [pcm.samples for pcm in backend.synthesize(Sentence(TEXT, TEXT), voice, Options())]
    assert np.abs(np.concatenate(streamed) - whole).max() < 2e-4


def test_a_sentence_that_goes_wrong_is_tried_again_and_told(capsys: pytest.CaptureFixture[str]) -> None:
    from cosycli.types import Options, Sentence

    backend: Any = engine.Engine("tiny").open()
    voice = engine.Engine("tiny").voice()
    seeds: list[int] = []

    def generate(request: Any, seed: int, *, watch: Any, **_: Any) -> Any:
        seeds.append(seed)
        return drawn([] if len(seeds) == 1 else [5, 6, 7, 8] * 3, watch)

    backend._lm.generate = generate
    pieces = list(backend.synthesize(Sentence("你好", ""), voice, Options(seed=3)))
    assert len(set(seeds)) == 2
    assert "said nothing" in pieces[0].note
    assert "another seed" in pieces[0].note
    assert sum(len(pcm.samples) for pcm in pieces) == 12 * 960
    assert pieces[-1].last


class Arriving:
    """Text that comes piece by piece, none of them soon."""

    def __init__(self, *pieces: str) -> None:
        self.pieces, self.taken = pieces, 0

    def __iter__(self) -> Iterator[str]:
        for piece in self.pieces:
            self.taken += 1
            yield piece

    def ready(self, seconds: float) -> bool:
        return False


ARRIVING = ("一二三四五六七八九十，", "二三四五六七八九十，", *["三四五六七八九，"] * 6, "完了。", "再见。")


def heard_live(text: Any, seed: int) -> tuple[Any, list[int]]:
    """The samples, and how many pieces of the text had been taken when each chunk came."""
    samples, taken = [], []
    for chunk in engine.Engine("tiny").stream(text, voice="me", options=Options(seed=seed)):
        samples.append(chunk.samples)
        taken.append(text.taken)
    return np.concatenate(samples), taken


def test_speech_begins_before_the_sentence_is_complete(each: int) -> None:
    text = Arriving(*ARRIVING)
    samples, taken = heard_live(text, 3)
    assert taken[0] < len(ARRIVING) - 3
    assert text.taken == len(ARRIVING)
    assert np.isfinite(samples).all()
    assert len(samples) > 24000
    finer = Arriving(*"".join(ARRIVING))  # what is said depends on the text, not on when it came
    assert np.array_equal(heard_live(finer, 3)[0], samples)


def test_a_sentence_that_goes_wrong_while_it_arrives_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[list[int]] = []

    def bistream(self: Any, text: Any, seed: int, *, watch: Any, **rules: Any) -> Iterator[int]:
        said.append([token for ids in text for token in ids])
        watch.expect(len(said[-1]))
        yield from drawn([] if len(said) == 1 else list(range(10, 70)), watch)

    monkeypatch.setattr(lm.LanguageModel, "bistream", bistream)
    notices: list[str] = []
    made = engine.Engine("tiny").stream(
        Arriving(*ARRIVING[:3], *ARRIVING[-2:]), voice="me", options=Options(seed=1), notice=notices.append
    )
    assert sum(len(chunk.samples) for chunk in made) > 24000
    assert said[0] == said[1]
    assert notices[0] == (f"it said nothing; trying again with another seed: {''.join(ARRIVING[:3])}完了。")


def test_version_2_is_heard_whole_and_without_a_joint(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its vocoder draws noise anew for every chunk; without any, a joint is heard only if something is lost."""
    monkeypatch.setenv("COSY_HOME", str(older))
    backend: Any = engine.Engine("wide").open()
    voice = engine.Engine("wide").voice()
    monkeypatch.setattr(type(backend._vocoder), "source", lambda _, phase, *__: np.zeros(len(phase), np.float32))
    tokens = np.random.default_rng(0).integers(0, 96, 120)
    stream, speech = backend._stream(voice, 10, None), backend._vocoder.stream()
    whole = speech.feed(stream.feed(tokens, last=True), last=True)
    streamed = np.concatenate(list(backend.revoice(tokens, voice)))
    assert len(whole) == len(streamed) == 120 * 960
    assert np.sqrt(np.mean((whole - streamed) ** 2)) < 0.05 * np.sqrt(np.mean(whole**2))


def test_int8_of_version_2_says_nearly_what_float32_says(older: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSY_HOME", str(older))
    tokens = np.random.default_rng(0).integers(0, 96, 60)
    mels = []
    for model in ("wide", "tiny"):
        backend: Any = engine.Engine(model).open()
        assert backend.version == 2
        mels.append(backend._stream(engine.Engine(model).voice(), 10, None).feed(tokens, last=True))
    assert np.abs(mels[0] - mels[1]).max() > 0
    assert np.sqrt(np.mean((mels[0] - mels[1]) ** 2)) < 0.05 * np.std(mels[0])


def written(folder: Path, texts: Sequence[str]) -> list[str]:
    paths = [folder / f"{place}.txt" for place, _ in enumerate(texts)]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, "utf-8")
    return [str(path) for path in paths]


def heard(folder: Path, names: Iterable[str]) -> list[Any]:
    return [soundfile.read(folder / f"{name}.wav", dtype="float32")[0] for name in names]


def test_file_decodes_the_sentences_of_several_texts_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight sentences of a batch take 3.7 times as long as one; what is said is the same."""
    together = lm.LanguageModel.generate_together
    batches: list[int] = []
    monkeypatch.setattr(
        lm.LanguageModel,
        "generate_together",
        lambda model, requests, *more, **rules: (
            batches.append(len(requests)) or together(model, requests, *more, **rules)
        ),
    )
    texts = [TEXT, f"{TEXT}\n\n第二段。\n\n第三段。", *(f"{count}个人。" for count in range(2, 9))]
    paths = written(tmp_path, texts)
    engine._process = None
    said(capsys, "file", *paths, "-m", "tiny", "--strict", "-d", str(tmp_path / "a"))
    assert batches == [8, 3]
    monkeypatch.setattr(lm.LanguageModel, "generate_together", None)
    for path in paths[:3]:
        engine._process = None
        monkeypatch.setattr("cosycli.backends.cosyvoice.backend.TOGETHER", 1)
        said(capsys, "file", path, "-m", "tiny", "--strict", "-d", str(tmp_path / "b"))
    for first, second in zip(heard(tmp_path / "a", "012"), heard(tmp_path / "b", "012"), strict=True):
        assert len(first) == len(second) > 2400
        assert np.abs(first - second).max() < 1e-3


def test_a_sentence_that_loses_its_way_in_a_batch_is_tried_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is known before anything of it has been made."""
    together, alone = lm.LanguageModel.generate_together, lm.LanguageModel.generate
    seeds: list[int] = []

    def lost(model: Any, requests: Any, given: Any, *, watches: Any, **rules: Any) -> Any:
        found = together(model, requests, given, watches=watches, **rules)
        watches[1].cut()
        return found

    monkeypatch.setattr(lm.LanguageModel, "generate_together", lost)
    monkeypatch.setattr(
        lm.LanguageModel,
        "generate",
        lambda model, request, seed, **rules: seeds.append(seed) or alone(model, request, seed, **rules),
    )
    engine._process = None
    told = said(capsys, "file", *written(tmp_path, [TEXT, "两个人。"]), "-m", "tiny", "--strict", "--seed", "5")[1]
    assert "it had not ended" in told
    assert "trying again with another seed: 两个人。" in told
    assert len(seeds) == 1
    assert seeds[0] != 5
    assert all(len(samples) > 2400 for samples in heard(tmp_path, "01"))


def test_file_leaves_alone_what_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str], own: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT, "utf-8")
    command = ["file", str(tmp_path / "a.txt"), "-m", "tiny", "--strict"]
    said(capsys, *command)
    before = (tmp_path / "a.wav").stat().st_mtime_ns
    said(capsys, *command)
    assert (tmp_path / "a.wav").stat().st_mtime_ns == before
    pack = voices.read(voices.paths(3)["me"])
    voices.write(voices.paths(3)["me"], voices.Pack("me", pack.text, {**pack.arrays, "speaker": pack.arrays["mel"][0]
                 .repeat(3)[:192]}, pack.facts))  # fmt: skip
    engine._process = None
    said(capsys, *command)
    assert (tmp_path / "a.wav").stat().st_mtime_ns > before


def test_another_model_has_none_of_these_options(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, err = said(capsys, "speak", "-m", "kokoro", "--steps", "4", "-o", str(tmp_path / "a.wav"), TEXT, code=2)
    assert "kokoro has no --steps" in err
    engine._process = None
    _, err = said(capsys, "speak", "-m", "tiny", "--steps", "11", "-o", str(tmp_path / "a.wav"), TEXT, code=2)
    assert "11 solver steps" in err
    assert not (tmp_path / "a.wav").exists()


def test_what_was_said_is_said_in_another_voice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recording: Path, each: int
) -> None:
    said(capsys, "convert-voice", "-m", "tiny", str(recording), "-o", str(tmp_path / "b.wav"), "-V", "me")
    assert abs(soundfile.info(tmp_path / "b.wav").duration - 4) < 0.3


def test_voices_are_listed_shown_and_removed(capsys: pytest.CaptureFixture[str], own: Path, recording: Path) -> None:
    _, err = said(capsys, "voice", "add", "you", "-a", str(recording))
    assert "across languages" in err
    _, err = said(capsys, "voice", "add", "you", "-a", str(recording), code=2)
    assert "--force" in err
    found = json.loads(said(capsys, "voice", "list", "--json")[0])
    assert [(row["name"], row["transcript"]) for row in found] == [("me", TEXT), ("you", "")]
    assert TEXT in said(capsys, "voice", "show", "me")[0]
    said(capsys, "voice", "rm", "you")
    _, err = said(capsys, "voice", "rm", "you", code=3)
    assert "there is no voice 'you'" in err
    _, err = said(capsys, "voice", "add", "../x", "-a", str(recording), code=2)
    assert "cannot be a voice's name" in err
    _, err = said(capsys, "voice", "add", "x", "-a", str(own / "none.wav"), code=2)
    assert "there is no file" in err
    (own / "text.wav").write_text("no sound")
    _, err = said(capsys, "voice", "add", "x", "-a", str(own / "text.wav"), code=2)
    assert "no sound file" in err


def test_a_voice_without_a_transcript_speaks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: Path, recording: Path
) -> None:
    said(capsys, "voice", "add", "you", "-a", str(recording), "-q")
    mine = spoken(capsys, tmp_path / "a.wav", TEXT, "--seed", "1", "-V", "me")
    yours = spoken(capsys, tmp_path / "b.wav", TEXT, "--seed", "1", "-V", "you")
    assert len(mine) != len(yours) or np.abs(mine - yours).max() > 1e-3


def test_models_are_listed_chosen_and_removed(capsys: pytest.CaptureFixture[str], own: Path) -> None:
    found = {row["name"]: row for row in json.loads(said(capsys, "models", "--json")[0])}
    assert found["tiny"]["family"] == "cosyvoice"
    assert found["kokoro"]["default"]
    said(capsys, "models", "use", "tiny")
    assert engine.default_model() == "tiny"
    _, err = said(capsys, "models", "use", "nobody", code=3)
    assert "there is no model 'nobody'" in err
    _, err = said(capsys, "models", "rm", "kokoro", "-y", code=2)
    assert "part of cosy" in err
    said(capsys, "models", "rm", "tiny", "-y")
    assert engine.default_model() == "kokoro"
    assert catalog.names() == ["kokoro"]
    assert not list((own / "bundles").glob("*tiny*~*"))


def test_a_taken_name_and_a_bad_precision_are_refused(capsys: pytest.CaptureFixture[str], release: Path) -> None:
    _, err = said(capsys, "convert", str(release), "-o", "tiny", code=2)
    assert "--force" in err
    _, err = said(capsys, "convert", str(release), "-o", "other", "--precision", "int3", code=2)
    assert "int3" in err
    _, err = said(capsys, "convert", str(release), "-o", "a/b", code=2)
    assert "a/b" in err


def test_what_breaks_off_leaves_nothing(release: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(make.hift, "build", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make.convert(release, "broken")
    assert [path.name for path in (own / "bundles").iterdir() if "broken" in path.name] == ["broken.lock"]


def test_a_bundle_says_how_it_was_made(release: Path) -> None:
    manifest = catalog.manifest("tiny")
    assert manifest.made["command"] == f"cosy convert {release} -o tiny --precision int8"
    assert set(manifest.made["sources"]) >= {"llm.pt", "flow.pt", "hift.pt"}
    assert manifest.made["sources"]["flow.pt"] == store.file_digest(release / "flow.pt")


def test_float32_sounds_as_int8_does_but_for_rounding(
    release: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make, "_default_voice", lambda *_: [])
    make.convert(release, "precise", precision="float32")
    tokens = np.random.default_rng(0).integers(0, 96, 60)
    rough, precise = (
        np.concatenate(list(engine.Engine(name).open().revoice(tokens, engine.Engine(name).voice())))  # type: ignore[attr-defined]
        for name in ("tiny", "precise")
    )
    assert 0 < np.sqrt(np.mean((rough - precise) ** 2)) < 0.1 * precise.std()


def test_a_flipped_bit_in_the_weights_is_noticed(own: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = own / "bundles" / "tiny" / "flow-step.weights"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)
    _, err = said(capsys, "speak", "-m", "tiny", "-o", str(tmp_path / "a.wav"), TEXT, code=3)
    assert "tiny" in err
    assert "damaged" in err


def test_a_model_without_encoders_has_no_voice_and_says_so(tmp_path: Path, own: Path, capsys: Any) -> None:
    bare = checkpoints.write_release(tmp_path / "bare", 3, encoders=False)
    shutil.rmtree(own / "voices")
    _, err = said(capsys, "convert", str(bare), "-o", "bare")
    assert "no voice can be added" in err
    _, err = said(capsys, "speak", "-m", "bare", "-o", str(tmp_path / "a.wav"), TEXT, code=3)
    assert "no voice yet" in err
