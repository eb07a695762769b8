"""`cosy voices`: who can speak."""

from __future__ import annotations

from cosycli import console
from cosycli.commands.options import JsonOption, ModelOption


def voices(model: ModelOption = None, json: JsonOption = False) -> None:
    """List the voices: name, language, sex, model, licence."""
    from cosycli.engine import Engine, default_model

    engine = Engine(model or default_model())
    found = engine.voices()
    default = engine.default_voice if found else ""
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
