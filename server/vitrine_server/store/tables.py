"""The tables of the store, for SQLite and PostgreSQL alike. How a store comes to have them is in ``migrations``."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text, text
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

SCHEMA_VERSION = 6  # the newest revision in ``migrations``
METADATA = MetaData()
#: States in which nothing more will happen.
FINAL = ("done", "failed", "cancelled")
_UNFINISHED = text("state IN ('queued', 'running')")

#: The files that people sent, each once however many explanations it has, gone with the last of them.
UPLOADS = Table(
    "uploads",
    METADATA,
    Column("digest", Text, primary_key=True),  # SHA-256
    Column("data", LargeBinary, nullable=False),
)

EXPLANATIONS = Table(
    "explanations",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("number", Integer, nullable=False),  # order of arrival
    Column("state", Text, nullable=False),  # queued | running | done | failed | cancelled
    Column("content_key", Text),  # SHA-256 of what the answer depends on; NULL until the model's digest is known
    Column("document", Text, nullable=False),  # the explanation as JSON
    Column("upload", Text, ForeignKey("uploads.digest")),
    Column("owner", Text, nullable=False, server_default=""),  # of a visitor, see vitrine_server.http.visitors; '' is nobody
    # of the visitor who asked, as the queue counts them; '' once the explanation has ended:
    Column("turn", Text, nullable=False, server_default=""),
    Column("address", Text, nullable=False, server_default=""),
    # of a cluster alone, see ``vitrine_server.store.shared_store``:
    Column("claimed_by", Text),  # the process that works at it
    Column("claimed_until", Double),  # when others may take it, in seconds of the database's clock since 1970
    Column("attempts", Integer, nullable=False, server_default="0"),  # how many processes have begun with it
    Column("wish", Text),  # what people want of the process that works at it, as JSON
    Index("explanations_number", "number"),
    Index("explanations_key", "content_key", "state"),
    Index("explanations_upload", "upload"),
    Index("explanations_unfinished", "claimed_until", sqlite_where=_UNFINISHED, postgresql_where=_UNFINISHED),
)

#: Files that are stored with an explanation: input.png, original.jpg, tensors.safetensors, ...
IMAGES = Table(
    "images",
    METADATA,
    Column("id", Text, ForeignKey("explanations.id", ondelete="CASCADE"), primary_key=True),
    Column("name", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)


class Utf8(FunctionElement[bytes]):
    """An SQL function that reads a text column as the stored bytes, which need not be UTF-8 in a damaged SQLite file."""

    type = LargeBinary()
    inherit_cache = True


@compiles(Utf8, "sqlite")
def _utf8_of_sqlite(element: Utf8, compiler: Any, **options: Any) -> str:
    return f"CAST({compiler.process(element.clauses, **options)} AS BLOB)"


@compiles(Utf8, "postgresql")
def _utf8_of_postgresql(element: Utf8, compiler: Any, **options: Any) -> str:
    return f"convert_to({compiler.process(element.clauses, **options)}, 'UTF8')"


class Now(FunctionElement[float]):
    """An SQL function that returns the time of the database's clock, in seconds since 1970: machines of a cluster need not
    agree on theirs.
    """

    type = Double()
    inherit_cache = True


@compiles(Now, "sqlite")
def _now_of_sqlite(element: Now, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(Now, "postgresql")
def _now_of_postgresql(element: Now, compiler: Any, **options: Any) -> str:
    return "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"


def new_identity() -> dict[str, str]:
    """Make the identity of a new explanation: a random ``id`` that nobody can guess, and the time when it was ``created``."""
    return {"id": secrets.token_hex(16), "created": datetime.now(UTC).isoformat(timespec="milliseconds")}
