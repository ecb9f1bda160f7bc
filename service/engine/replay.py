"""Replay documents, ``replay-1``: a recorded game as JSON, its digest and its commitment.

A document carries a deal and a log; its result is what follows from them, told for those who only
read. ``service.engine.verify`` reads and judges documents.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from service.engine.game import Game

FORMAT: Final = "replay-1"
MEDIA_TYPE: Final = "application/vnd.royal-rendezvous.replay+json"

_LOG_LABEL: Final = b"royal-rendezvous/log/1\0"
_COMMIT_LABEL: Final = b"royal-rendezvous/commit/1\0"
Json = dict[str, Any]

_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def canonical(value: Mapping[str, Any]) -> bytes:
    """Return RFC 8785 JSON of a value made of objects, ASCII text and integers below 2**53."""
    return _encode(value).encode("ascii")


def digest(header: bytes, log: Sequence[str], times: Sequence[int]) -> str:
    """Return the digest of a game at this point of its log, 64 hex digits.

    Args:
        header: The game's header as :func:`canonical` gives it.
        log: Texts of the entries.
        times: As many instants in ms since the game's creation.
    """
    # The log makes the format, as no text has a "%": a third faster than one of "%s" and "%d".
    lines = ("\n" + "@%d\n".join(log) + "@%d") % tuple(times) if log else ""
    return hashlib.sha256(b"".join((_LOG_LABEL, header, lines.encode("ascii")))).hexdigest()


def commitment(context: str, seed: str) -> str:
    """Return the commitment to a seed, 64 hex digits, that the seed opens later.

    Args:
        context: The game's id, or ``tournament-id/deal-no``; ids as lower-case UUID text.
        seed: The seed, ASCII.
    """
    text = context.encode("ascii") + b"\0" + seed.encode("ascii")
    return hashlib.sha256(_COMMIT_LABEL + text).hexdigest()


def commitment_context(header: Mapping[str, Any]) -> str:
    """Return the context that binds a header's commitment to its game or tournament deal."""
    tournament = header.get("tournament")
    return f"{tournament['id']}/{tournament['deal_no']}" if tournament else str(header["id"])


def result(
    game: Game, *, created_at: int, times: Sequence[int], deadline: int | None = None
) -> Json:
    """Return what a replay states of a game as it stands.

    Args:
        game: The game.
        created_at: Instant of its creation, ms since 1970.
        times: Instants of its entries, ms since the creation.
        deadline: The instant, ms since 1970, at which it was ended unfinished; None if it was not.
    """
    status = game.status
    facts: Json = {
        "status": "timed-out" if status == "playing" and deadline is not None else status,
        "score": game.position.score,
        "ply": game.ply,
        "undos": game.undos,
        "hints": game.hints,
        "position": game.position.render(),
    }
    if status != "playing":
        facts["ended_at"] = created_at + times[-1]
    elif deadline is not None:
        facts["ended_at"] = deadline
    return facts


def document(
    header: Json,
    game: Game,
    times: Sequence[int],
    *,
    seed: str | None = None,
    timed_out: bool = False,
) -> Json:
    """Return the replay document of a game.

    Args:
        header: The game's header, fixed at its creation.
        game: The game, finished or not.
        times: Instants of its entries, ms since the creation.
        seed: A hidden deal's seed, once it may be known.
        timed_out: Whether the game was ended unfinished by its tournament's deadline.
    """
    log = [entry.text for entry in game.entries]
    deadline = header["tournament"]["deadline"] if timed_out else None
    return {
        "format": FORMAT,
        "header": header,
        **({} if seed is None else {"seed": seed}),
        "log": log,
        "times": list(times),
        "result": result(game, created_at=header["created_at"], times=times, deadline=deadline),
        "digest": digest(canonical(header), log, times),
    }


def signed_facts(value: Json) -> bytes:
    """Return what a signature of this sound document signs, canonical JSON."""
    result = value["result"]
    return canonical(
        {
            "format": value["format"],
            "id": value["header"]["id"],
            "ply": result["ply"],
            "digest": value["digest"],
            "result": result,
        }
    )


def pack_times(times: Iterable[int]) -> bytes:
    """Return instants as gaps, each a number to base 128.

    The high digits come first, and all but the last have the bit 128 set.
    """
    packed = bytearray()
    last = 0
    for ms in times:
        gap, last = ms - last, ms
        digits = [gap & 127]
        while gap := gap >> 7:
            digits.append(gap & 127 | 128)
        packed += bytes(reversed(digits))
    return bytes(packed)


def unpack_times(packed: bytes) -> list[int]:
    """Return the instants that :func:`pack_times` packed, in ms since the game's creation."""
    times = []
    total = gap = 0
    for byte in packed:
        if byte < 128:  # noqa: PLR2004
            total += gap << 7 | byte
            times.append(total)
            gap = 0
        else:
            gap = gap << 7 | byte & 127
    return times
