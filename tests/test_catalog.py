"""Bundles by name: what is there, what is refused, and the command that mends what was made by one."""

from __future__ import annotations

import json

import pytest

from cosycli.bundles import catalog, embedded, store
from cosycli.engine import Engine
from cosycli.errors import ModelError, UsageError

COMMAND = "cosy quantize kokoro --to fp16 -o small"


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("COSY_HOME", str(tmp_path))
    return tmp_path


def install(name="small", *, version=None, command=COMMAND):
    """A bundle of one file, as a command would leave it."""
    folder = store.bundle_path(name)
    folder.mkdir(parents=True)
    (folder / "a.onnx").write_bytes(b"graph")
    made = {"command": command} if command else {}
    version = version or embedded.wanted().version
    fields = {"name": name, "family": "kokoro", "version": version, "precision": "fp16", "licence": "Apache-2.0"}
    files = {"a.onnx": (5, store.file_digest(folder / "a.onnx"))}
    (folder / store.MANIFEST).write_text(json.dumps(fields | {"rate": 24000, "made": made, "files": files}))
    return folder


def test_bundles_are_found_by_name():
    """What a command made is a model like the embedded one; scratch folders and broken manifests are none."""
    assert catalog.names() == ["kokoro"]
    folder = install()
    (store.home() / "bundles" / ".small-x1").mkdir()
    (store.home() / "bundles" / "junk").mkdir()
    assert catalog.names() == ["kokoro", "small"]
    assert catalog.ensure("small", print) == (folder, False)
    assert Engine("small").family.voice(None, "zm_yunxi").name == "zm_yunxi"


@pytest.mark.parametrize("name", ["kokorro", "../kokoro", "", ".small-x1", "a/b", "kokoro.lock", "x" * 65])
def test_a_name_that_is_none_is_refused_with_those_that_are(name):
    """The error names what could have been meant, and no path gets out of the cache."""
    install()
    with pytest.raises(ModelError) as caught:
        catalog.manifest(name)
    assert "kokoro, small" in caught.value.hint


def test_damage_names_the_command_that_mends_it():
    """Only the command that made a bundle can mend it; `cosy warmup --rebuild` could not."""
    (install() / "a.onnx").write_bytes(b"grap")
    with pytest.raises(ModelError) as caught:
        catalog.ensure("small", print)
    assert COMMAND in caught.value.hint
    with pytest.raises(UsageError) as refused:
        catalog.ensure("small", print, rebuild=True)
    assert COMMAND in refused.value.hint


def test_an_earlier_version_is_refused():
    """Its graphs would be fed what they do not expect."""
    install(version="0")
    with pytest.raises(ModelError, match="earlier version"):
        catalog.ensure("small", print)


def test_a_bundle_without_a_command_is_to_be_removed():
    """There is still one thing to do."""
    install(version="0", command=None)
    with pytest.raises(ModelError) as caught:
        catalog.ensure("small", print)
    assert "rm -r" in caught.value.hint
