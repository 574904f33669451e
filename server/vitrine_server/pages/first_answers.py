"""Addresses of the API that a page asks first, named in its head so that the browser fetches them while the scripts load.

A page asks one thing after the other, as each answer says what to ask next: the models, then the methods of one, then its picture. Here
the same is known at once. What is named and then not asked costs its bytes and nothing else: the scripts of the page decide, as they do
where a browser ignores the links.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from vitrine_server.jobs.catalogue.model_registry import ModelEntry
from vitrine_server.samples import SampleInput
from vitrine_server.services import Services

#: path of a page -> the kind of its models
KINDS = {"/image": "image", "/prompt": "clip", "/text": "text", "/molecule": "molecule"}


def first_answers(path: str, query: Mapping[str, str], services: Services) -> list[str]:
    """List the API addresses that the page at ``path``, opened with this ``query``, requests before it shows a map; empty for
    other pages.
    """
    kind = KINDS.get(path)
    if kind is None:
        return []
    addresses = ["/api/models", "/api/samples", "/api/limits"]
    if "id" in query:  # which model made that explanation its own answer says
        return _with_prefix(addresses, services)
    sample = _first_sample(kind, query, services)
    model = _first_model(kind, query, sample, services)
    if model is not None:
        side = "&side=text" if query.get("side") == "text" else ""
        addresses += [f"/api/methods?model={quote(model.name, safe='')}{side}", f"/api/models/{quote(model.name)}"]
    if sample is not None and sample.image is not None and "source" not in query:
        addresses.append(f"/api/samples/{quote(sample.id, safe='')}/image")
    return _with_prefix(addresses, services)


def _first_sample(kind: str, query: Mapping[str, str], services: Services) -> SampleInput | None:
    """Return the sample of this ``kind`` of input that a page begins with: the one named in the ``query`` of its address, else the first
    one of its model. None if there is none.
    """
    samples = [sample for sample in services.samples.values() if sample.entry["kind"] == kind]
    named = next((sample for sample in samples if sample.id == query.get("sample")), None)
    if named is not None:
        return named
    for_photos = next((entry.name for entry in services.registry.all() if entry.kind == kind and entry.photos), None)
    wanted = query.get("model") or for_photos
    of_model = [sample for sample in samples if wanted in (None, sample.entry.get("model"))] or samples
    several = [sample for sample in of_model if len(sample.entry.get("prompts", ())) > 1]  # as the Prompt page rather begins
    return next(iter((several if kind == "clip" else of_model) or of_model), None)


def _first_model(kind: str, query: Mapping[str, str], sample: SampleInput | None, services: Services) -> ModelEntry | None:
    """Return the model named in the address, else that of the sample, else the default of the kind; None unless it is loaded and has no
    owner.
    """
    models = [entry for entry in services.registry.all() if entry.kind == kind and entry.state == "loaded" and not entry.owner]
    named = query.get("model") or (sample and sample.entry.get("model"))
    entry = next((model for model in models if model.name == named), None)
    if entry is not None or "model" in query:
        return entry
    return next((model for model in models if model.default), None)


def _with_prefix(paths: list[str], services: Services) -> list[str]:
    """Return these API paths with the path prefix of a reverse proxy before them."""
    return [services.settings.address(path) for path in paths]
