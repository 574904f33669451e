"""The bias probe: what swapping one word of a sentence does."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, Request, Response

from explainers.analysis.word_probe import WordProbe
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import events_of
from vitrine_server.schemas.base import study_events
from vitrine_server.schemas.studies import Probe
from vitrine_server.services import Use
from vitrine_server.studies.probes import answer, check
from vitrine_server.studies.study import ask_model

router = APIRouter(prefix="/api", tags=["probes"], route_class=BodyRoute)


@router.post("/probes", response_model=WordProbe, responses=events_of(study_events(WordProbe)))
async def probe(body: Probe, services: Use, request: Request) -> Response:
    """Fill the slot ``{}`` of a template with the words of each group. Returns probability, logit and the word's relevance for every text,
    their means over each group, and the difference of the first two groups.
    """
    check(body)

    return await ask_model(services, body.model, partial(answer, body), request, is_long=True, kind="probe")
