"""The tables. A game is one row: its deal, its log, and nothing that follows from them in play.

Status, score and the instant of the end are written when a game ends and derived until then, so
that no indexed value changes while a game is played and each move is an update within its page.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB

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
    # An attempt at a tournament's deal is a game with these, and ends at its deadline at the
    # latest. None of them is set in any other game.
    Column("tournament_id", Uuid),
    Column("entry_id", Uuid),
    Column("round", SmallInteger),
    Column("deal_no", SmallInteger),
    Column("attempt", SmallInteger),
    Column("deadline", _Instant),
    # The digest at which it was found valid; nothing, of length 0, if it was found invalid.
    Column("verified", LargeBinary),
    # The player whom the header names, if another one has taken the entry over.
    Column("named_player_id", Uuid),
    ForeignKeyConstraint(
        ["tournament_id", "entry_id"], ["tournament_entries.tournament_id", "tournament_entries.id"]
    ),
    CheckConstraint(
        "num_nulls(tournament_id, entry_id, round, deal_no, attempt, deadline) IN (0, 6)",
        name="attempt_is_whole",
    ),
    CheckConstraint("deadline >= created_at", name="deadline_after_start"),
    CheckConstraint("ended_at <= deadline", name="ends_by_deadline"),
    Index(
        "ix_games_tournament_id_entry_id_deal_no_attempt",
        "tournament_id",
        "entry_id",
        "deal_no",
        "attempt",
        unique=True,
        postgresql_where=text("tournament_id IS NOT NULL"),
    ),
    # Those that a deadline ends, or has ended.
    Index(
        "ix_games_tournament_id_deadline",
        "tournament_id",
        "deadline",
        postgresql_where=text("tournament_id IS NOT NULL AND ended_at IS NULL"),
    ),
    # Those that are still to be verified.
    Index(
        "ix_games_tournament_id_id",
        "tournament_id",
        "id",
        postgresql_where=text(
            "tournament_id IS NOT NULL AND ended_at IS NOT NULL AND verified IS NULL"
        ),
    ),
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

acts = Table(
    "acts",
    metadata,
    # One for each transaction that wrote something and was committed, which is asked where its
    # connection broke meanwhile. Ids grow with time; those of a day ago go with new ones.
    Column("id", Uuid, primary_key=True),
)

tournaments = Table(
    "tournaments",
    metadata,
    Column("id", Uuid, primary_key=True),
    Column("owner_id", Uuid, ForeignKey("players.id"), nullable=False, index=True),
    Column("created_at", _Instant, nullable=False),
    # Of what is told below; what is edited names the one that was seen.
    Column("version", Integer, nullable=False),
    Column("title", Text, nullable=False),
    Column("about", Text, nullable=False),
    Column("ruleset", Text, nullable=False),
    Column("visibility", Text, nullable=False),
    # Who may enter: anybody who sees it, or whoever has a code.
    Column("entry_by", Text, nullable=False),
    Column("capacity", Integer),
    Column("entry_opens_at", _Instant, nullable=False),
    Column("entry_closes_at", _Instant, nullable=False),
    Column("attempts", SmallInteger, nullable=False),
    # How long an attempt may take, at most; the round's end ends it too.
    Column("limit_ms", BigInteger),
    Column("scoring", JSONB, nullable=False),
    Column("warm_up", Boolean, nullable=False),
    # Whether seeds are told when a round is over, or when the host says so.
    Column("reveal", Text, nullable=False),
    Column("series_id", Uuid, index=True),
    # Stored acts. All other states follow from instants.
    Column("published_at", _Instant),
    Column("cancelled_at", _Instant),
    Column("frozen_at", _Instant),
    Column("finalised_at", _Instant),
    # Numbers, each changed only under this row's lock, in the transaction of what it counts.
    Column("entries", Integer, nullable=False),
    Column("events", Integer, nullable=False),
    # Instant of the last event: events' instants never fall.
    Column("told_at", _Instant, nullable=False),
    Column("rulings", Integer, nullable=False),
    Column("results", Integer, nullable=False),
    # The last round of which it is settled who may play it.
    Column("cut", SmallInteger, nullable=False),
    CheckConstraint("visibility IN ('public', 'unlisted', 'private')", name="visibility_is_known"),
    CheckConstraint("entry_by IN ('open', 'code')", name="entry_by_is_known"),
    CheckConstraint("reveal IN ('closing', 'by-hand')", name="reveal_is_known"),
    CheckConstraint("entry_closes_at > entry_opens_at", name="entry_ends_after_start"),
    CheckConstraint("entries <= capacity", name="no_more_than_fit"),
)

rounds = Table(
    "tournament_rounds",
    metadata,
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("number", SmallInteger, primary_key=True),
    Column("starts_at", _Instant, nullable=False),
    Column("ends_at", _Instant, nullable=False),
    # The last deadline of an attempt, which a ruling may put behind the end.
    Column("closes_at", _Instant, nullable=False),
    # From when on anybody may know its seeds.
    Column("reveals_at", _Instant),
    Column("cut_by", Text),
    Column("cut_value", Integer),
    CheckConstraint("ends_at > starts_at", name="ends_after_start"),
    CheckConstraint("closes_at >= ends_at", name="closes_after_end"),
    CheckConstraint("reveals_at > closes_at", name="reveals_after_close"),
    CheckConstraint("(cut_by IS NULL) = (cut_value IS NULL)", name="cut_is_whole"),
)

deals = Table(
    "tournament_deals",
    metadata,
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("number", SmallInteger, primary_key=True),
    Column("round", SmallInteger, nullable=False),
    # False for a deal to warm up with.
    Column("counts", Boolean, nullable=False),
    # Drawn when the tournament is published.
    Column("seed", Text),
    ForeignKeyConstraint(
        ["tournament_id", "round"], ["tournament_rounds.tournament_id", "tournament_rounds.number"]
    ),
)

roles = Table(
    "tournament_roles",
    metadata,
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("player_id", Uuid, ForeignKey("players.id"), primary_key=True, index=True),
    Column("role", Text, nullable=False),
    Column("given_at", _Instant, nullable=False),
    CheckConstraint("role IN ('director', 'viewer')", name="role_is_known"),
)

invites = Table(
    "tournament_invites",
    metadata,
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("created_at", _Instant, nullable=False),
    Column("created_by", Uuid, nullable=False),
    Column("expires_at", _Instant),
    Column("revoked_at", _Instant),
    # Labelled SHA-256 of the code, which is stored nowhere.
    Column("hash", LargeBinary, nullable=False),
    Column("uses", Integer, nullable=False),
    Column("used", Integer, nullable=False),
    UniqueConstraint("tournament_id", "hash"),
    CheckConstraint("used BETWEEN 0 AND uses", name="no_more_uses"),
)

entries = Table(
    "tournament_entries",
    metadata,
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("player_id", Uuid, ForeignKey("players.id"), nullable=False, index=True),
    Column("joined_at", _Instant, nullable=False),
    Column("withdrawn_at", _Instant),
    # Grows with whatever its standings follow from.
    Column("version", Integer, nullable=False),
    # The last round that it may play.
    Column("reach", SmallInteger, nullable=False),
    Column("invite_id", Uuid),
    # Keyed hash of the address from which it joined: equal ones can be told, and no more.
    Column("address", LargeBinary),
    # By which another player may take it over, once: labelled SHA-256, and until when.
    Column("code_hash", LargeBinary),
    Column("code_expires_at", _Instant),
    UniqueConstraint("tournament_id", "player_id"),
)

standings = Table(
    "tournament_standings",
    metadata,
    Column("tournament_id", Uuid, primary_key=True),
    # Whether it is kept as it was when the tournament was frozen.
    Column("frozen", Boolean, primary_key=True),
    # 0 for all rounds together.
    Column("round", SmallInteger, primary_key=True),
    Column("entry_id", Uuid, primary_key=True),
    # As engine.standings makes it; a byte that is above them all for an entry without a rank.
    Column("key", LargeBinary, nullable=False),
    # The total and the cells, as service.standings writes them: a text that nothing changes.
    Column("told", JSON, nullable=False),
    Index(
        "ix_tournament_standings_tournament_id_frozen_round_key_entry_id",
        "tournament_id",
        "frozen",
        "round",
        "key",
        "entry_id",
    ),
)

rulings = Table(
    "tournament_rulings",
    metadata,
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", _Instant, nullable=False),
    Column("by_player", Uuid, nullable=False),
    Column("kind", Text, nullable=False),
    Column("entry_id", Uuid),
    Column("deal_no", SmallInteger),
    Column("attempt", SmallInteger),
    Column("round", SmallInteger),
    Column("terms", JSONB, nullable=False),
    Column("reason", Text, nullable=False),
    # The ruling that takes this one back.
    Column("reversed_by", Integer),
    ForeignKeyConstraint(
        ["tournament_id", "entry_id"], ["tournament_entries.tournament_id", "tournament_entries.id"]
    ),
)

events = Table(
    "tournament_events",
    metadata,
    # Every act, in order: what is audited, told live and sent to others.
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", _Instant, nullable=False),
    Column("kind", Text, nullable=False),
    # Whether anybody may see it who may see the tournament; the host sees all.
    Column("public", Boolean, nullable=False),
    Column("by_player", Uuid),
    Column("entry_id", Uuid),
    Column("reason", Text),
    Column("data", JSONB, nullable=False),
)

results = Table(
    "tournament_results",
    metadata,
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("at", _Instant, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    # Canonical JSON, never changed.
    Column("document", Text, nullable=False),
    # None where the service has no keys.
    Column("signature", Text),
)

jobs = Table(
    "tournament_jobs",
    metadata,
    # What judges a tournament's attempts again, some at a time, by whoever comes by.
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("by_player", Uuid, nullable=False),
    Column("reason", Text),
    Column("started_at", _Instant, nullable=False),
    # Attempts.
    Column("total", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    # The last entry whose attempts are judged.
    Column("cursor", Uuid),
    Column("state", Text, nullable=False),
    Column("findings", JSONB, nullable=False),
    Column("finished_at", _Instant),
    CheckConstraint("kind IN ('verification', 'rejudging')", name="kind_is_known"),
    CheckConstraint(
        "state IN ('running', 'done', 'proposed', 'applied', 'dropped', 'failed')",
        name="state_is_known",
    ),
    Index(
        "ix_tournament_jobs_started_at",
        "started_at",
        postgresql_where=text("state = 'running'"),
    ),
)

webhooks = Table(
    "webhooks",
    metadata,
    # Where events are posted: a cursor in them, one for what comes and one for a range again.
    Column("tournament_id", Uuid, ForeignKey("tournaments.id"), primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("created_at", _Instant, nullable=False),
    Column("created_by", Uuid, ForeignKey("players.id"), nullable=False, index=True),
    Column("url", Text, nullable=False),
    Column("kinds", ARRAY(Text)),
    # Signatures are symmetric, so it is kept as it is: the one secret that is.
    Column("secret", LargeBinary, nullable=False),
    Column("cursor", Integer, nullable=False),
    Column("again_next", Integer),
    Column("again_last", Integer),
    Column("failures", Integer, nullable=False),
    Column("failing_since", _Instant),
    # When it may next be delivered to, by nobody else before a lease is over.
    Column("due_at", _Instant, nullable=False),
    Column("held_until", _Instant),
    Column("disabled_at", _Instant),
)

deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("tournament_id", Uuid, primary_key=True),
    Column("webhook_id", Uuid, primary_key=True),
    Column("id", Uuid, primary_key=True),
    Column("number", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("at", _Instant, nullable=False, index=True),
    Column("status", SmallInteger),
    Column("error", Text),
    ForeignKeyConstraint(
        ["tournament_id", "webhook_id"],
        ["webhooks.tournament_id", "webhooks.id"],
        ondelete="CASCADE",
    ),
)
