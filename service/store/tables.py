"""The tables. A game is one row: its deal, its log, and nothing that follows from them in play.

Status, score and the instant of the end are written when a game ends and derived until then, so
that no indexed value changes while a game is played and each move is an update within its page.
"""

from sqlalchemy import (
    ARRAY,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Index,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_Instant = DateTime(timezone=True)

players = Table(
    "players",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("created_at", _Instant, nullable=False),
    Column("name", Text, nullable=False),
    # The row stays when a player goes, so that their games stay whole; the name does not.
    Column("deleted_at", _Instant),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("player_id", Uuid, ForeignKey("players.id"), nullable=False, index=True),
    Column("created_at", _Instant, nullable=False),
    Column("expires_at", _Instant),
    Column("revoked_at", _Instant),
    Column("last_used_at", _Instant),
    # Labelled SHA-256 of the token's text, which is stored nowhere.
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("scopes", ARRAY(Text), nullable=False),
    # The player's other token that asked for this one, if one did.
    Column("minted_by", Uuid),
)

games = Table(
    "games",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("player_id", Uuid, ForeignKey("players.id"), nullable=False),
    Column("created_at", _Instant, nullable=False),
    Column("ended_at", _Instant),
    Column("ply", SmallInteger, nullable=False),
    Column("score", SmallInteger),
    # Whether the seed was drawn by the server and is kept from the player until the end.
    Column("hidden", Boolean, nullable=False),
    Column("status", Text),
    Column("ruleset", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("seed", Text, nullable=False),
    # One byte an entry; and the gaps between entries in ms, as engine.replay packs them.
    Column("log", LargeBinary, nullable=False),
    Column("times", LargeBinary, nullable=False),
    CheckConstraint("ply = length(log)", name="ply_is_length_of_log"),
    CheckConstraint("ended_at >= created_at", name="ends_after_start"),
    CheckConstraint(
        "(ended_at IS NULL) = (status IS NULL) AND (ended_at IS NULL) = (score IS NULL)",
        name="end_is_whole",
    ),
    CheckConstraint("status IN ('won', 'lost', 'resigned', 'timed-out')", name="status_is_known"),
    # A player's games, newest first; ids grow with time.
    Index("ix_games_player_id_id", "player_id", "id"),
    # What is in play, to be counted. No move changes what it holds.
    Index("ix_games_player_id", "player_id", postgresql_where=text("ended_at IS NULL")),
    # What has ended, in the order in which it did: for exports that go on where the last one ended.
    Index(
        "ix_games_player_id_ended_at_id",
        "player_id",
        "ended_at",
        "id",
        postgresql_where=text("ended_at IS NOT NULL"),
    ),
    # Room for a row to grow in its page: see docs/operations.md for the measurement.
    postgresql_with={"fillfactor": 70},
)

imports = Table(
    "imports",
    metadata,
    # Replays of games that were played elsewhere, as they came. They are never ranked.
    Column("id", Uuid, primary_key=True),
    Column("player_id", Uuid, ForeignKey("players.id"), nullable=False),
    Column("created_at", _Instant, nullable=False),
    Column("ruleset", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("score", SmallInteger, nullable=False),
    # The document's own, by which a player's second import of it is known.
    Column("digest", LargeBinary, nullable=False),
    # The document, canonical JSON.
    Column("document", Text, nullable=False),
    UniqueConstraint("player_id", "digest"),
    # A player's, newest first; ids grow with time.
    Index("ix_imports_player_id_id", "player_id", "id"),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    # Written with what it made, so that a parallel repeat waits for it.
    Column("player_id", Uuid, ForeignKey("players.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("created_at", _Instant, nullable=False, index=True),
    # Of the operation and the body: another body under the same key is refused.
    Column("request_hash", LargeBinary, nullable=False),
    Column("made_id", Uuid, nullable=False),
)
