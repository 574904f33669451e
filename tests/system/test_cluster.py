"""Two nodes of Ray on this machine, a real PostgreSQL: one process of models is killed under load, and nothing accepted is lost.

It takes 4 CPUs' worth of processes, 4 GB of memory and some minutes: two replicas with the embedded models, two processes that answer.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.conftest import PYTHONPATH, ROOT
from tests.server.conftest import png, without_seconds
from tests.server.support.hostile import until
from tests.support.own_models.case import save_text, text_model
from tests.support.postgresql import free_port, postgresql

pytestmark = pytest.mark.cluster
WORDS = ["not", "a", "bad", "movie", ",", "the", "plot", "is", "well", "-", "made", "!"]
METHODS = ["attcat:libra", "rollout", "integrated_gradients", "random"]
QUESTIONS = 24
FINAL = ("done", "failed", "cancelled")


@contextmanager
def ray_nodes() -> Iterator[str]:
    """A cluster of two nodes; its address."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    try:
        cluster.add_node(**node)
        yield cluster.address
    finally:
        cluster.shutdown()


@contextmanager
def vitrine(home: Path, **settings: Any) -> Iterator[httpx.Client]:
    """``vitrine serve`` with these settings; a client of it, once the embedded models are loaded."""
    port = free_port()
    environ = {f"VITRINE_{name.upper()}": str(value) for name, value in settings.items()}
    environ |= {"VITRINE_HOME": str(home), "VITRINE_PORT": str(port), "VITRINE_DEVICE": "cpu"}
    environ |= {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": PYTHONPATH}
    process = subprocess.Popen([sys.executable, "-m", "vitrine_server.cli", "serve"], cwd=ROOT, env=os.environ | environ)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:

            def is_ready() -> bool:
                assert process.poll() is None, "the server ended"
                try:
                    states = client.get("/readyz").json().get("models", {})
                except (httpx.TransportError, json.JSONDecodeError):  # Ray answers before Vitrine does
                    return False
                return bool(states) and set(states.values()) == {"loaded"}

            until(is_ready, "the models are loaded", patience=500)
            yield client
            process.send_signal(signal.SIGTERM)
            assert process.wait(90) in (0, -signal.SIGTERM)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def questions(folder: Path) -> list[dict[str, Any]]:
    """Texts for an embedded model and for that of the folder, none twice, and a picture."""
    texts = [" ".join((WORDS * 3)[number % len(WORDS) :][: 10 + number]) for number in range(QUESTIONS)]
    models = ["reviews-bert" if number % 4 else str(folder) for number in range(QUESTIONS)]
    asked: list[dict[str, Any]] = [{"model": model, "text": text, "methods": METHODS} for model, text in zip(models, texts, strict=True)]
    return [*asked, {"model": "scenes-vit", "methods": METHODS[:2]}]


def ask(client: httpx.Client, question: dict[str, Any], **parameters: Any) -> Any:
    files = None if "text" in question else {"image": ("photo.png", png(1, (128, 128)))}
    answer = client.post("/api/explanations", params=parameters, data=question, files=files)
    assert answer.status_code in (200, 202), answer.text
    return answer.json()


def test_one_of_two_is_killed_under_load(tmp_path: Path) -> None:
    folder = tmp_path / "shared" / "bert"
    save_text(folder, text_model())
    asked = questions(folder)
    with vitrine(tmp_path / "single", models=folder) as client:
        alone = [ask(client, question, wait=1) for question in asked]
    many = {"queue_size": 200, "queue_share": 200, "min_replicas": 2, "max_replicas": 2, "web_replicas": 2}
    with (
        postgresql() as url,
        ray_nodes() as address,
        vitrine(tmp_path / "home", engine="ray", ray_address=address, database=url, models=folder, **many) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        made = [one["id"] for one in pool.map(lambda question: ask(client, question), asked)]
        with psycopg.connect(url, autocommit=True) as db:

            def claimed_by() -> set[str]:
                return {row[0] for row in db.execute("SELECT claimed_by FROM explanations WHERE state = 'running'")}

            until(lambda: len(claimed_by()) == 2, "both replicas work", patience=120)
            victim = sorted(claimed_by())[0]
            os.kill(int(victim.split()[1]), signal.SIGKILL)
            until(
                lambda: db.execute("SELECT count(*) FROM explanations WHERE NOT state = ANY(%s)", (list(FINAL),)).fetchone() == (0,),
                "all are finished",
                patience=400,
            )
            rows = db.execute("SELECT id, state, attempts, claimed_by FROM explanations").fetchall()
        assert sorted(row[0] for row in rows) == sorted(made)
        assert {row[1] for row in rows} == {"done"}
        assert any(row[2] == 2 for row in rows), "it was killed while it worked"
        assert max(row[2] for row in rows) == 2
        documents = [client.get(f"/api/explanations/{one}").json() for one in made]
        for document in documents:
            pairs = [(entry["method"], entry["target"]) for entry in document["maps"]]
            assert len(pairs) == len(set(pairs)) == len(document["methods"]) * len(document["targets"])
        assert [without_seconds(document) for document in documents] == [without_seconds(document) for document in alone]
        story = client.get(f"/api/explanations/{made[0]}/events").text
        assert story.count("event: method") == len(documents[0]["maps"])
