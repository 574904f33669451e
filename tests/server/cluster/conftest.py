"""Processes that share a store, without Ray: calls reach the replicas of a test directly, over HTTP all is as on one machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tests.server.conftest import EMBEDDED, Site, Sites
from tests.server.support.checked_client import CheckedClient
from tests.server.support.gated_models import GatedModels
from vitrine_server.app import create_app, host_maker
from vitrine_server.cluster import model_replica, ray_worker
from vitrine_server.cluster.model_replica import ModelReplica
from vitrine_server.cluster.ray_worker import RayWorker
from vitrine_server.cluster.replicas import FactsRequest, MakeRequest, ReplicaRequest
from vitrine_server.settings import load_settings
from vitrine_server.store.database import SqliteDatabase
from vitrine_server.store.shared_store import SharedStore


@dataclass
class Direct:
    """Calls the replicas of this process, each explanation the next of those that are there."""

    replicas: list[ModelReplica] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    async def ask(self, model: str, request: ReplicaRequest) -> AsyncIterator[tuple[str, Any]]:
        asked = self.replicas[0]
        if isinstance(request, FactsRequest):  # the others have the model, too
            for replica in self.replicas[1:]:
                async for _ in replica.ask(model, request):
                    pass
        elif isinstance(request, MakeRequest):
            self.sent.append(request.explanation_id)
            asked = self.replicas[len(self.sent) % len(self.replicas)]
        async with aclosing(asked.ask(model, request)) as messages:  # type: ignore[type-var]
            async for message in messages:
                yield message


@dataclass
class Cluster:
    """Two replicas, and sites at which their explanations are asked for."""

    home: Path
    models: GatedModels
    direct: Direct
    database: SqliteDatabase
    sites: list[Site] = field(default_factory=list)

    def gone(self, replica: ModelReplica) -> None:
        """Let its process be as if it were gone: it claims nothing any more, and its claims have ended."""
        replica._ended.set()
        replica._beat.join()
        self.direct.replicas.remove(replica)
        with self.database.begin(writes=True) as db:
            db.execute(text("UPDATE explanations SET claimed_until = 0 WHERE claimed_by = :name"), {"name": replica._store.name})


class Unclosed(SqliteDatabase):
    """One file for all stores of a test, each of which may let go of it."""

    def close(self) -> None:
        """It is closed with the test."""


Begin = Callable[..., Cluster]


@pytest.fixture
def cluster(sites: Sites, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    monkeypatch.setattr(model_replica, "BEAT_SECONDS", 0.05)
    monkeypatch.setattr(model_replica, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(ray_worker, "BEAT_SECONDS", 0.05)
    with ExitStack() as stack:

        @contextmanager
        def begun(
            errors: dict[str, list[Exception]] | None = None, replicas: int = 2, most_sent: int = 8, **changed: Any
        ) -> Iterator[Cluster]:
            settings = load_settings({"home": sites.home, "engine": "ray", "database": "postgresql://none", **changed})
            with GatedModels(errors=errors or {}).in_registry() as models:
                database, direct = Unclosed(sites.home), Direct()
                for name in ("one", "other")[:replicas]:
                    store, source = SharedStore(database, name, 100), models.source()
                    direct.replicas.append(ModelReplica(settings, store, source, host_maker(settings, source, None)))
                one = Cluster(sites.home, models, direct, database)
                every = list(direct.replicas)
                try:
                    with ExitStack() as opened:
                        for name in ("web", "web 2"):
                            work = SharedStore(database, name, 100)

                            def open_work(registry: Any, work: SharedStore = work) -> tuple[SharedStore, RayWorker]:
                                return work, RayWorker(direct, registry, work, settings, most_sent)

                            app = create_app(settings, models.source(), [], open_work=open_work)
                            site = Site(opened.enter_context(CheckedClient(app, raise_server_exceptions=False)), models)
                            site.wait_for_models(*EMBEDDED)
                            one.sites.append(site)
                        yield one
                        models.open_all()
                finally:
                    models.open_all()
                    for replica in every:
                        replica.stop()
                    SqliteDatabase.close(database)

        yield lambda **changed: stack.enter_context(begun(**changed))
