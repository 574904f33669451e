"""Routes that compare the maps of one explanation: which methods agree, and which label wins which patch."""

from __future__ import annotations

import io
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from fastapi.responses import Response
from torch import Tensor

from explainers.analysis.agreement import agreement_of
from explainers.analysis.agreement_sentence import outlined_atom_sentence, outlined_sentence, sentence_of, title_map, words_of
from explainers.analysis.regions import THRESHOLD, Regions, refuse_without_winner, regions_of
from explainers.errors import ExplainerError
from explainers.methods.registry import is_control
from vitrine_server.export.file_names import as_download, download_name
from vitrine_server.http.answers import DocumentResponse
from vitrine_server.http.bodies import BodyRoute
from vitrine_server.http.openapi import file_of
from vitrine_server.http.problems import Problem
from vitrine_server.lookup import ExplanationId, find_document, find_target
from vitrine_server.schemas.explanations import Agreement
from vitrine_server.schemas.explanations import Regions as RegionsAnswer
from vitrine_server.services import Services, Use
from vitrine_server.studies.deletion_test import maps_of, read_for

router = APIRouter(prefix="/api/explanations", tags=["taking away"], route_class=BodyRoute)
_Method = Annotated[
    str | None, Query(max_length=1000, description="The spec whose maps are compared; none: the first that depends on the label.")
]
_Threshold = Annotated[float, Query(ge=0, le=1, description="The share of the largest score that a patch needs to belong to a label.")]


@router.get("/{id}/agreement", response_model=Agreement)
def agreement(explanation_id: ExplanationId, services: Use, target: str | None = None) -> DocumentResponse:
    """Return Spearman's rank correlation between the maps of every pair of methods of an explanation, by its id: whether they order the
    patches or words alike.

    ``target`` is a label, by default the first. ``methods`` are ordered so that similar ones are neighbours; ``correlations`` has rows and
    columns in that order, null for a map with the same score everywhere. ``sentence`` says in words what the maps have in common, without
    the control; "" if there is nothing to say. ``outline`` has the patches of the part of a picture that most maps mark, or the atom of a
    molecule at which most are strongest; none where there is no such part.
    """
    document = find_document(explanation_id, services)
    label = str(find_target(document, target)["label"])
    maps = maps_of(document, label, None) if document["maps"] else {}
    if not maps:
        raise Problem(409, "no-map", f"There is no map for {label!r} yet.", send="Ask again when the first maps are finished.")
    sentence, outline = _sum_up(document, label, maps)
    return DocumentResponse({"id": explanation_id, **agreement_of(maps, label).to_json(), "sentence": sentence, "outline": outline})


def _sum_up(document: dict[str, Any], label: str, maps: dict[str, Tensor]) -> tuple[str, list[int]]:
    """Return a sentence on what ``maps``, scores by spec, of ``document`` (JSON of an explanation) for ``label`` have in common, using the
    titles that the page shows, and the patches of a picture that they mark most; "" and none if the control is the only map.
    """
    entries = [entry for entry in document["maps"] if entry["target"] == label and not is_control(entry["readout"])]
    if not entries:
        return "", []
    shown = [title_map(entry["title"], entry["method"], maps[entry["method"]], entry["signed"]) for entry in entries]
    if (grid := entries[0].get("grid")) is not None:
        return outlined_sentence(shown, (grid[0], grid[1]))
    read = read_for(document, label)
    if "molecule" in read:
        return outlined_atom_sentence(shown, [word["text"] for word in read["words"]])
    return sentence_of(shown, words=words_of(read["tokens"], read["words"])), []


@router.get("/{id}/regions", response_model=RegionsAnswer)
def regions(explanation_id: ExplanationId, services: Use, method: _Method = None, threshold: _Threshold = THRESHOLD) -> DocumentResponse:
    """Return which prompt or class of one explanation, by its id, wins each patch by the maps of ``method``, where its score is above
    ``threshold``, a share of the largest: for each label its share of the patches, and its regions with boxes in pixels of the upright
    original. A prompt that the model did not find for sure, or cannot read, wins none.

    ``labels[].index`` is the value of a label in ``regions.png``; 0 means that no label wins. ``crop`` is the part of the picture that the
    mask covers.
    """
    won = _regions(explanation_id, services, method, threshold)
    name = download_name(find_document(explanation_id, services), "regions", won.method)
    return DocumentResponse({"id": explanation_id, **won.to_json()}, headers=as_download(f"{name}.json", is_shown=True))


@router.get("/{id}/regions.png", response_class=Response, responses=file_of("image/png"))
def mask(explanation_id: ExplanationId, services: Use, method: _Method = None, threshold: _Threshold = THRESHOLD) -> Response:
    """Return the labels that win each patch of an explanation by the maps of ``method``, as an indexed PNG of the crop that the model saw,
    in the resolution of the upright original: 0 for none, 1 for the first label, and so on.
    """
    buffer = io.BytesIO()
    won = _regions(explanation_id, services, method, threshold)
    won.mask().save(buffer, "PNG", transparency=0)
    name = download_name(find_document(explanation_id, services), "regions", won.method)
    return Response(buffer.getvalue(), media_type="image/png", headers=as_download(f"{name}.png", is_shown=True))


def _regions(explanation_id: str, services: Services, method: str | None, threshold: float) -> Regions:
    """Return the regions of the explanation with this id by the maps of ``method``, by default the first that depends on the label; scores
    below ``threshold``, a share of the largest, win nothing. Raises Problem 404 for a method without a map, 409 while maps are missing, 422
    for a text and if no label can win.
    """
    document = find_document(explanation_id, services)
    source = document.get("input")
    if source is not None and (source["kind"] != "image" or "prompts" in document):
        raise Problem(422, "not-a-picture", "The words of a text were explained.", send="Explain an image: only pictures have regions.")
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
            scores,
            [entry["target"] for entry in attributions],
            method,
            size,
            crop,
            signed=attributions[0]["signed"],
            threshold=threshold,
            unfound={target["label"] for target in document["targets"] if target.get("abstention") is not None},
        )
    if document["state"] in {"queued", "running"}:
        raise Problem(409, "no-map", "Not all maps of that method are ready yet.", send="Ask again once the explanation is done.")
    raise Problem(404, "no-such-map", f"The explanation has no map {method!r} over patches.", send=f"It has: {', '.join(specs) or 'none'}.")
