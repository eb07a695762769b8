"""Looks at everything `cosy speak` depends on, one small check each, and names the command that mends what is wrong.

Builds nothing, changes nothing, never raises: a check that crashes is itself a finding.
"""

from __future__ import annotations

import locale
import os
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "note", "FAIL"]
NEEDED_MB = 350  # free disk that assembling the voice takes


@dataclass(frozen=True)
class Finding:
    """One line: "FAIL" keeps `cosy speak -o FILE` from working, "note" does not."""

    check: str
    state: State
    found: str
    mend: str = ""


def python() -> Finding:
    """The interpreter's version."""
    version = platform.python_version()
    where = f"{version} on {platform.system()} {platform.machine()}"
    if not (3, 10) <= sys.version_info[:2] <= (3, 13):
        return Finding("Python", "note", f"{where}: 3.10 to 3.13 are tested", "use one of them")
    return Finding("Python", "ok", where)


def wheels() -> Finding:
    """Which ONNX Runtime wheels there are; two overwrite each other's files."""
    from cosycli import runtime

    conflict = runtime.wheel_conflict()
    if conflict:
        return Finding("ONNX Runtime", "FAIL", *conflict)
    found = runtime.installed_wheels()
    if not found:
        return Finding("ONNX Runtime", "FAIL", "no wheel is installed", "pip install onnxruntime-gpu")
    return Finding("ONNX Runtime", "ok", ", ".join(f"{name} {version}" for name, version in found.items()))


def cpu() -> Finding:
    """Whether a session opens and runs on the CPU, and in which precision."""
    from cosycli import runtime

    reason = runtime.provider_opens("cpu")
    if reason:
        return Finding("CPU", "FAIL", reason, "pip install --force-reinstall onnxruntime-gpu")
    return Finding("CPU", "ok", f"{runtime.threads()} threads, {runtime.why()}")


def gpu() -> Finding:
    """Whether a GPU provider that onnxruntime lists really opens a session."""
    from cosycli import providers, runtime

    if not providers.has_nvidia() and sys.platform == "linux":
        return Finding("GPU", "ok", "no NVIDIA GPU: the CPU is used")
    listed = [n for n, full in providers.NAMES.items() if n != "cpu" and full in runtime.listed_providers()]
    refused = {name: runtime.provider_opens(name) for name in listed}
    working = [name for name, reason in refused.items() if reason is None]
    if working:
        return Finding("GPU", "ok", f"{' and '.join(working)} work")
    if not refused:
        return Finding("GPU", "note", "this onnxruntime has no GPU provider", f"pip install '{providers.GPU_WHEEL}'")
    name, reason = next(reversed(refused.items()))
    return Finding("GPU", "note", reason or "", providers.how_to_mend(name, reason or ""))


def sound() -> Finding:
    """How sound would be played."""
    from cosycli.audio import devices
    from cosycli.errors import AudioDeviceError

    try:
        return Finding("Sound", "ok", devices.check())
    except AudioDeviceError as error:
        return Finding("Sound", "note", f"{error.message}; files and pipes work", error.hint)


def packages() -> Finding:
    """The four packages that hold the voice's weights."""
    from cosycli.backends.kokoro.weights import part_paths
    from cosycli.errors import ModelError

    try:
        size = sum(path.stat().st_size for path in part_paths())
    except ModelError as error:
        return Finding("Voice packages", "FAIL", error.message, error.hint)
    return Finding("Voice packages", "ok", f"4 of 4, {size / 1e6:.0f} MB")


def cache() -> Finding:
    """The assembled voice: there, of this version, and whole to the last byte."""
    from cosycli.bundles import embedded, store

    folder = store.bundle_path(embedded.NAME)
    manifest = store.read_manifest(folder)
    if manifest is None:
        return Finding("Voice cache", "note", f"not assembled yet in {folder}", "cosy warmup, or just speak")
    size = sum(size for size, _ in manifest.files.values()) / 1e6
    if manifest.version != embedded.wanted().version:
        return Finding("Voice cache", "note", f"of another version, in {folder}: it is assembled anew by itself")
    if not store.intact(folder, manifest, thorough=True):
        return Finding("Voice cache", "FAIL", f"damaged, in {folder}", "cosy warmup --rebuild")
    return Finding("Voice cache", "ok", f"{size:.0f} MB in {folder}, whole")


def bundles() -> Finding:
    """What `cosy quantize` made: of this version, and whole to the last byte."""
    from cosycli.bundles import catalog, embedded, store
    from cosycli.errors import CosyError

    made = [name for name in catalog.names() if name != embedded.NAME]
    size = 0
    for name in made:
        try:
            folder, _ = catalog.ensure(name, lambda line: None)
            if not store.intact(folder, catalog.manifest(name), thorough=True):
                raise catalog.damaged(name)
        except CosyError as error:
            used = name == os.environ.get("COSY_MODEL")
            return Finding("Bundles", "FAIL" if used else "note", error.message, error.hint)
        size += sum(size for size, _ in catalog.manifest(name).files.values())
    told = f"{', '.join(made)}: {size / 1e6:.0f} MB, whole" if made else "none besides the embedded voice"
    return Finding("Bundles", "ok", told)


def tuned() -> Finding:
    """What `cosy bench --tune` kept, and whether it holds here."""
    from cosycli import runtime, tuning

    if not tuning.path().is_file():
        return Finding("Tuning", "ok", "the defaults")
    chosen = tuning.current(runtime.available_cores())
    if chosen == tuning.DEFAULT:
        where = f"{tuning.path()} is for another machine or version and not used"
        return Finding("Tuning", "note", where, "cosy bench --tune")
    return Finding("Tuning", "ok", f"{chosen}, from {tuning.path()}")


def voices() -> Finding:
    """The speakers and the one by default."""
    from cosycli.bundles import catalog
    from cosycli.engine import Engine, default_model

    chosen = os.environ.get("COSY_MODEL") or default_model()
    speaker = Engine(chosen).voice().name
    names = {model: len(Engine(model).voices()) for model in catalog.names()}
    told = ", ".join(f"{model} with {count} voices" for model, count in names.items())
    return Finding("Models", "ok", f"{told}; {speaker} of {chosen} speaks by default")


def lexicon() -> Finding:
    """The user's own pronunciations, if there are any."""
    from cosycli.errors import CosyError
    from cosycli.text.lexicon import Lexicon, user_lexicon_path

    path = user_lexicon_path()
    if not path.is_file():
        return Finding("Lexicon", "ok", f"none at {path}")
    try:
        Lexicon.load(path)
    except CosyError as error:
        return Finding("Lexicon", "FAIL", error.message, error.hint)
    return Finding("Lexicon", "ok", str(path))


def disk() -> Finding:
    """Free space where the voice is or will be."""
    from cosycli.bundles import store

    place = store.home()
    while not place.exists() and place != place.parent:
        place = place.parent
    free = shutil.disk_usage(place).free / 1e6
    if free < NEEDED_MB and cache().state != "ok":
        mend = "free some space, or set COSY_HOME to another disk"
        return Finding("Disk", "FAIL", f"{free:.0f} MB free at {place}, {NEEDED_MB} are needed", mend)
    return Finding("Disk", "ok", f"{free / 1e3:.1f} GB free at {place}")


def encoding() -> Finding:
    """How words reach us and leave."""
    name = getattr(sys.stdout, "encoding", None) or locale.getpreferredencoding(False)
    if name.lower().replace("-", "") not in ("utf8", "gb18030", "gbk", "cp65001"):
        return Finding("Encoding", "note", f"{name}: Chinese is shown as escapes", "export LC_ALL=C.UTF-8")
    return Finding("Encoding", "ok", name)


def settings() -> Finding:
    """COSY_* variables in effect."""
    found = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("COSY_")]
    return Finding("Settings", "ok", ", ".join(found) or "no COSY_* variable is set")


CHECKS: tuple[Callable[[], Finding], ...] = (
    python, wheels, cpu, gpu, tuned, sound, packages, cache, bundles, voices, lexicon, disk, encoding, settings,
)  # fmt: skip


def examine(checks: tuple[Callable[[], Finding], ...] = CHECKS) -> list[Finding]:
    """All findings, in order."""
    return [_guarded(check) for check in checks]


def _guarded(check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except Exception as error:
        hint = getattr(error, "hint", "") or "report this, with the output of cosy doctor --json"
        return Finding(check.__name__, "FAIL", f"{type(error).__name__}: {error}", hint)


def healthy(findings: list[Finding]) -> bool:
    """Whether `cosy speak -o FILE` would work."""
    return all(finding.state != "FAIL" for finding in findings)
