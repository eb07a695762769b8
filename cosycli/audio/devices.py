"""Which way sound can leave this machine, decided in under three seconds and before a model is loaded.

Owns the choice between PortAudio and another player, and the words when there is neither.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cosycli.audio.patience import within
from cosycli.audio.quiet import quiet_stderr
from cosycli.errors import AudioDeviceError, UsageError

if TYPE_CHECKING:
    from cosycli.audio.players import PlayerSink

STARTING = 1.5  # seconds PortAudio may take to look for devices; it takes 0.1
OTHERWISE = "or write to a file with -o FILE, or pipe --raw to a player"
PACKAGES = {  # ID or ID_LIKE in /etc/os-release: how PortAudio is installed there
    "debian": "apt install libportaudio2 (or alsa-utils)",
    "fedora": "dnf install portaudio (or alsa-utils)",
    "arch": "pacman -S portaudio (or alsa-utils)",
    "suse": "zypper install libportaudio2 (or alsa-utils)",
    "alpine": "apk add portaudio (or alsa-utils)",
}


@dataclass(frozen=True)
class Device:
    """An output device as PortAudio lists it."""

    index: int
    name: str
    host_api: str
    channels: int
    default_rate: int
    is_default: bool

    def __str__(self) -> str:
        return f"{self.index}: {self.name} ({self.host_api})"


class NoPortAudio(AudioDeviceError):
    """The library is missing, as against a device."""


def import_sounddevice() -> Any:
    """The sounddevice module; importing it starts PortAudio, which may be missing, or ask a server that hangs."""
    try:
        with quiet_stderr():
            answered = within(STARTING, lambda: importlib.import_module("sounddevice"))
    except (OSError, ImportError) as error:
        raise NoPortAudio("PortAudio, which plays sound, is not installed", how_to_mend()) from error
    if not answered:
        raise AudioDeviceError("the sound system does not answer", how_to_mend(missing=False))
    return sys.modules["sounddevice"]


def list_devices() -> list[Device]:
    """All output devices."""
    sounddevice = import_sounddevice()
    apis = sounddevice.query_hostapis()
    default = _default_index(sounddevice)
    return [
        Device(
            index=index,
            name=str(entry["name"]),
            host_api=str(apis[entry["hostapi"]]["name"]),
            channels=int(entry["max_output_channels"]),
            default_rate=round(float(entry["default_samplerate"])),
            is_default=index == default,
        )
        for index, entry in enumerate(sounddevice.query_devices())
        if entry["max_output_channels"] > 0
    ]


def find_device(spec: str | int) -> Device:
    """The device meant by an index or a part of its name."""
    devices = list_devices()
    found = _matches(devices, str(spec).strip())
    if len(found) == 1:
        return found[0]
    candidates = found or devices
    if not candidates:
        raise AudioDeviceError("there is no audio output device", how_to_mend())
    problem = f"{len(found)} output devices match {str(spec)!r}" if found else f"no output device matches {str(spec)!r}"
    raise UsageError(problem, "use the number of one: " + ", ".join(map(str, candidates)))


def _matches(devices: list[Device], spec: str) -> list[Device]:
    if spec.isdecimal():
        return [device for device in devices if device.index == int(spec)]
    wanted = spec.casefold()
    exact = [device for device in devices if device.name.casefold() == wanted]
    found = exact or [device for device in devices if wanted in f"{device.name} ({device.host_api})".casefold()]
    return [device for device in found if device.is_default] or found if len(found) > 1 else found


def open_speaker(rate: int, device: str | int | None = None, *, preroll: float = 0.0, rtf: float | None = None) -> Any:
    """A sink that plays: the device is open when this returns. Call it before loading a model.

    Without a usable device another player that works is taken; without either, AudioDeviceError.
    """
    from cosycli.audio.speaker import Speaker

    if device is not None:
        return Speaker(rate, find_device(device).index, preroll=preroll, rtf=rtf).open()
    try:
        return Speaker(rate, preroll=preroll, rtf=rtf).open()
    except AudioDeviceError as error:
        return _open_player(rate, preroll, rtf, error)


def check(rate: int = 24000, device: str | int | None = None) -> str:
    """How sound would be played, in words; AudioDeviceError if it cannot."""
    from cosycli.audio.speaker import Speaker

    sink = open_speaker(rate, device)
    if isinstance(sink, Speaker):
        sink.close()
        return f"PortAudio, {sink.report.device} at {sink.report.rate} Hz"
    return str(sink.player.name)


def _open_player(rate: int, preroll: float, rtf: float | None, error: AudioDeviceError) -> PlayerSink:
    from cosycli.audio.players import PlayerSink, find_player, installed_players

    player = find_player(rate)
    if player is not None:
        return PlayerSink(player, rate, preroll=preroll, rtf=rtf)
    tried = ", ".join(installed_players())
    and_players = f", and {tried} cannot play either" if tried else ""
    raise AudioDeviceError(f"{error.message}{and_players}", how_to_mend(isinstance(error, NoPortAudio))) from error


def how_to_mend(missing: bool = True) -> str:
    """What to do about no sound on this platform."""
    if not missing:
        return f"connect a device or start the sound server (see `cosy devices`), {OTHERWISE}"
    if sys.platform in ("darwin", "win32"):
        return f"pip install --force-reinstall sounddevice, {OTHERWISE}"
    return f"{_package_command()}, {OTHERWISE}"


def _package_command() -> str:
    try:
        lines = Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    facts = dict(line.split("=", 1) for line in lines if "=" in line)
    kinds = f"{facts.get('ID', '')} {facts.get('ID_LIKE', '')}".replace('"', "").lower()
    for kind, command in PACKAGES.items():
        if kind in kinds:
            return command
    return "install PortAudio (Debian: libportaudio2) or alsa-utils"


def _default_index(sounddevice: Any) -> int:
    try:
        return int(sounddevice.query_devices(kind="output")["index"])
    except (sounddevice.PortAudioError, ValueError, KeyError):
        return -1
