"""The one error of everything that reads text."""

from __future__ import annotations


class CorpusError(ValueError):
    """There is no text, it cannot be read, or it is too short; the message says what to do."""
