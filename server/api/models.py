"""The registries: models and how to load more, methods, rules, samples."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import FileResponse
from sse_starlette import EventSourceResponse

from explainers import all_variants
from explainers.errors import ExplainerError
from explainers.methods import count_methods
from explainers.models.loading import card
from server import registries
from server.api.explanations import stream
from server.http.answers import DocumentResponse
from server.http.bodies import BodyRoute
from server.http.openapi import events_of, file_of
from server.http.problems import Problem, suggestion
from server.http.visitors import Who
from server.jobs.intake import read_specs
from server.schemas.methods import Methods, Quantities, Rules
from server.schemas.models import LoadingEvent, ModelDetail, ModelRequest, Models, PendingModel
from server.schemas.samples import Samples
from server.services import Use

router = APIRouter(prefix="/api", tags=["registries"], route_class=BodyRoute)
_Specs = Annotated[list[str] | None, Query(description="Specs whose parts are wanted, such as those of an address.")]


@router.get("/models", response_model=Models)
def models(services: Use, visitor: Who) -> DocumentResponse:
    """Every model: the embedded ones, some of the hub, those that were loaded by name, and one's own. ``may_load``: whether others of the
    hub can be had.
    """
    may_load = services.registry.may_load and not services.settings.read_only
    return DocumentResponse({"models": [entry.to_json() for entry in services.registry.all(visitor)], "may_load": may_load})


@router.post("/models", status_code=202, response_model=PendingModel)
def load(wanted: ModelRequest, services: Use, visitor: Who) -> DocumentResponse:
    """Load a model in the background: one of the list, ``timm/<name>``, ``hf/<organisation>/<name>``, ``openclip/<model>/<pretrained>``."""
    entry = services.registry.ask(wanted.name.strip(), services.worker.load, visitor=visitor)
    events = services.settings.address(f"/api/models/events?name={entry.name}")
    return DocumentResponse({"name": entry.name, "state": entry.state, "events": events}, 202)


@router.get("/models/events", response_class=EventSourceResponse, responses=events_of(LoadingEvent))
async def loading(name: str, services: Use, visitor: Who, last_event_id: Annotated[str | None, Header()] = None) -> EventSourceResponse:
    """Server-sent events of a model's loading: progress, then loaded or failed."""
    entry = services.registry.find(name, visitor)
    if entry.state == "available":
        raise Problem(409, "not-loading", f"{name} is not being loaded.", send=f'POST /api/models {{"name": "{name}"}} first.')
    entry.is_awaited = True
    return stream(entry.feed, last_event_id)


@router.get("/models/{name:path}", response_model=ModelDetail)
def model(name: str, services: Use, visitor: Who) -> DocumentResponse:
    """One model with its card and, once it is loaded, its labels and its variants with the reason where one cannot run.

    ``classes``, where they are known, says of each label its everyday group, all its groups (each may be asked for as ``any:<group>``) and
    its synonyms; ``calibration`` where the model says that it doesn't know, and how those lines were measured.
    """
    entry = services.registry.find(name, visitor)
    document = {**entry.to_json(), "labels": [], "card": _card(name)}
    if entry.facts is not None:
        document |= {"labels": entry.facts.labels, "variants": entry.facts.variants}
        if entry.facts.classes:
            document["classes"] = [label.to_json() for label in entry.facts.classes]
    return DocumentResponse(document)


@router.get("/methods", response_model=Methods)
def methods(
    services: Use, visitor: Who, model: str | None = None, side: Literal["image", "text"] = "image", spec: _Specs = None
) -> DocumentResponse:
    """The methods with their options and, for every rule, whether the pair makes sense and why not; and the variants (a method with
    one of its own rules) in the order of the pages. With ``model`` also what it cannot run and why, and the bounds of its options;
    ``side`` is that of a CLIP model whose tokens get the scores. Without ``model`` also ``counts``: how many there are. And what helps to
    choose: the ``families`` of methods, ``presets`` (sets to begin with), and the ``standing`` of each: its rank in a run that
    ships, with what it was measured on; of a CLIP model, ``together`` is the same where several prompts are asked. Of each ``spec`` that is
    one, ``specs`` has the parts.
    """
    rules = registries.rules()
    parts = {} if spec is None else {"specs": _parts(read_specs(spec, services.settings))}
    if model is None:
        listed, variants = registries.methods(None), registries.variants(None)
        choosing = registries.choosing(None, None, variants)
        return DocumentResponse(
            {"methods": listed, "variants": variants, "rules": rules, "counts": count_methods(all_variants()), **choosing, **parts}
        )
    entry = services.registry.find(model, visitor)
    if entry.facts is None:
        raise Problem(409, "not-loaded", f"{model} is {entry.state}, not loaded.", send="Wait until it is loaded, or leave model out.")
    facts = entry.facts if side == "image" else entry.facts.text_side
    if facts is None:
        raise Problem(422, "wrong-side", f"{model} has no text side that can be explained.", send="Leave side out.")
    kind = facts.kind if side == "image" else None  # nobody has measured the words of prompts
    choosing = registries.choosing(model, kind, facts.variants)
    return DocumentResponse({"methods": facts.methods, "variants": facts.variants, "rules": rules, **choosing, **parts})


def _card(name: str) -> str | None:
    """The card of a model; None where it has none, or a name that the hub cannot have."""
    with suppress(ExplainerError):
        return card(name)
    return None


def _parts(specs: Sequence[str]) -> list[dict[str, Any]]:
    """Those of ``specs`` that are written as specs, in their parts; what the model makes of them, ``methods`` says."""
    parts = []
    for spec in specs:
        with suppress(ExplainerError):
            parts.append(registries.spec_parts(spec))
    return parts


@router.get("/rules", response_model=Rules)
def rules(services: Use) -> DocumentResponse:
    """The backward rules: what each does with every kind of operator; and what could be chosen for each kind, in one sentence each."""
    return DocumentResponse({"rules": registries.rules(), "kinds": registries.kinds()})


@router.get("/quantities", response_model=Quantities)
def quantities(services: Use) -> DocumentResponse:
    """What can be looked at in the heads of a model."""
    return DocumentResponse({"quantities": registries.quantities()})


@router.get("/samples", response_model=Samples)
def samples(services: Use) -> DocumentResponse:
    """Inputs to try."""
    return DocumentResponse({"samples": [sample.to_json(services.settings) for sample in services.samples.values()]})


@router.get("/samples/{name}/image", response_class=FileResponse, responses=file_of("image/*"))
def sample_image(name: str, services: Use) -> FileResponse:
    """The image of a sample."""
    sample = services.samples.get(name)
    if sample is None or sample.image is None:
        near = suggestion(name, services.samples)
        raise Problem(404, "no-such-sample", f"There is no sample image {name!r}.", send=f"{near}GET /api/samples lists them.")
    media = "image/jpeg" if sample.image.suffix == ".jpg" else "image/png"
    return FileResponse(sample.image, media_type=media, headers={"Cache-Control": "private, max-age=3600"})
