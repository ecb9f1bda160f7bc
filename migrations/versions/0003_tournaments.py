"""Tournaments: rounds, deals, entries, standings, rulings, events, results; games as attempts."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

CHECKS = {
    "attempt_is_whole": (
        "num_nulls(tournament_id, entry_id, round, deal_no, attempt, deadline) IN (0, 6)"
    ),
    "deadline_after_start": "deadline >= created_at",
    "ends_by_deadline": "ended_at <= deadline",
}


def upgrade() -> None:
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "acts",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_acts")),
    )
    op.create_table(
        "tournaments",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("owner_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("about", sa.Text(), nullable=False),
        sa.Column("ruleset", sa.Text(), nullable=False),
        sa.Column("visibility", sa.Text(), nullable=False),
        sa.Column("entry_by", sa.Text(), nullable=False),
        sa.Column("capacity", sa.Integer()),
        sa.Column("entry_opens_at", instant, nullable=False),
        sa.Column("entry_closes_at", instant, nullable=False),
        sa.Column("attempts", sa.SmallInteger(), nullable=False),
        sa.Column("limit_ms", sa.BigInteger()),
        sa.Column("scoring", postgresql.JSONB(), nullable=False),
        sa.Column("warm_up", sa.Boolean(), nullable=False),
        sa.Column("reveal", sa.Text(), nullable=False),
        sa.Column("series_id", sa.Uuid()),
        sa.Column("published_at", instant),
        sa.Column("cancelled_at", instant),
        sa.Column("frozen_at", instant),
        sa.Column("finalised_at", instant),
        sa.Column("entries", sa.Integer(), nullable=False),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("told_at", instant, nullable=False),
        sa.Column("rulings", sa.Integer(), nullable=False),
        sa.Column("results", sa.Integer(), nullable=False),
        sa.Column("cut", sa.SmallInteger(), nullable=False),
        sa.CheckConstraint(
            "entry_by IN ('open', 'code')", name=op.f("ck_tournaments_entry_by_is_known")
        ),
        sa.CheckConstraint(
            "reveal IN ('closing', 'by-hand')", name=op.f("ck_tournaments_reveal_is_known")
        ),
        sa.CheckConstraint(
            "visibility IN ('public', 'unlisted', 'private')",
            name=op.f("ck_tournaments_visibility_is_known"),
        ),
        sa.CheckConstraint("entries <= capacity", name=op.f("ck_tournaments_no_more_than_fit")),
        sa.CheckConstraint(
            "entry_closes_at > entry_opens_at", name=op.f("ck_tournaments_entry_ends_after_start")
        ),
        sa.ForeignKeyConstraint(
            ["owner_id"], ["players.id"], name=op.f("fk_tournaments_owner_id_players")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tournaments")),
    )
    op.create_index(op.f("ix_tournaments_owner_id"), "tournaments", ["owner_id"])
    op.create_index(op.f("ix_tournaments_series_id"), "tournaments", ["series_id"])
    op.create_table(
        "tournament_entries",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("player_id", sa.Uuid(), nullable=False),
        sa.Column("joined_at", instant, nullable=False),
        sa.Column("withdrawn_at", instant),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("reach", sa.SmallInteger(), nullable=False),
        sa.Column("invite_id", sa.Uuid()),
        sa.Column("address", sa.LargeBinary()),
        sa.Column("code_hash", sa.LargeBinary()),
        sa.Column("code_expires_at", instant),
        sa.ForeignKeyConstraint(
            ["player_id"], ["players.id"], name=op.f("fk_tournament_entries_player_id_players")
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_entries_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "id", name=op.f("pk_tournament_entries")),
        sa.UniqueConstraint(
            "tournament_id", "player_id", name=op.f("uq_tournament_entries_tournament_id_player_id")
        ),
    )
    op.create_index(op.f("ix_tournament_entries_player_id"), "tournament_entries", ["player_id"])
    op.create_table(
        "tournament_events",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", instant, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("by_player", sa.Uuid()),
        sa.Column("entry_id", sa.Uuid()),
        sa.Column("reason", sa.Text()),
        sa.Column("data", postgresql.JSONB(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_events_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "number", name=op.f("pk_tournament_events")),
    )
    op.create_table(
        "tournament_invites",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("created_by", sa.Uuid(), nullable=False),
        sa.Column("expires_at", instant),
        sa.Column("revoked_at", instant),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("uses", sa.Integer(), nullable=False),
        sa.Column("used", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "used BETWEEN 0 AND uses", name=op.f("ck_tournament_invites_no_more_uses")
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_invites_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "id", name=op.f("pk_tournament_invites")),
        sa.UniqueConstraint(
            "tournament_id", "hash", name=op.f("uq_tournament_invites_tournament_id_hash")
        ),
    )
    op.create_table(
        "tournament_results",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", instant, nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.Column("signature", sa.Text()),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_results_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "number", name=op.f("pk_tournament_results")),
    )
    op.create_table(
        "tournament_jobs",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("by_player", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("started_at", instant, nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("cursor", sa.Uuid()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("findings", postgresql.JSONB(), nullable=False),
        sa.Column("finished_at", instant),
        sa.CheckConstraint(
            "kind IN ('verification', 'rejudging')", name=op.f("ck_tournament_jobs_kind_is_known")
        ),
        sa.CheckConstraint(
            "state IN ('running', 'done', 'proposed', 'applied', 'dropped', 'failed')",
            name=op.f("ck_tournament_jobs_state_is_known"),
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_jobs_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "id", name=op.f("pk_tournament_jobs")),
    )
    op.create_index(
        "ix_tournament_jobs_started_at",
        "tournament_jobs",
        ["started_at"],
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "webhooks",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("created_by", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("kinds", sa.ARRAY(sa.Text())),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("cursor", sa.Integer(), nullable=False),
        sa.Column("again_next", sa.Integer()),
        sa.Column("again_last", sa.Integer()),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("failing_since", instant),
        sa.Column("due_at", instant, nullable=False),
        sa.Column("held_until", instant),
        sa.Column("disabled_at", instant),
        sa.ForeignKeyConstraint(
            ["created_by"], ["players.id"], name=op.f("fk_webhooks_created_by_players")
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_webhooks_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "id", name=op.f("pk_webhooks")),
    )
    op.create_index(op.f("ix_webhooks_created_by"), "webhooks", ["created_by"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("webhook_id", sa.Uuid(), nullable=False),
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("at", instant, nullable=False),
        sa.Column("status", sa.SmallInteger()),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(
            ["tournament_id", "webhook_id"],
            ["webhooks.tournament_id", "webhooks.id"],
            name=op.f("fk_webhook_deliveries_tournament_id_webhook_id_webhooks"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "tournament_id", "webhook_id", "id", name=op.f("pk_webhook_deliveries")
        ),
    )
    op.create_index(op.f("ix_webhook_deliveries_at"), "webhook_deliveries", ["at"])
    op.create_table(
        "tournament_roles",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("player_id", sa.Uuid(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("given_at", instant, nullable=False),
        sa.CheckConstraint(
            "role IN ('director', 'viewer')", name=op.f("ck_tournament_roles_role_is_known")
        ),
        sa.ForeignKeyConstraint(
            ["player_id"], ["players.id"], name=op.f("fk_tournament_roles_player_id_players")
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_roles_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "player_id", name=op.f("pk_tournament_roles")),
    )
    op.create_index(op.f("ix_tournament_roles_player_id"), "tournament_roles", ["player_id"])
    op.create_table(
        "tournament_rounds",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.SmallInteger(), nullable=False),
        sa.Column("starts_at", instant, nullable=False),
        sa.Column("ends_at", instant, nullable=False),
        sa.Column("closes_at", instant, nullable=False),
        sa.Column("reveals_at", instant),
        sa.Column("cut_by", sa.Text()),
        sa.Column("cut_value", sa.Integer()),
        sa.CheckConstraint(
            "(cut_by IS NULL) = (cut_value IS NULL)", name=op.f("ck_tournament_rounds_cut_is_whole")
        ),
        sa.CheckConstraint(
            "closes_at >= ends_at", name=op.f("ck_tournament_rounds_closes_after_end")
        ),
        sa.CheckConstraint(
            "ends_at > starts_at", name=op.f("ck_tournament_rounds_ends_after_start")
        ),
        sa.CheckConstraint(
            "reveals_at > closes_at", name=op.f("ck_tournament_rounds_reveals_after_close")
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_rounds_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "number", name=op.f("pk_tournament_rounds")),
    )
    op.create_table(
        "tournament_deals",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.SmallInteger(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("counts", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.Text()),
        sa.ForeignKeyConstraint(
            ["tournament_id", "round"],
            ["tournament_rounds.tournament_id", "tournament_rounds.number"],
            name=op.f("fk_tournament_deals_tournament_id_round_tournament_rounds"),
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_deals_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "number", name=op.f("pk_tournament_deals")),
    )
    op.create_table(
        "tournament_rulings",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", instant, nullable=False),
        sa.Column("by_player", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("entry_id", sa.Uuid()),
        sa.Column("deal_no", sa.SmallInteger()),
        sa.Column("attempt", sa.SmallInteger()),
        sa.Column("round", sa.SmallInteger()),
        sa.Column("terms", postgresql.JSONB(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("reversed_by", sa.Integer()),
        sa.ForeignKeyConstraint(
            ["tournament_id", "entry_id"],
            ["tournament_entries.tournament_id", "tournament_entries.id"],
            name=op.f("fk_tournament_rulings_tournament_id_entry_id_tournament_entries"),
        ),
        sa.ForeignKeyConstraint(
            ["tournament_id"],
            ["tournaments.id"],
            name=op.f("fk_tournament_rulings_tournament_id_tournaments"),
        ),
        sa.PrimaryKeyConstraint("tournament_id", "number", name=op.f("pk_tournament_rulings")),
    )
    op.create_table(
        "tournament_standings",
        sa.Column("tournament_id", sa.Uuid(), nullable=False),
        sa.Column("frozen", sa.Boolean(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("entry_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("told", postgresql.JSON(), nullable=False),
        sa.PrimaryKeyConstraint(
            "tournament_id", "frozen", "round", "entry_id", name=op.f("pk_tournament_standings")
        ),
    )
    op.create_index(
        "ix_tournament_standings_tournament_id_frozen_round_key_entry_id",
        "tournament_standings",
        ["tournament_id", "frozen", "round", "key", "entry_id"],
    )
    op.add_column("games", sa.Column("tournament_id", sa.Uuid()))
    op.add_column("games", sa.Column("entry_id", sa.Uuid()))
    op.add_column("games", sa.Column("round", sa.SmallInteger()))
    op.add_column("games", sa.Column("deal_no", sa.SmallInteger()))
    op.add_column("games", sa.Column("attempt", sa.SmallInteger()))
    op.add_column("games", sa.Column("deadline", instant))
    op.add_column("games", sa.Column("verified", sa.LargeBinary()))
    op.add_column("games", sa.Column("named_player_id", sa.Uuid()))
    op.create_index(
        "ix_games_tournament_id_deadline",
        "games",
        ["tournament_id", "deadline"],
        postgresql_where=sa.text("tournament_id IS NOT NULL AND ended_at IS NULL"),
    )
    op.create_index(
        "ix_games_tournament_id_id",
        "games",
        ["tournament_id", "id"],
        postgresql_where=sa.text(
            "tournament_id IS NOT NULL AND ended_at IS NOT NULL AND verified IS NULL"
        ),
    )
    op.create_index(
        "ix_games_tournament_id_entry_id_deal_no_attempt",
        "games",
        ["tournament_id", "entry_id", "deal_no", "attempt"],
        unique=True,
        postgresql_where=sa.text("tournament_id IS NOT NULL"),
    )
    op.create_foreign_key(
        op.f("fk_games_tournament_id_entry_id_tournament_entries"),
        "games",
        "tournament_entries",
        ["tournament_id", "entry_id"],
        ["tournament_id", "id"],
    )
    for name, condition in CHECKS.items():
        op.create_check_constraint(op.f(f"ck_games_{name}"), "games", condition)


def downgrade() -> None:
    # Attempts at a tournament's deals could not be told from other games any more, so that sealed
    # seeds would be open to all.
    op.execute("DELETE FROM games WHERE tournament_id IS NOT NULL")
    for name in reversed(CHECKS):
        op.drop_constraint(op.f(f"ck_games_{name}"), "games", type_="check")

    op.drop_constraint(
        op.f("fk_games_tournament_id_entry_id_tournament_entries"), "games", type_="foreignkey"
    )
    op.drop_index("ix_games_tournament_id_entry_id_deal_no_attempt", table_name="games")
    op.drop_index("ix_games_tournament_id_id", table_name="games")
    op.drop_index("ix_games_tournament_id_deadline", table_name="games")
    op.drop_column("games", "named_player_id")
    op.drop_column("games", "verified")
    op.drop_column("games", "deadline")
    op.drop_column("games", "attempt")
    op.drop_column("games", "deal_no")
    op.drop_column("games", "round")
    op.drop_column("games", "entry_id")
    op.drop_column("games", "tournament_id")
    op.drop_index(
        "ix_tournament_standings_tournament_id_frozen_round_key_entry_id",
        table_name="tournament_standings",
    )
    op.drop_table("tournament_standings")
    op.drop_table("tournament_rulings")
    op.drop_table("tournament_deals")
    op.drop_table("tournament_rounds")
    op.drop_index(op.f("ix_tournament_roles_player_id"), table_name="tournament_roles")
    op.drop_table("tournament_roles")
    op.drop_index(op.f("ix_webhook_deliveries_at"), table_name="webhook_deliveries")
    op.drop_table("webhook_deliveries")
    op.drop_index(op.f("ix_webhooks_created_by"), table_name="webhooks")
    op.drop_table("webhooks")
    op.drop_index("ix_tournament_jobs_started_at", table_name="tournament_jobs")
    op.drop_table("tournament_jobs")
    op.drop_table("tournament_results")
    op.drop_table("tournament_invites")
    op.drop_table("tournament_events")
    op.drop_index(op.f("ix_tournament_entries_player_id"), table_name="tournament_entries")
    op.drop_table("tournament_entries")
    op.drop_index(op.f("ix_tournaments_series_id"), table_name="tournaments")
    op.drop_index(op.f("ix_tournaments_owner_id"), table_name="tournaments")
    op.drop_table("tournaments")
    op.drop_table("acts")
