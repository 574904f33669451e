"""The bias probe: what swapping one word of a sentence does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request

from server.probes import Probe, answer, check
from server.services import Use
from server.studies import ask_model

router = APIRouter(prefix="/api", tags=["probes"])


@router.post("/probes")
async def probe(asked: Probe, services: Use, request: Request) -> dict[str, Any]:
    """Fill the slot ``{}`` of a template with the words of each group: probability, logit and the word's relevance for every text, their
    means over each group, and the difference of the first two groups.
    """
    check(asked)

    def work(model: Any, cancelled: Callable[[], bool]) -> dict[str, Any]:
        facts = services.registry.find(asked.model).facts
        assert facts is not None  # it is loaded
        return answer(asked, model, facts, services.engine, cancelled)

    return await ask_model(services, asked.model, work, request)
