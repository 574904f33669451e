"""Schema 1: explanations, and the files stored with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "1", None


def upgrade() -> None:
    """Create the tables of schema 1 in an empty store: explanations and their images."""
    op.create_table(
        "explanations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("content_key", sa.Text),
        sa.Column("document", sa.Text, nullable=False),
    )
    op.create_index("explanations_number", "explanations", ["number"])
    op.create_index("explanations_key", "explanations", ["content_key", "state"])
    op.create_table(
        "images",
        sa.Column("id", sa.Text, sa.ForeignKey("explanations.id", ondelete="CASCADE"), primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
