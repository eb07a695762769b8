"""`cosy voices`: who can speak."""

from __future__ import annotations

from cosycli import console
from cosycli.commands.options import JsonOption, ModelOption


def voices(model: ModelOption = None, json: JsonOption = False) -> None:
    """List the voices: name, language, sex, model, licence."""
    from cosycli.bundles.embedded import default_voice
    from cosycli.engine import DEFAULT_MODEL, Engine

    found = Engine(model or DEFAULT_MODEL).family.voices(None)
    default = default_voice()
    if json:
        console.out_json(
            [
                {
                    "name": v.name,
                    "language": v.language,
                    "sex": v.sex,
                    "model": v.model,
                    "licence": v.licence,
                    "default": v.name == default,
                }
                for v in found
            ]
        )
        return
    rows = [(v.name, v.language, v.sex, v.model, v.licence, "default" if v.name == default else "") for v in found]
    console.table("Voices", ("name", "language", "sex", "model", "licence", ""), rows)
