"""`cosy pull` against a server on this machine that plays the hub."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from fakes import checkpoints

from cosycli import cli
from cosycli.bundles import hub

REPOSITORY = hub.RELEASES["cosyvoice3"]["huggingface"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PIECE = 400_000
UNWANTED = "flow.decoder.estimator.fp32.onnx"


class Hub(BaseHTTPRequestHandler):
    """What huggingface_hub asks of its hub. `broken`: files, and where it fails; `damaged`: files."""

    folder: Path
    broken: set[tuple[str, int]]
    damaged: set[str]
    asked: list[tuple[str, int]]  # files, and from where

    def log_message(self, *_: Any) -> None:
        return

    def do_HEAD(self) -> None:
        self.answer(body=False)

    def do_GET(self) -> None:
        self.answer(body=True)

    def answer(self, *, body: bool) -> None:
        path = self.path.split("?")[0]
        files = {str(p.relative_to(self.folder)): p for p in self.folder.rglob("*") if p.is_file()}
        if path.startswith("/api/models/"):
            found: Any = {"id": REPOSITORY, "sha": COMMIT, "siblings": [{"rfilename": name} for name in files]}
            if "/tree/" in path:
                under = path.split("/tree/", 1)[1].partition("/")[2]
                found = [facts(name, p) for name, p in files.items() if name.startswith(under)]
            self.send(200, json.dumps(found).encode(), {"Content-Type": "application/json"}, body)
            return
        name = path.split("/resolve/", 1)[-1].partition("/")[2]
        if name not in files:
            self.send(404, b"", {"X-Error-Code": "EntryNotFound"}, body)
            return
        data = files[name].read_bytes()
        headers = {"ETag": f'"{etag(files[name])}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        first, last = 0, len(data) - 1
        asked = self.headers.get("Range", "")
        if asked:
            first, last = (int(value) for value in asked.removeprefix("bytes=").split("-"))
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        if body:
            self.asked.append((name, first))
        if body and (name, first) in self.broken:
            self.send(403, b"", {}, body)  # the library tries others again and again
            return
        piece = bytearray(data[first : last + 1])
        if name in self.damaged:
            piece[0] ^= 1
        self.send(206 if asked else 200, bytes(piece), headers, body)

    def send(self, code: int, data: bytes, headers: dict[str, str], body: bool) -> None:
        self.send_response(code)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if body:
            self.wfile.write(data)


def facts(name: str, path: Path) -> dict[str, Any]:
    """A file as the hub lists it: a large one by its SHA-256."""
    size, made = path.stat().st_size, {"type": "file", "path": name, "oid": etag(path)}
    if path.suffix != ".pt":
        return {**made, "size": size}
    sha = hashlib.sha256(path.read_bytes()).hexdigest()
    return {**made, "size": size, "lfs": {"oid": sha, "size": size, "pointerSize": 130}}


def etag(path: Path) -> str:
    return hashlib.sha1(path.read_bytes()).hexdigest()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    folder = checkpoints.write_release(tmp_path / "release", 3, encoders=False)
    (folder / UNWANTED).write_bytes(b"large")
    kind = type("Kind", (Hub,), {"folder": folder, "broken": set(), "damaged": set(), "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield kind, server.server_address[1]
    server.shutdown()
    server.server_close()


def pulled(tmp_path: Path, port: int, *more: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: the library reads its environment when it is imported."""
    known = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
    env = known | {
        "HF_ENDPOINT": f"http://127.0.0.1:{port}",
        "HF_HOME": str(tmp_path / "hf"),
        "COSY_HOME": str(tmp_path / "home"),
        "COSY_CONFIG": str(tmp_path / "config"),
    }
    small = f"import sys; from cosycli import cli; from cosycli.bundles import hub; hub.PIECE = {PIECE}"
    small += "; sys.exit(cli.program(sys.argv[1:]))"
    command = [sys.executable, "-c", small, "pull", "cosyvoice3", *more]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


def test_a_release_is_downloaded_and_converted(server: Any, tmp_path: Path) -> None:
    hub_, port = server
    done = pulled(tmp_path, port, "-o", "mine")
    assert done.returncode == 0, done.stderr
    assert "cosy speak --model mine" in done.stderr
    assert (tmp_path / "home" / "bundles" / "mine" / "lm.onnx").is_file()
    assert UNWANTED not in {name for name, *_ in hub_.asked}
    before = len(hub_.asked)
    assert pulled(tmp_path, port, "-o", "again").returncode == 0
    assert len(hub_.asked) == before  # nothing is downloaded twice


def test_what_broke_off_goes_on_in_another_process(server: Any, tmp_path: Path) -> None:
    hub_, port = server
    hub_.broken = {("llm.pt", 2 * PIECE)}
    first = pulled(tmp_path, port)
    assert first.returncode == 3
    assert "cannot download" in first.stderr
    assert "Traceback" not in first.stderr
    hub_.asked.clear()
    hub_.broken.clear()
    assert pulled(tmp_path, port).returncode == 0
    assert next(start for name, start in hub_.asked if name == "llm.pt") == 2 * PIECE


def test_what_came_damaged_is_not_converted(server: Any, tmp_path: Path) -> None:
    hub_, port = server
    hub_.damaged = {"flow.pt"}
    done = pulled(tmp_path, port)
    assert done.returncode == 3
    assert "damaged" in done.stderr
    hub_.damaged.clear()
    assert pulled(tmp_path, port).returncode == 0  # from the beginning


def test_a_hub_that_does_not_answer_is_an_error(tmp_path: Path) -> None:
    done = pulled(tmp_path, 9)  # nobody listens there
    assert done.returncode == 3
    assert "cannot download" in done.stderr
    assert "HF_ENDPOINT" in done.stderr
    assert "Traceback" not in done.stderr


def test_names_and_sources_that_are_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.program(["pull", "cosyvoice9"]) == 2
    assert "cosyvoice3" in capsys.readouterr().err
    assert cli.program(["pull", "cosyvoice3", "--source", "here"]) == 2
    assert "modelscope" in capsys.readouterr().err


def test_a_library_that_is_missing_is_named(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "modelscope", None)
    assert cli.program(["pull", "cosyvoice3", "--source", "modelscope"]) == 3
    assert "pip install modelscope" in capsys.readouterr().err
