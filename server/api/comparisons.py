"""What follows from the maps of an explanation alone: which methods agree, and which label wins which patch."""

from __future__ import annotations

import io
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from torch import Tensor

from explainers.analysis.agreement import agreement_of
from explainers.analysis.agreement_sentence import sentence_of, title_map, words_of
from explainers.analysis.regions import THRESHOLD, Regions, refuse_without_winner, regions_of
from explainers.errors import ExplainerError
from explainers.methods.registry import is_control
from server.http.answers import DocumentResponse
from server.http.bodies import BodyRoute
from server.http.openapi import file_of
from server.http.problems import Problem
from server.lookup import ExplanationId, find_document, find_target
from server.schemas.explanations import Agreement
from server.schemas.explanations import Regions as RegionsAnswer
from server.services import Services, Use
from server.studies.deletion_test import maps_of, read_for

router = APIRouter(prefix="/api/explanations", tags=["taking away"], route_class=BodyRoute)
_Method = Annotated[
    str | None, Query(max_length=1000, description="The spec whose maps are compared; none: the first that depends on the label.")
]
_Threshold = Annotated[float, Query(ge=0, le=1, description="The share of the largest score that a patch needs to belong to a label.")]


@router.get("/{id}/agreement", response_model=Agreement)
def agreement(explanation_id: ExplanationId, services: Use, target: str | None = None) -> DocumentResponse:
    """How alike the maps that are there order the patches or words: Spearman's rank correlation of every pair of methods.

    ``target``: a label, the first one by default. ``methods`` are in an order that puts like beside like, ``correlations`` rows and columns
    in that order; null where a map has one score throughout. ``sentence``: what they have in common in words, "" where there is nothing
    to say; the control is left out of it.
    """
    document = find_document(explanation_id, services)
    label = str(find_target(document, target)["label"])
    maps = maps_of(document, label, None) if document["maps"] else {}
    if not maps:
        raise Problem(409, "no-map", f"There is no map for {label!r} yet.", send="Ask again once the first maps are done.")
    return DocumentResponse({"id": explanation_id, **agreement_of(maps, label).to_json(), "sentence": _sentence(document, label, maps)})


def _sentence(document: dict[str, Any], label: str, maps: dict[str, Tensor]) -> str:
    """What the maps for a label have in common, under the names of their plates."""
    entries = [entry for entry in document["maps"] if entry["target"] == label and not is_control(entry["readout"])]
    if not entries:
        return ""
    shown = [title_map(entry["title"], entry["method"], maps[entry["method"]], entry["signed"]) for entry in entries]
    if (grid := entries[0].get("grid")) is not None:
        return sentence_of(shown, grid=(grid[0], grid[1]))
    read = read_for(document, label)
    if "molecule" in read:
        return sentence_of(shown, are_atoms=True)
    return sentence_of(shown, words=words_of(read["tokens"], read["words"]))


@router.get("/{id}/regions", response_model=RegionsAnswer)
def regions(explanation_id: ExplanationId, services: Use, method: _Method = None, threshold: _Threshold = THRESHOLD) -> DocumentResponse:
    """Which explained prompt or class wins each patch: for each its share, and its regions with boxes in pixels of the upright original.

    ``labels[].index`` is the value of a label in ``regions.png``; there and here 0 is nobody's. ``crop`` is what the mask covers.
    """
    return DocumentResponse({"id": explanation_id, **_regions(explanation_id, services, method, threshold).to_json()})


@router.get("/{id}/regions.png", response_class=Response, responses=file_of("image/png"))
def mask(explanation_id: ExplanationId, services: Use, method: _Method = None, threshold: _Threshold = THRESHOLD) -> Response:
    """The same as an indexed picture of the seen crop, as large as it is in the upright original: 0 nobody's, 1 the first label's, ..."""
    buffer = io.BytesIO()
    _regions(explanation_id, services, method, threshold).mask().save(buffer, "PNG", transparency=0)
    return Response(buffer.getvalue(), media_type="image/png")


def _regions(explanation_id: str, services: Services, method: str | None, threshold: float) -> Regions:
    """Raises Problem 404 for a method without a map, 409 while maps are missing, 422 for a text and where no label wins."""
    document = find_document(explanation_id, services)
    source = document.get("input")
    if source is not None and (source["kind"] != "image" or "prompts" in document):
        raise Problem(422, "not-a-picture", "The words of a text were explained.", send="Explain an image: regions lie in a picture.")
    maps: list[dict[str, Any]] = document["maps"]
    specs = list(dict.fromkeys(entry["method"] for entry in maps))
    if method is None:
        method = next((entry["method"] for entry in maps if entry["class_specific"]), None)
    attributions = [entry for entry in maps if entry["method"] == method]
    labels = [target["label"] for target in document.get("targets", ())]
    if attributions and len(attributions) == len(labels):
        scores = np.array([entry["scores"] for entry in attributions], float).reshape(-1, *attributions[0]["grid"])
        assert source is not None
        assert method is not None
        try:
            refuse_without_winner(method, labels, attributions[0]["class_specific"])
        except ExplainerError as error:
            able = ", ".join(dict.fromkeys(entry["method"] for entry in maps if entry["class_specific"])) or "none"
            raise Problem(422, "no-winner", str(error), send=f"Send a method whose maps depend on the label; there are: {able}.") from None
        size, crop = (source["width"], source["height"]), tuple(source["crop"])
        return regions_of(
            scores, [entry["target"] for entry in attributions], method, size, crop, signed=attributions[0]["signed"], threshold=threshold
        )
    if document["state"] in {"queued", "running"}:
        raise Problem(409, "no-map", "The maps of that method are not all there yet.", send="Ask again once the explanation is done.")
    raise Problem(404, "no-such-map", f"The explanation has no map {method!r} over patches.", send=f"It has: {', '.join(specs) or 'none'}.")
