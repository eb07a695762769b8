"""The official releases on the hubs that carry them. The hubs' own libraries know mirrors, tokens and retries."""

from __future__ import annotations

import fnmatch
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cosycli import console
from cosycli.bundles import store
from cosycli.errors import CosyError, ModelError, UsageError

RELEASES: Mapping[str, Mapping[str, str]] = {
    "cosyvoice3": {
        "huggingface": "FunAudioLLM/Fun-CosyVoice3-0.5B-2512",
        "modelscope": "FunAudioLLM/Fun-CosyVoice3-0.5B-2512",
    },
    "cosyvoice2": {"huggingface": "FunAudioLLM/CosyVoice2-0.5B", "modelscope": "iic/CosyVoice2-0.5B"},
}
SOURCES = ("huggingface", "modelscope")
# A release also holds exports for other engines, of several gigabytes.
FILES = (
    "cosyvoice*.yaml",
    "llm.pt",
    "flow.pt",
    "hift.pt",
    "campplus.onnx",
    "speech_tokenizer_v*.onnx",
    "spk2info.pt",
    "CosyVoice-BlankEN/config.json",
    "CosyVoice-BlankEN/vocab.json",
    "CosyVoice-BlankEN/merges.txt",
)


PIECE = 32 << 20  # bytes that are asked for at once, and at most asked for again


def download(release: str, source: str, *, tuned: bool = False, shown: bool = False) -> Path:
    """The folder of a release; what is there already is not downloaded again, and what broke off goes on.

    `shown` draws a bar.

    Raises UsageError for a name that is not known, ModelError where the library is missing or the hub does not answer.
    """
    if release not in RELEASES:
        raise UsageError(f"there is no release {release!r}", f"choose {' or '.join(RELEASES)}")
    if source not in SOURCES:
        raise UsageError(f"there is no source {source!r}", f"choose {' or '.join(SOURCES)}")
    files = [*FILES, *["llm.rl.pt"] * tuned]
    package = "huggingface_hub" if source == "huggingface" else "modelscope"
    try:
        library: Any = importlib.import_module(package)
    except ImportError as error:
        raise ModelError(f"{source} needs the package {package}", f"pip install {package}") from error
    repository = RELEASES[release][source]
    try:
        if source == "modelscope":
            return Path(library.snapshot_download(repository, allow_patterns=files))
        return _from_huggingface(library, repository, store.home() / "downloads" / release, files, shown)
    except CosyError:
        raise
    except Exception as error:  # the libraries raise what their network layers raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
        raise ModelError(
            f"cannot download {repository} from {source}: {reason}",
            "run it again: it goes on where it was. A mirror: HF_ENDPOINT=https://…"
            if source == "huggingface"
            else "run it again: it goes on where it was. Another source: --source huggingface",
        ) from error


def _from_huggingface(library: Any, repository: str, folder: Path, patterns: list[str], shown: bool) -> Path:
    """Fetch file by file, in pieces: the library's own download forgets what an ended process has of a file."""
    files = {
        path.removeprefix(f"{repository}/"): facts
        for path, facts in library.HfFileSystem().find(repository, detail=True).items()
    }
    wanted = {
        name: facts for name, facts in files.items() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
    if not wanted:
        raise ModelError(f"{repository} holds nothing that a release holds", "is HF_ENDPOINT right?")
    total = sum(facts["size"] for facts in wanted.values())
    with console.work_bar(total, shown=shown) as bar:
        done = 0
        for name, facts in wanted.items():

            def moved(size: int, name: str = name, before: int = done) -> None:
                if bar is not None:
                    bar.show(name, before + size, f"{(before + size) >> 20} of {total >> 20} MB")

            _fetch(library, f"{repository}/{name}", facts, folder / name, moved)
            done += facts["size"]
    return folder


def _fetch(library: Any, path: str, facts: Mapping[str, Any], target: Path, moved: Callable[[int], None]) -> None:
    """One file, from where an earlier attempt ended. A part belongs to one content: it is named after its digest."""
    if target.is_file() and target.stat().st_size == facts["size"]:
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{facts.get('blob_id', '')[:12]}.part")
    with part.open("ab") as file:
        size = file.tell()
        while size < facts["size"]:
            end = min(size + PIECE, facts["size"])
            piece = library.HfFileSystem().cat_file(path, start=size, end=end)
            if len(piece) != end - size:
                raise ModelError(f"{path}: {len(piece)} bytes came instead of {end - size}", "run it again")
            file.write(piece)
            size = end
            moved(size)
    expected = (facts.get("lfs") or {}).get("sha256")
    if expected and store.file_digest(part) != expected:
        part.unlink()
        raise ModelError(f"{target.name} came damaged: it is not what {path} says", "run it again")
    part.replace(target)
