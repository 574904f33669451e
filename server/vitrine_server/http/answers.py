"""The response class for documents that are validated already."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse
from pydantic_core import to_json


class DocumentResponse(JSONResponse):
    """A JSON response by pydantic's serializer, which takes half the time of the standard library's. The document is sent unchanged and
    must hold no NaN: what is stored, read from a file or answered by a model is checked before.
    """

    def render(self, content: Any) -> bytes:
        """Encode ``content``, the document of the answer, as bytes of JSON."""
        return to_json(content)
