"""Schema 3: whose an explanation is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "3", "2"


def upgrade() -> None:
    """Migrate a store of schema 2: add the column ``owner`` to its explanations."""
    op.add_column("explanations", sa.Column("owner", sa.Text, nullable=False, server_default=""))
