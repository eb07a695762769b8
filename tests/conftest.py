"""Fixtures of all rings."""

from fakes.tones import tones  # noqa: F401
