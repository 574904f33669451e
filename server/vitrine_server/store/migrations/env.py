"""Script that Alembic runs for each command: it uses the connection and the transaction of the store."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
