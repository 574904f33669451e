"""Schema 3: whose an explanation is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "3", "2"


def upgrade() -> None:
    """Migrate the store from schema 2."""
    op.add_column("explanations", sa.Column("owner", sa.Text, nullable=False, server_default=""))
