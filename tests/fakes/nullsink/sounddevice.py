"""The fake as a module, for processes of their own: PYTHONPATH=tests/fakes/nullsink.

NULLSINK holds the fake's options as JSON ({"missing": true}: PortAudio is not installed); what happened goes to the
file NULLSINK_LOG as JSON at each event, and the samples to NULLSINK_LOG.npy at the end.
"""

import atexit
import json
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))
from sounddevice_fake import FakeSoundDevice

_options = json.loads(os.environ.get("NULLSINK", "{}"))
if _options.pop("missing", False):
    raise OSError("PortAudio library not found")
_fake = FakeSoundDevice(**{"speed": 1.0, **_options})
_log = os.environ.get("NULLSINK_LOG")


def _write():
    if _log:
        facts = {"samplerate": _fake.samplerate, "channels": _fake.channels, "events": _fake.events}
        facts["frames"] = sum(map(len, _fake.blocks))
        Path(_log + ".new").write_text(json.dumps(facts))
        os.replace(_log + ".new", _log)
    if _fake.order[-1:] == ["close"]:  # `cosy` ends without exit handlers
        np.save(_log + ".npy", _fake.frames)


_fake.on_event = _write
atexit.register(_write)
PortAudioError, CallbackStop = _fake.PortAudioError, _fake.CallbackStop
query_devices, query_hostapis, OutputStream = _fake.query_devices, _fake.query_hostapis, _fake.OutputStream
