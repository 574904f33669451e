"""Query parameters that a call does not know are refused, as misspelt fields of a form or of a body are."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request, params
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vitrine_server.http.problems import Problem, suggestion


def refuse_unknown_parameters(request: Request) -> None:
    """Raise Problem 422 if ``request`` has a query parameter that the API call lacks; URLs of pages may have any parameter."""
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not route.path.startswith("/api/"):
        return
    known = list(_query_parameters(route.dependant))
    for name in request.query_params:
        if name not in known:
            raise Problem(422, "unknown-parameter", f"This call has no query parameter {name!r}.", send=_what_to_send(name, known, route))


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of the query parameters of a call, ``dependant``, and of its dependencies."""
    yield from (parameter.alias for parameter in dependant.query_params)
    for other in dependant.dependencies:
        yield from _query_parameters(other)


def _what_to_send(name: str, known: list[str], route: APIRoute) -> str:
    if name in form_of(route):
        return f"Send {name} as a field of the form."
    if name in _body_fields(route):
        return f"Send {name} in the JSON body."
    listed = f"Query parameters: {', '.join(known)}." if known else "This call takes no query parameters: leave it out."
    return f"{suggestion(name, known)}{listed}"


def form_of(route: APIRoute) -> dict[str, FieldInfo]:
    """Return the form fields of the API call ``route`` by the names under which they are sent; empty if it takes no form."""
    body = route.body_field
    if body is None or not isinstance(body.field_info, params.Form):
        return {}
    model = body.field_info.annotation
    assert isinstance(model, type)
    assert issubclass(model, BaseModel)
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _body_fields(route: APIRoute) -> list[str]:
    body = None if route.body_field is None else route.body_field.field_info.annotation
    return list(body.model_fields) if isinstance(body, type) and issubclass(body, BaseModel) else []
