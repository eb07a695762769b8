"""A folder as the official release has it: which version it is, and what lies in it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cosycli.convert.checkpoint import Checkpoint
from cosycli.errors import ModelError

CONFIGS = {2: "cosyvoice2.yaml", 3: "cosyvoice3.yaml"}
OLD = ("cosyvoice.yaml",)
BLANK = "CosyVoice-BlankEN"  # the language model's own folder
# Of the public layout that cuts version 3 into graphs: none of them keeps what streaming needs.
ONNX = ("llm_backbone_initial_fp16.onnx", "llm_backbone_decode_fp16.onnx", "flow_pre_lookahead_fp16.onnx")
PULL = "get the official release: cosy pull cosyvoice3"
NEEDED = {
    "llm": ("llm_decoder.weight", "speech_embedding.weight", "llm.model.model.embed_tokens.weight"),
    "flow": ("input_embedding.weight", "spk_embed_affine_layer.weight"),
    "hift": ("conv_pre.bias", "conv_post.bias", "f0_predictor.classifier.weight", "m_source.l_linear.weight"),
}
OWN = {
    2: {"llm": ("llm_embedding.weight",), "flow": ("encoder.embed.out.0.weight",)},
    3: {"flow": ("decoder.estimator.proj_out.weight",)},
}


@dataclass(frozen=True)
class Release:
    """An opened release. Paths of what it need not have are None."""

    folder: Path
    version: int
    llm: Checkpoint
    flow: Checkpoint
    hift: Checkpoint
    config: Mapping[str, Any]  # the language model's
    fmax: float | None  # of the flow's mel, in Hz; None is half the rate
    head: int | None  # width of the attention heads in version 2's flow
    tokenizer: Path | None  # the folder of vocab.json and merges.txt
    speech_tokenizer: Path | None
    speaker_encoder: Path | None
    voices: Path | None  # spk2info.pt

    @property
    def sources(self) -> tuple[Path, ...]:
        """The files that a bundle is made of."""
        known = (
            self.llm.path,
            self.flow.path,
            self.hift.path,
            self.speech_tokenizer,
            self.speaker_encoder,
            self.voices,
        )
        return tuple(path for path in known if path)

    @property
    def speech(self) -> int:
        """How many speech tokens there are."""
        return self.flow.shape("input_embedding.weight")[0]


def is_onnx_layout(folder: Path) -> bool:
    """Whether a folder is the public export of version 3 to ONNX."""
    return any((folder / name).is_file() for name in ONNX) or bool(list(folder.glob("llm_backbone_*.onnx")))


@contextlib.contextmanager
def opened(folder: Path, *, tuned: bool = False) -> Iterator[Release]:
    """Open a release; `tuned` takes the language model that was tuned by reinforcement learning, llm.rl.pt.

    Raises ModelError for what is no release of version 2 or 3, or not all of one.
    """
    version = _version(folder)
    llm = "llm.rl.pt" if tuned or not (folder / "llm.pt").is_file() else "llm.pt"
    llm = llm if (folder / llm).is_file() or tuned else "llm.pt"
    missing = [name for name in (llm, "flow.pt", "hift.pt", f"{BLANK}/config.json") if not (folder / name).is_file()]
    if missing:
        raise ModelError(f"{folder} lacks {', '.join(missing)}", "download it again, whole: cosy pull resumes")
    yaml = _settings(folder / CONFIGS[version])
    with contextlib.ExitStack() as stack:
        parts = {
            "llm": stack.enter_context(Checkpoint(folder / llm)),
            "flow": stack.enter_context(Checkpoint(folder / "flow.pt")),
            "hift": stack.enter_context(
                Checkpoint(folder / "hift.pt", prefix="generator.", without=("discriminator", "mpd", "mrd"))
            ),
        }
        for part, checkpoint in parts.items():
            for key in (*NEEDED[part], *OWN[version].get(part, ())):
                if key not in checkpoint:
                    raise ModelError(
                        f"{checkpoint.path} is not of CosyVoice {version}: it has no {key}", "download the model again"
                    )
        blank = folder / BLANK
        tokenizer = blank if (blank / "vocab.json").is_file() and (blank / "merges.txt").is_file() else None
        yield Release(
            folder=folder,
            version=version,
            llm=parts["llm"],
            flow=parts["flow"],
            hift=parts["hift"],
            config=_json(blank / "config.json"),
            fmax=_number(yaml, "feat_extractor", "fmax"),
            head=round(_number(yaml, "flow", "decoder", "estimator", "attention_head_dim") or 0) or None,
            tokenizer=tokenizer,
            speech_tokenizer=_there(folder / f"speech_tokenizer_v{version}.onnx"),
            speaker_encoder=_there(folder / "campplus.onnx"),
            voices=_there(folder / "spk2info.pt"),
        )


def _there(path: Path) -> Path | None:
    return path if path.is_file() else None


def _version(folder: Path) -> int:
    if not folder.is_dir():
        raise ModelError(f"there is no folder {folder}", f"give the folder of a release, or {PULL}")
    if is_onnx_layout(folder):
        raise ModelError(f"{folder} holds an export to ONNX whose graphs cannot stream", PULL)
    found = [version for version, name in CONFIGS.items() if (folder / name).is_file()]
    if len(found) == 1:
        return found[0]
    if found:
        raise ModelError(f"{folder} holds {' and '.join(CONFIGS[v] for v in found)}", "remove the one it is not")
    if any((folder / name).is_file() for name in OLD):
        raise ModelError(f"{folder} holds CosyVoice 1, which cannot stream exactly", PULL)
    raise ModelError(f"{folder} holds no release: no {' and no '.join(CONFIGS.values())}", PULL)


def _json(path: Path) -> Mapping[str, Any]:
    try:
        made = json.loads(path.read_text("utf-8"))
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads"):
            int(made[key])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is damaged: {error}", "download the model again") from error
    return dict(made)


def _settings(path: Path) -> Any:
    """A yaml whose tags name Python objects: they are ignored, never made."""
    import yaml

    plain: Any = type("Plain", (yaml.SafeLoader,), {})

    def value(loader: Any, _: str, node: Any) -> Any:
        if isinstance(node, yaml.MappingNode):
            return loader.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return loader.construct_sequence(node, deep=True)
        return loader.construct_scalar(node)

    plain.add_multi_constructor("!", value)
    try:
        return yaml.load(path.read_text("utf-8"), plain)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {error}", "download the model again") from error


def _number(settings: Any, *way: str) -> float | None:
    """A number of the yaml. The yaml has other mels and models, for training, further down."""
    for key in way:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return float(settings) if isinstance(settings, (int, float)) else None
