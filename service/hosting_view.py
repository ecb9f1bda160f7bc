"""What a client sees of rulings, roles, invites: JSON-ready values."""

from typing import Final

from service.tournaments.invites import Invite
from service.tournaments.report import Group, Report
from service.tournaments.roles import Holder
from service.tournaments.rulings import Ruling
from service.view import Json, instant

_TERMS: Final = ("won", "cards", "entries", "time")


def ruling(of: Ruling, *, hosts: bool) -> Json:
    """Return a ruling.

    Args:
        of: The ruling.
        hosts: Whether the viewer hosts the tournament: its author is theirs to know.
    """
    parts = {name: of.terms[name] for name in _TERMS if name in of.terms}
    named = ("deal", "attempt", "round")
    return {
        "number": of.number,
        "at": instant(of.at),
        "kind": of.kind,
        **({"by": str(of.by)} if hosts else {}),
        **({} if of.entry is None else {"entry": str(of.entry)}),
        **{name: value for name in named if (value := getattr(of, name)) is not None},
        **({"terms": parts} if parts else {}),
        **{name: of.terms[name] for name in ("ms", "reverses") if name in of.terms},
        "reason": of.reason,
        **({} if of.reversed_by is None else {"reversed_by": of.reversed_by}),
    }


def role(of: Holder) -> Json:
    """Return a player's part in hosting."""
    return {
        "player": {"id": str(of.player), "name": of.name},
        "role": of.role,
        "given_at": instant(of.given_at),
    }


def invite(of: Invite) -> Json:
    """Return what is known of a code."""
    return {
        "id": str(of.id),
        "created_at": instant(of.created_at),
        **({} if of.expires_at is None else {"expires_at": instant(of.expires_at)}),
        **({} if of.revoked_at is None else {"revoked_at": instant(of.revoked_at)}),
        "uses": of.uses,
        "used": of.used,
    }


def report(of: Report) -> Json:
    """Return what may point to one person behind several entries."""
    addresses, logs = of.groups
    return {
        "tournament": str(of.seen.tournament.id),
        "as_of": instant(of.seen.now),
        "addresses": [_group(one) for one in of.addresses],
        "logs": [_group(one) for one in of.logs],
        "deals": [
            {"deal": one.deal, "attempts": one.attempts, "different": one.different}
            for one in of.deals
        ],
        "groups": {"addresses": addresses, "logs": logs},
    }


def _group(of: Group) -> Json:
    return {
        **({} if of.deal is None else {"deal": of.deal, "plies": of.plies}),
        "count": of.count,
        "entries": [str(one) for one in of.entries],
    }
