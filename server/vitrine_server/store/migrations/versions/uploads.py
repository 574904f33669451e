"""Schema 2: the uploads themselves, each once however many explanations it has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "2", "1"


def upgrade() -> None:
    """Migrate a store of schema 1: add a table of uploads, to which explanations refer."""
    op.create_table("uploads", sa.Column("digest", sa.Text, primary_key=True), sa.Column("data", sa.LargeBinary, nullable=False))
    op.execute("ALTER TABLE explanations ADD COLUMN upload TEXT REFERENCES uploads (digest)")
    op.create_index("explanations_upload", "explanations", ["upload"])
