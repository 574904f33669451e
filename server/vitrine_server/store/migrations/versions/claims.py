"""Schema 5: which process of a cluster works at an explanation, and until when others leave it alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "5", "4"


def upgrade() -> None:
    """Migrate a store of schema 4: add the columns with which processes of a cluster claim explanations."""
    op.add_column("explanations", sa.Column("claimed_by", sa.Text))
    op.add_column("explanations", sa.Column("claimed_until", sa.Double))
    op.add_column("explanations", sa.Column("attempts", sa.Integer, nullable=False, server_default="0"))
    op.add_column("explanations", sa.Column("wish", sa.Text))
    unfinished = sa.text("state IN ('queued', 'running')")  # they are few
    op.create_index("explanations_unfinished", "explanations", ["claimed_until"], sqlite_where=unfinished, postgresql_where=unfinished)
