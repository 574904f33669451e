"""The registries: models and how to load more, methods, rules, samples."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import FileResponse, Response
from pydantic import Field, Json
from sse_starlette import EventSourceResponse

from explainers import METHODS, RULES
from explainers.errors import ExplainerError
from explainers.json_records import schema_of
from explainers.methods.variants import Variant
from explainers.models.labels import ClassEntry
from explainers.models.loading import card
from vitrine_server import registries
from vitrine_server.api.explanations import stream
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import events_of, file_of
from vitrine_server.http.problems import Problem, suggestion
from vitrine_server.http.visitors import Who
from vitrine_server.jobs.catalogue.model_registry import ListedModel
from vitrine_server.jobs.intake import read_specs
from vitrine_server.samples import Samples
from vitrine_server.schemas.base import Message, Schema, absent
from vitrine_server.schemas.models import LoadFailedEvent, ModelRequest, PendingModel, ProgressEvent
from vitrine_server.services import Use

router = APIRouter(prefix="/api", tags=["registries"], route_class=BodyRoute)
_Specs = Annotated[list[str] | None, Query(description="Specs whose parts are wanted, such as those of an address.")]


class Models(Schema):
    """All models that the visitor may use, and whether they may load others."""

    models: list[ListedModel]
    may_load: bool = Field(description="Whether others of the hub can be had with POST /api/models.")


class _OfOneModel(Schema):
    """The details of a single model that a list leaves out: its card, its classes and the methods that can explain it."""

    labels: list[str]
    card: str | None = Field(description="Markdown.")
    variants: list[Variant] = absent("Once it is loaded.")
    classes: list[ClassEntry] = absent("Where they are known.")


ModelDetail = schema_of(ListedModel, name="ModelDetail", base=_OfOneModel)


class LoadedEvent(Message):
    """The last event of loading: the model is loaded; its data is the model's entry in the list."""

    event: Literal["loaded"]
    data: Json[ListedModel]


LoadingEvent = Annotated[ProgressEvent | LoadedEvent | LoadFailedEvent, Field(discriminator="event")]


@router.get("/models", response_model=Models)
async def models(request: Request, services: Use, visitor: Who) -> Response:
    """List every model: the embedded ones, some of the hub, those that were loaded by name, and your own. ``may_load`` says whether others
    of the hub can be loaded. Each entry has its name, title, kind and state.
    """
    may_load = services.registry.may_load and not services.settings.read_only

    def document() -> dict[str, Any]:
        return {"models": [entry.to_json() for entry in services.registry.all(visitor)], "may_load": may_load}

    return await services.kept.answer_to_change(request, document)


@router.post("/models", status_code=202, response_model=PendingModel)
def load(wanted: ModelRequest, services: Use, visitor: Who) -> DocumentResponse:
    """Load the model of this name in the background, and return its state and the URL path of its events. The name is one of the list,
    ``timm/<name>``, ``hf/<organisation>/<name>``, ``openclip/<model>/<pretrained>``.
    """
    entry = services.registry.ask(wanted.name.strip(), services.worker.load, visitor=visitor)
    events = services.settings.address(f"/api/models/events?name={entry.name}")
    return DocumentResponse({"name": entry.name, "state": entry.state, "events": events}, 202)


@router.get("/models/events", response_class=EventSourceResponse, responses=events_of(LoadingEvent))
async def loading(name: str, services: Use, visitor: Who, last_event_id: Annotated[str | None, Header()] = None) -> EventSourceResponse:
    """Send the events of loading the model ``name`` as server-sent events: progress, then loaded or failed. Raises Problem 409 if it is not
    being loaded.
    """
    entry = services.registry.find(name, visitor)
    if entry.state == "available":
        raise Problem(409, "not-loading", f"{name} is not being loaded.", send=f'POST /api/models {{"name": "{name}"}} first.')
    entry.is_awaited = True
    return stream(entry.feed, last_event_id)


@router.get("/models/{name:path}", response_model=ModelDetail)
def model(name: str, services: Use, visitor: Who) -> DocumentResponse:
    """Return the model called ``name`` with its card and, once it is loaded, its labels and its variants, with the reason for each that
    cannot run.

    ``classes``, if known, has for each label its everyday group, all its groups (each can be a target, ``any:<group>``) and its synonyms;
    ``calibration`` has the thresholds at which the model says that it does not know, and how they were measured.
    """
    entry = services.registry.find(name, visitor)
    document = {**entry.to_json(), "labels": [], "card": _card(name)}
    if entry.facts is not None:
        document |= {"labels": entry.facts.labels, "variants": entry.facts.variants}
        if entry.facts.classes:
            document["classes"] = [label.to_json() for label in entry.facts.classes]
    return DocumentResponse(document)


@router.get("/methods", response_model=registries.Methods)
async def methods(
    request: Request,
    services: Use,
    visitor: Who,
    model: str | None = None,
    side: Literal["image", "text"] = "image",
    spec: _Specs = None,
) -> Response:
    """List the methods with their options and, for every rule, whether the pair makes sense and why not; and the variants (a method with
    one of its own rules) in the order of the pages. With ``model`` also which cannot run for it and why, and the bounds of its options;
    ``side`` is the side of a CLIP model whose tokens get the scores. Without ``model`` also ``counts``, the numbers of methods. To help
    with choosing: the ``families`` of methods, ``presets`` (sets to start with), and ``standing``, the rank of each in a run that ships.
    ``specs`` has the parts of each ``spec`` that is valid.
    """
    specs = None if spec is None else read_specs(spec, services.settings)
    parts = None if specs is None else _parts(specs)
    if model is None:
        return await services.kept.answer(
            request, ("methods", specs, _names_of_methods_and_rules()), lambda: registries.all_methods(parts).to_json()
        )
    entry = services.registry.find(model, visitor)
    if entry.facts is None:
        raise Problem(
            409, "not-loaded", f"{model} is {entry.state}, not loaded.", send="Wait until the model is loaded, or leave model out."
        )
    facts = entry.facts if side == "image" else entry.facts.text_side
    if facts is None:
        raise Problem(422, "wrong-side", f"{model} has no text side that can be explained.", send="Leave side out.")
    key = ("methods", model, side, specs, _names_of_methods_and_rules())
    kind = facts.kind if side == "image" else None  # nobody has measured the words of prompts

    def document() -> dict[str, Any]:
        return registries.methods_of(model, kind, facts.methods, facts.variants, parts).to_json()

    return await services.kept.answer(request, key, document, [facts])


def _names_of_methods_and_rules() -> tuple[str, ...]:
    """Return the names of all methods and rules, as part of a cache key: a new one changes the answer."""
    return (*METHODS, *RULES)


def _card(name: str) -> str | None:
    """Return the model card; None if there is none, or the name cannot be one of the hub."""
    with suppress(ExplainerError):
        return card(name)
    return None


def _parts(specs: Sequence[str]) -> list[registries.SpecParts]:
    """Return the parts of those ``specs`` that can be parsed."""
    parts = []
    for spec in specs:
        with suppress(ExplainerError):
            parts.append(registries.spec_parts(spec))
    return parts


@router.get("/rules", response_model=registries.Rules)
async def rules(request: Request, services: Use) -> Response:
    """List the backward rules: what each does with every kind of operator; and the choices for each kind, in one sentence each."""
    return await services.kept.answer(request, ("rules", _names_of_methods_and_rules()), lambda: registries.rules().to_json())


@router.get("/quantities", response_model=registries.Quantities)
def quantities(services: Use) -> DocumentResponse:
    """List the quantities that can be shown for the attention heads of a model."""
    return DocumentResponse(registries.quantities().to_json())


@router.get("/samples", response_model=Samples)
async def samples(request: Request, services: Use) -> Response:
    """List sample inputs to try."""
    known, settings = services.samples.values(), services.settings
    return await services.kept.answer(request, "samples", lambda: {"samples": [sample.to_json(settings) for sample in known]})


@router.get("/samples/{name}/image", response_class=FileResponse, responses=file_of("image/*"))
def sample_image(name: str, services: Use) -> FileResponse:
    """Return the image of the sample called ``name``."""
    sample = services.samples.get(name)
    if sample is None or sample.image is None:
        near = suggestion(name, services.samples)
        raise Problem(404, "no-such-sample", f"There is no sample image {name!r}.", send=f"{near}GET /api/samples lists them.")
    media = "image/jpeg" if sample.image.suffix == ".jpg" else "image/png"
    return FileResponse(sample.image, media_type=media, headers={"Cache-Control": "private, max-age=3600"})
