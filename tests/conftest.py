"""Fixtures of all rings."""

import pytest
from fakes.tiny import tiny  # noqa: F401
from fakes.tones import tones  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def no_settings(tmp_path_factory):
    """This user's own lexicon and what `cosy bench --tune` kept here are no part of any test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSY_CONFIG", str(tmp_path_factory.mktemp("no-config")))
        yield
