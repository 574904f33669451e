"""Migrations of a store from any older version: Alembic's revisions, one for each schema since the beginnings of 0.1."""

from __future__ import annotations

import logging
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, inspect

log = logging.getLogger(__name__)


def migrate(connection: Connection, version: int) -> None:
    """Change the tables of a store of schema ``version`` (0: an empty one) to the newest schema, within the transaction of ``connection``.

    Stores up to schema 3 were made without Alembic, so their version is recorded for it first.
    """
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    if version and not inspect(connection).has_table("alembic_version"):
        command.stamp(config, str(version))
    command.upgrade(config, "head")
    if version:
        log.info("the store had schema %d, and has been brought to the newest", version)
