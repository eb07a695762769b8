"""A stand-in for onnxruntime where only the choice of a provider matters: sessions that get what the test says.

`got` maps a provider to what happens when it is asked for: None (it works), "silent" (the session quietly runs on the
CPU), or an error text that is raised. `log` tells in order what was called.
"""

from __future__ import annotations

import types


class SessionOptions:
    """As onnxruntime's, as far as it is used."""

    def __init__(self):
        self.entries = {}

    def add_session_config_entry(self, key, value):
        self.entries[key] = value


class Part:
    """Nodes that a provider took."""

    def __init__(self, name, count):
        self.ep_name, self.count = name, count

    def get_nodes(self):
        return [None] * self.count


class Fake(types.ModuleType):
    """Put it into sys.modules["onnxruntime"]."""

    GraphOptimizationLevel = types.SimpleNamespace(ORT_ENABLE_ALL=99, ORT_ENABLE_EXTENDED=2)
    SessionOptions = SessionOptions
    __version__ = "9.9"

    def __init__(self, listed=("CPUExecutionProvider",), got=None):
        super().__init__("onnxruntime")
        self.listed, self.got, self.log, self.opened = listed, got or {}, [], []
        fake = self

        class InferenceSession:
            def __init__(self, path, options, providers, **extra):
                name, chosen = providers[0] if isinstance(providers[0], tuple) else (providers[0], {})
                fake.log.append(("session", name))
                fake.opened.append((path, name, dict(chosen), extra))
                outcome = fake.got.get(name)
                if callable(outcome):
                    outcome = outcome(path, dict(chosen))
                if outcome not in (None, "silent"):
                    raise RuntimeError(outcome)
                self.got = [name, "CPUExecutionProvider"] if outcome is None else ["CPUExecutionProvider"]

            def get_providers(self):
                return list(dict.fromkeys(self.got))

            def get_provider_graph_assignment_info(self):
                return [Part(self.got[0], 3), Part("CPUExecutionProvider", 1)]

            def get_outputs(self):
                return [types.SimpleNamespace(name="y")]

            def run(self, outputs, inputs):
                return [inputs["x"]]

        self.InferenceSession = InferenceSession

    def get_available_providers(self):
        return list(self.listed)

    def set_default_logger_severity(self, level):
        pass

    def preload_dlls(self):
        print("Failed to load libcudnn.so.9")  # as the real one does, on stdout
        self.log.append(("preload", ""))
