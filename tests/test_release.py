"""Which folders are releases that can be converted, and what is said of the others."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import checkpoints, torchfile

from cosycli.convert import release
from cosycli.errors import ModelError


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoints.write_release(tmp_path_factory.mktemp("release"), 3)


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """The same files again, which a test may remove."""
    for path in whole.rglob("*"):
        target = tmp_path / path.relative_to(whole)
        if path.is_dir():
            target.mkdir()
        else:
            target.hardlink_to(path)
    return tmp_path


def refused(folder: Path, reason: str) -> None:
    with pytest.raises(ModelError, match=reason), release.opened(folder):
        pass


@pytest.mark.parametrize(("version", "fmax"), [(2, 8000.0), (3, None)])
def test_a_release_says_what_it_is(tmp_path: Path, version: int, fmax: float | None) -> None:
    checkpoints.write_release(tmp_path, version)
    with release.opened(tmp_path) as found:
        assert (found.version, found.fmax, found.speech) == (version, fmax, 96)
        assert found.speech_tokenizer is not None
        assert found.voices is None
        assert found.config["hidden_size"] == 128


def test_the_width_of_version_2s_attention_heads_is_read(tmp_path: Path) -> None:
    checkpoints.write_release(tmp_path, 2, encoders=False)
    with release.opened(tmp_path) as found:
        assert found.head is None
    with (tmp_path / "cosyvoice2.yaml").open("a") as file:
        file.write("flow: !new:f\n  decoder: !new:d\n    estimator: !new:e\n      attention_head_dim: 32\n")
    with release.opened(tmp_path) as found:
        assert found.head == 32


def test_the_tuned_language_model_is_taken_where_it_is_asked_for(folder: Path) -> None:
    refusal = pytest.raises(ModelError, match=r"llm\.rl\.pt")
    with refusal, release.opened(folder, tuned=True):
        pass
    (folder / "llm.rl.pt").hardlink_to(folder / "llm.pt")
    with release.opened(folder, tuned=True) as found:
        assert found.llm.path.name == "llm.rl.pt"
    with release.opened(folder) as found:
        assert found.llm.path.name == "llm.pt"
    (folder / "llm.pt").unlink()
    with release.opened(folder) as found:
        assert found.llm.path.name == "llm.rl.pt"


def test_files_that_are_missing_are_named(folder: Path) -> None:
    (folder / "flow.pt").unlink()
    (folder / "CosyVoice-BlankEN" / "config.json").unlink()
    refused(folder, r"lacks flow\.pt, CosyVoice-BlankEN/config\.json")


def test_other_folders_get_an_answer(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "there is no folder")
    refused(tmp_path, "holds no release")
    (tmp_path / "cosyvoice.yaml").touch()
    refused(tmp_path, "CosyVoice 1")
    (tmp_path / "cosyvoice.yaml").unlink()
    (tmp_path / "llm_backbone_initial_fp16.onnx").touch()
    refused(tmp_path, "cannot stream")


def test_two_versions_in_one_folder_are_refused(folder: Path) -> None:
    (folder / "cosyvoice2.yaml").touch()
    refused(folder, "cosyvoice2.yaml and cosyvoice3.yaml")


def test_a_checkpoint_of_another_version_is_refused(folder: Path) -> None:
    (folder / "cosyvoice3.yaml").rename(folder / "cosyvoice2.yaml")
    refused(folder, "not of CosyVoice 2")


def test_a_yaml_never_makes_objects(folder: Path) -> None:
    (folder / "cosyvoice3.yaml").unlink()
    mark = folder / "mark"
    (folder / "cosyvoice3.yaml").write_text(
        f"a: !!python/object/apply:pathlib.Path.touch [{mark}]\nfeat_extractor: !new:os.system [touch {mark}]\n"
    )
    refused(folder, "damaged")
    assert not mark.exists()


def test_a_vocoder_from_training_is_read(folder: Path) -> None:
    (folder / "hift.pt").unlink()
    tensors = {f"generator.{key}": value for key, value in checkpoints.tiny(3, "hift").items()}
    extra = checkpoints.tiny(3, "flow")["input_embedding.weight"]
    torchfile.write(folder / "hift.pt", {**tensors, "mpd.x": extra, "discriminator.y": extra})
    with release.opened(folder) as found:
        assert set(found.hift) == set(checkpoints.tiny(3, "hift"))
