"""Pages of lists. A page lies beside an item: what comes or goes meanwhile moves nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from uuid import UUID

from sqlalchemy import Column, Connection, Row, Select

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page lies.

    Attributes:
        item: The item that it lies beside, which is not on it and need not be there any more.
        newer: Whether on the side of the newer items, or of the better ones.
        key: By what the item is ordered, where that is not its id.
    """

    item: UUID
    newer: bool
    key: bytes = b""


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list.

    Attributes:
        items: Newest first.
        newer: Where the page before it lies, None if there is none.
        older: Where the page after it lies, None if there is none.
    """

    items: list[T]
    newer: Place | None
    older: Place | None


def read(
    connection: Connection,
    query: Select[Any],
    key: Column[UUID],
    make: Callable[[Row[*tuple[Any, ...]]], T],
    *,
    limit: int,
    place: Place | None,
) -> Page[T]:
    """Return a page of what a query gives.

    Args:
        connection: A connection.
        query: With all filters, no order and no limit; its first column is the key.
        key: By which the list is ordered, the newest last.
        make: Makes an item of a row.
        limit: Most items.
        place: Where the page lies; None for the newest.
    """
    newer = place is not None and place.newer
    if place is not None:
        query = query.where(key > place.item if newer else key < place.item)
    # One more than asked for tells whether there are more on that side; on the other there is the
    # item beside which the page lies.
    rows = connection.execute(query.order_by(key if newer else key.desc()).limit(limit + 1)).all()
    more, rows = len(rows) > limit, rows[:limit]
    if newer:
        rows = rows[::-1]
    before, after = (more, True) if newer else (place is not None, more)
    return Page(
        [make(row) for row in rows],
        Place(rows[0][0], newer=True) if rows and before else None,
        Place(rows[-1][0], newer=False) if rows and after else None,
    )
