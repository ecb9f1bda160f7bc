"""Players, tokens and games."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    instant = sa.DateTime(timezone=True)
    op.create_table(
        "players",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_players")),
    )
    op.create_table(
        "tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("player_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("expires_at", instant),
        sa.Column("revoked_at", instant),
        sa.Column("last_used_at", instant),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
        sa.ForeignKeyConstraint(
            ["player_id"], ["players.id"], name=op.f("fk_tokens_player_id_players")
        ),
    )
    op.create_index(op.f("ix_tokens_player_id"), "tokens", ["player_id"])
    op.create_table(
        "games",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("player_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("ended_at", instant),
        sa.Column("ply", sa.SmallInteger(), nullable=False),
        sa.Column("score", sa.SmallInteger()),
        sa.Column("hidden", sa.Boolean(), nullable=False),
        sa.Column("status", sa.Text()),
        sa.Column("ruleset", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("log", sa.LargeBinary(), nullable=False),
        sa.Column("times", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_games")),
        sa.ForeignKeyConstraint(
            ["player_id"], ["players.id"], name=op.f("fk_games_player_id_players")
        ),
        sa.CheckConstraint("ply = length(log)", name=op.f("ck_games_ply_is_length_of_log")),
        sa.CheckConstraint("ended_at >= created_at", name=op.f("ck_games_ends_after_start")),
        sa.CheckConstraint(
            "(ended_at IS NULL) = (status IS NULL) AND (ended_at IS NULL) = (score IS NULL)",
            name=op.f("ck_games_end_is_whole"),
        ),
        sa.CheckConstraint(
            "status IN ('won', 'lost', 'resigned', 'timed-out')",
            name=op.f("ck_games_status_is_known"),
        ),
        postgresql_with={"fillfactor": 70},
    )
    op.create_index("ix_games_player_id_id", "games", ["player_id", "id"])


def downgrade() -> None:
    op.drop_table("games")
    op.drop_table("tokens")
    op.drop_table("players")
