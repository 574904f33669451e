"""Schema 4: the store forgets uploads itself, in both databases alike; SQLite had a trigger for it."""

from __future__ import annotations

from alembic import op

revision, down_revision = "4", "3"


def upgrade() -> None:
    """Migrate a store of schema 3: drop the trigger that deleted uploads in SQLite."""
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER IF EXISTS forget_upload")
