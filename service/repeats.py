"""Creating twice is creating once: the keys that clients send with what they create.

A key is one row, written in the transaction that creates: whoever sends it a second time meanwhile
waits at that row until the first is done, and then finds what was made, or that nothing was.
"""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Self
from uuid import UUID

from sqlalchemy import Connection, bindparam, case, delete, select, tuple_
from sqlalchemy.dialects.postgresql import insert

from service.engine.errors import RendezvousError
from service.store.database import Statement
from service.store.tables import idempotency_keys as keys

KEPT: Final = timedelta(hours=24)
"""How long a key stands for what was made under it."""

_CLEARED: Final = 20
_LABEL: Final = b"royal-rendezvous/request/1\0"


class KeyReusedError(RendezvousError):
    """The key was sent before with another request."""

    code = "idempotency-key-reused"


@dataclass(frozen=True, slots=True)
class Key:
    """A key that a client sent, with the request that it stands for.

    Attributes:
        text: 1 to 255 printable ASCII characters.
        request: Labelled SHA-256 of the operation and the body.
    """

    text: str
    request: bytes

    @classmethod
    def of(cls, text: str, operation: str, body: bytes) -> Self:
        """Return a key sent with a body; equal bodies must be equal bytes."""
        named = b"\0".join((_LABEL, operation.encode(), body))
        return cls(text, hashlib.sha256(named).digest())


def claim(connection: Connection, now: datetime, player: UUID, key: Key, new: UUID) -> UUID:
    """Return the id of what the request makes: the new one, or that of what was made already.

    If it is the new one the caller makes it, in the same transaction.

    Args:
        connection: In a transaction, that of the making.
        now: The request's instant.
        player: Who makes it.
        key: What they sent.
        new: The id that it will have if it is not there yet.

    Raises:
        KeyReusedError: They sent the key with another request in the last 24 hours.
    """
    given = {"player": player, "key": key.text, "expired": now - KEPT}
    row = _TAKE.on(connection, **given, now=now, request=key.request, made=new).fetchone()
    request, made = row or ()
    if request != key.request:
        raise KeyReusedError("this Idempotency-Key was sent with another request")
    if made == new:
        _CLEAR.on(connection, **given)
    found: UUID = made
    return found


_ROW: Final = insert(keys).values(
    player_id=bindparam("player"),
    key=bindparam("key"),
    created_at=bindparam("now"),
    request_hash=bindparam("request"),
    made_id=bindparam("made"),
)
_IS_OLD: Final = keys.c.created_at <= bindparam("expired")
# Gives the row as it is afterwards. Waits for whoever is about to take the same key.
_TAKE: Final = Statement(
    _ROW.on_conflict_do_update(
        index_elements=["player_id", "key"],
        set_={
            name: case((_IS_OLD, _ROW.excluded[name]), else_=keys.c[name])
            for name in ("created_at", "request_hash", "made_id")
        },
    ).returning(keys.c.request_hash, keys.c.made_id)
)
# Each key that comes takes some old ones with it, so that they never pile up. What others hold is
# left to them: nobody waits.
_OLD: Final = (
    select(keys.c.player_id, keys.c.key)
    .where(_IS_OLD)
    .order_by(keys.c.created_at)
    .limit(_CLEARED)
    .with_for_update(skip_locked=True)
)
_CLEAR: Final = Statement(delete(keys).where(tuple_(keys.c.player_id, keys.c.key).in_(_OLD)))
