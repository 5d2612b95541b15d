"""What can go wrong with a request, by who can mend it."""

from __future__ import annotations


class TielineError(Exception):
    """A request that did not succeed. ``status`` is of HTTP, 0 without an answer."""

    def __init__(self, detail: str, status: int = 0):
        super().__init__(detail)
        self.detail, self.status = detail, status


class Refused(TielineError):
    """The node understood the request and does not do it; nothing was done. ``reason`` is a stable word, for commands."""

    def __init__(self, detail: str, status: int = 0, reason: str = ""):
        super().__init__(f"{reason}: {detail}" if reason else detail, status)
        self.reason = reason


class Denied(TielineError):
    """The caller is not authenticated, or does not have the right."""


class Unreachable(TielineError):
    """The node did not take the request: no connection, or it is busy or stopping. Nothing was done."""


class Unknown(TielineError):
    """The request was sent, and its outcome is not known: it may have been carried out. Look before you repeat it."""


def of_status(status: int, detail: str) -> TielineError:
    """The error of an answer."""
    if status in (401, 403):
        return Denied(detail, status)
    if status in (408, 429) or status >= 500:
        return Unreachable(detail, status)
    return Refused(detail, status)
