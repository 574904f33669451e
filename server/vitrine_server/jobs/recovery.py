"""Recovery at the start: explanations that the previous process of the server left unfinished are queued again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from vitrine_server.http.problems import Problem
from vitrine_server.jobs.catalogue.model_registry import ModelRegistry
from vitrine_server.jobs.failures import interrupted
from vitrine_server.jobs.queue.job import Job
from vitrine_server.jobs.queue.scheduler import Scheduler
from vitrine_server.schemas.question import question_of
from vitrine_server.store.store import Store
from vitrine_server.store.stored_files import QUESTION, REFERENCE

log = logging.getLogger(__name__)
#: A file of an explanation: a server has begun with it once more after another one ended over it.
RESUMED = "resumed"


def job_of(document: Mapping[str, Any], store: Store, registry: ModelRegistry) -> Job:
    """Make a job that continues a stored explanation, from its ``document`` and the files stored with it in ``store``, with its model in
    ``registry``. Raises Problem for an unknown model, and ValueError or TypeError if its question was not kept or cannot be read.
    """
    explanation_id = document["id"]
    question_json = store.file(explanation_id, QUESTION)
    if question_json is None:
        raise ValueError("its question was not kept")
    question = question_of(question_json.decode(), store.upload(explanation_id), store.file(explanation_id, REFERENCE))
    return Job(question, registry.find(question.model), {}, store.asker(explanation_id), stored=document)


def resume_unfinished(store: Store, registry: ModelRegistry, scheduler: Scheduler) -> None:
    """Queue the unfinished explanations of ``store`` again in ``scheduler``, with their models in ``registry``; one that was running at two
    crashes, or whose question cannot be read, is marked as failed.
    """
    for document, state in store.unfinished():
        explanation_id = document["id"]
        try:
            if state == "queued" or store.file(explanation_id, RESUMED) is None:
                job = job_of(document, store, registry)
                if state == "running":
                    with suppress(Problem):  # a full disk
                        store.put_file(explanation_id, RESUMED, b"")
                scheduler.resume(job)
                log.info("explanation %s was not finished: it is made now", explanation_id)
                continue
        except (Problem, ValueError, TypeError) as error:
            log.warning("explanation %s was not finished, and cannot be made now: %s", explanation_id, error)
        with suppress(Problem):
            store.save({**document, "state": "failed", "problem": interrupted().to_json()})
