"""Token texts: drawn at random, checked for typing errors, stored only as a labelled hash."""

import hashlib
import re
import secrets
import string
import zlib
from typing import Final

PREFIX: Final = "rr_"
SCOPES: Final = (
    "games:read",
    "games:play",
    "tournaments:join",
    "tournaments:organise",
    "admin",
)
"""Every scope. A player's first token has the first three; the others are given by hand."""
FIRST_SCOPES: Final = SCOPES[:3]

_ALPHABET: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_DIGITS: Final = 40
_CHECK_DIGITS: Final = 6
_LABEL: Final = b"royal-rendezvous/token/1\0"
_FORM: Final = re.compile(rf"{PREFIX}[0-9A-Za-z]{{{_RANDOM_DIGITS + _CHECK_DIGITS}}}")


def draw() -> str:
    """Return a new token's text: the prefix, 40 random base-62 digits (238 bits), 6 of checksum."""
    body = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM_DIGITS))
    return body + _checksum(body)


def is_well_formed(text: str) -> bool:
    """Whether a text has a token's form and checksum, so that it is worth looking up."""
    return bool(_FORM.fullmatch(text)) and text[-_CHECK_DIGITS:] == _checksum(text[:-_CHECK_DIGITS])


def fingerprint(text: str) -> bytes:
    """Return what is stored of a token: the SHA-256 of its text under a label, 32 bytes."""
    return hashlib.sha256(_LABEL + text.encode()).digest()


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECK_DIGITS):
        number, digit = divmod(number, len(_ALPHABET))
        digits = _ALPHABET[digit] + digits
    return digits
