"""Alembic runs this for each command: the connection, and its transaction, are those of the store."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
