"""Fixtures of all rings."""

import signal

import pytest
from fakes.tiny import tiny  # noqa: F401
from fakes.tones import tones  # noqa: F401

# A shell starts what runs in the background with Ctrl-C ignored, nohup with SIGHUP, and children inherit that: every
# test of an interrupted `cosy` failed where the suite was started so.
for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory):
    """This user's own lexicon and what `cosy bench --tune` kept here are no part of any test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSY_CONFIG", str(tmp_path_factory.mktemp("no-config")))
        yield
