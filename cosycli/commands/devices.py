"""`cosy devices`: where sound can go."""

from __future__ import annotations

from dataclasses import asdict

from cosycli import console
from cosycli.commands.options import JsonOption


def devices(json: JsonOption = False) -> None:
    """List the audio output devices that --device takes."""
    from cosycli.audio.devices import list_devices

    found = list_devices()
    if json:
        console.out_json([asdict(device) for device in found])
        return
    rows = [
        (
            str(d.index),
            d.name,
            d.host_api,
            str(d.channels),
            f"{d.default_rate:g}",
            "default" if d.is_default else "",
        )
        for d in found
    ]
    console.table("Output devices", ("index", "name", "host API", "channels", "rate", ""), rows, right=(0, 3, 4))
