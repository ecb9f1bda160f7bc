"""Lists over HTTP: opaque cursors, each good for one list only, and links to both sides."""

import base64
import binascii
from hashlib import sha256
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from flask import Response, request

from service.api.problems import UnknownCursorError
from service.lists import Page, Place

_LABEL: Final = b"royal-rendezvous/cursor/1\0"
_SIDES: Final = (b"\0", b"\1")
_ITEM: Final = slice(1, 17)
_KEY: Final = slice(17, -7)
_KNOWN: Final = slice(-7, None)
_LEAST: Final = 24


def place() -> Place | None:
    """Return where the page lies that the request's cursor leads to, None without one.

    Raises:
        UnknownCursorError: No page of this list, with these filters, gave it.
    """
    cursor = request.args.get("cursor")
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
    except binascii.Error:
        data = b""
    known = len(data) >= _LEAST and data[:1] in _SIDES and data[_KNOWN] == _list()
    if known and _text(data) == cursor:
        return Place(UUID(bytes=data[_ITEM]), newer=data[:1] == _SIDES[True], key=data[_KEY])
    raise UnknownCursorError("no page of this list, with these filters, gave this cursor")


def linked(response: Response, page: Page[Any]) -> Response:
    """Return an answer that holds a page, with links to those before and after it."""
    sides = {"prev": page.newer, "next": page.older}
    links = [f'<{_path(to)}>; rel="{side}"' for side, to in sides.items() if to is not None]
    if links:
        response.headers["Link"] = ", ".join(links)
    return response


def _path(to: Place) -> str:
    data = _SIDES[to.newer] + to.item.bytes + to.key + _list()
    return f"{request.path}?{urlencode({**request.args, 'cursor': _text(data)})}"


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _list() -> bytes:
    """Return by what cursors know their list: its path and the filters, but not the limit."""
    filters = {name: text for name, text in request.args.items() if name not in {"cursor", "limit"}}
    named = f"{request.path}?{urlencode(sorted(filters.items()))}"
    return sha256(_LABEL + named.encode()).digest()[:7]
