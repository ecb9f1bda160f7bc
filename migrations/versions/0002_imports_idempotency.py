"""Imported replays, idempotency keys, players that have gone, games in play and ended."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    instant = sa.DateTime(timezone=True)
    op.add_column("players", sa.Column("deleted_at", instant))
    op.add_column("tokens", sa.Column("minted_by", sa.Uuid()))
    op.create_index(
        op.f("ix_games_player_id"),
        "games",
        ["player_id"],
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_index(
        op.f("ix_games_player_id_ended_at_id"),
        "games",
        ["player_id", "ended_at", "id"],
        postgresql_where=sa.text("ended_at IS NOT NULL"),
    )
    op.create_table(
        "imports",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("player_id", sa.Uuid(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("ruleset", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("score", sa.SmallInteger(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_imports")),
        sa.UniqueConstraint("player_id", "digest", name=op.f("uq_imports_player_id_digest")),
        sa.ForeignKeyConstraint(
            ["player_id"], ["players.id"], name=op.f("fk_imports_player_id_players")
        ),
    )
    op.create_index(op.f("ix_imports_player_id_id"), "imports", ["player_id", "id"])
    op.create_table(
        "idempotency_keys",
        sa.Column("player_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("created_at", instant, nullable=False),
        sa.Column("request_hash", sa.LargeBinary(), nullable=False),
        sa.Column("made_id", sa.Uuid(), nullable=False),
        sa.PrimaryKeyConstraint("player_id", "key", name=op.f("pk_idempotency_keys")),
        sa.ForeignKeyConstraint(
            ["player_id"], ["players.id"], name=op.f("fk_idempotency_keys_player_id_players")
        ),
    )
    op.create_index(op.f("ix_idempotency_keys_created_at"), "idempotency_keys", ["created_at"])


def downgrade() -> None:
    op.drop_table("idempotency_keys")
    op.drop_table("imports")
    op.drop_index(op.f("ix_games_player_id_ended_at_id"), table_name="games")
    op.drop_index(op.f("ix_games_player_id"), table_name="games")
    op.drop_column("tokens", "minted_by")
    op.drop_column("players", "deleted_at")
