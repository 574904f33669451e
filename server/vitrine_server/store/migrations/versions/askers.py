"""Schema 6: who asked for an explanation, as the queue counts visitors, until it has ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "6", "5"


def upgrade() -> None:
    """Migrate a store of schema 5: add the columns ``turn`` and ``address`` to its explanations."""
    for name in ("turn", "address"):
        op.add_column("explanations", sa.Column(name, sa.Text, nullable=False, server_default=""))
