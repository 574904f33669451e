"""The lines that make a stored explanation again, in Python and with curl. The page, the bundle and the interface all show these."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from server.store import TENSORS
from server.uploads import SEEN_SIDE

PICTURE, SEEN = "original.jpg", "input.png"
Document = Mapping[str, Any]


def picture_to_send(document: Document) -> tuple[str, bool]:
    """The kept file that comes nearest to the picture that was given, and whether it has the same pixels.

    ``input.png`` loses nothing where the model saw all of a picture that is no larger than that file may be.
    """
    told = document["input"]
    size = [told["width"], told["height"]]
    same = told["crop"] == [0, 0, *size] and max(size) <= SEEN_SIDE
    return (SEEN, True) if same else (PICTURE, False)


def python_lines(document: Document, address: str | None = None, *, exact: bool = True) -> str:
    """Python that explains the same input of the same model with the same methods.

    address  of the explanation on its server, from where the lines fetch the input; None where its files lie beside them
    exact    whether what the model was given was kept (``tensors.safetensors``): then the scores are the same. Else a smaller copy of
             the picture is explained
    """
    head, source = ["import explainers"], ""
    fetch: list[str] = []
    if document["input"]["kind"] == "text":
        source = _text_source(document["input"])
    else:
        name = TENSORS if exact else PICTURE
        source = f'load_file("{name}"),  # or a picture: "photo.jpg"' if exact else f'"{name}",'
        if exact:
            head.append("from safetensors.torch import load_file")
        if address is not None:
            what = "exactly what the model was given" if exact else "a smaller copy of the picture: numbers can differ"
            head.insert(0, "from urllib.request import urlretrieve\n")
            fetch = [f"urlretrieve({_quoted(f'{address}/{name}')}, {_quoted(name)})  # {what}"]
    methods = [f"    {_quoted(spec)}," for spec in document["methods"]]
    arguments = [source, f"target={_python_target(document)},", "methods=[", *methods, "],"]
    if "prompts" in document:
        arguments.append('side="text",')
    lines = [
        *head,
        "",
        f"model = explainers.load({_quoted(document['model'])})  # weights {document['weights_digest'][:12]}",
        *fetch,
        "result = explainers.explain(",
        "    model,",
        *(f"    {argument}" for argument in arguments),
        ")",
        "for one in result.maps:",
        "    print(one.method, one.target, one.scores)",
    ]
    return "\n".join(lines) + "\n"


def curl_lines(document: Document, server: str, address: str | None = None) -> str:
    """Shell lines that ask ``server`` the same; ``address`` as for :func:`python_lines`. A picture is sent as :func:`picture_to_send`."""
    told = document["input"]
    fields = [("model", document["model"])]
    lines: list[str] = []
    picture = ""
    if told["kind"] == "text":
        fields += [(name, told[name]) for name in ("text", "text_pair") if name in told]
    else:
        picture, same = picture_to_send(document)
        if not same:
            lines.append(
                f"# {picture} is a copy (JPEG, at most 1024 pixels a side): numbers can differ a little; send your own file for the same"
            )
        if address is not None:
            lines.append(f"curl --silent --show-error --output {picture} {shlex.quote(f'{address}/{picture}')}")
    first = document["targets"][0]
    prompted = any(one.get("prompt") is not None for one in document["top"])  # a contrast of two prompts does not say so itself
    fields += [("prompt" if prompted else "target", _asked(target)) for target in document["targets"]]
    if first.get("against") is not None:
        fields.append(("against", first["against"]))
    if first.get("read") == "probability":
        fields.append(("read", "probability"))
    if "prompts" in document:
        fields.append(("side", "text"))
    fields += [("methods", spec) for spec in document["methods"]]
    sent = [f"--form-string {shlex.quote(f'{name}={value}')}" for name, value in fields]
    if told["kind"] != "text":
        sent.insert(1, f"--form image=@{picture}")
    call = [f"curl --silent --show-error {shlex.quote(f'{server}/api/explanations?wait=1')}", *sent]
    return "\n".join([*lines, " \\\n  ".join(call)]) + "\n"


def _quoted(text: str) -> str:
    """``text`` as a Python string between double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _text_source(told: Mapping[str, Any]) -> str:
    if "text_pair" in told:
        return f"explainers.TextPair({_quoted(told['text'])}, {_quoted(told['text_pair'])}),"
    return f"{_quoted(told['text'])},"


def _python_target(document: Document) -> str:
    """The targets as ``explain`` takes them. A class is named by its index, as two classes may share a label."""
    several = [_one_target(target) for target in document["targets"]]
    return several[0] if len(several) == 1 else f"[{', '.join(several)}]"


def _one_target(target: Mapping[str, Any]) -> str:
    if target.get("against") is not None:
        return f"explainers.Contrast({_quoted(target['of'])}, {_quoted(target['against'])})"
    one = _quoted(target.get("of", target["label"])) if target.get("prompt") is not None else str(target["index"])
    return f"explainers.Probability({one})" if target.get("read") == "probability" else one


def _asked(target: Mapping[str, Any]) -> str:
    """A target as the field of a form: a prompt or a label, else the index of the class."""
    label = str(target.get("of", target["label"]))
    return label if target.get("index") is None or target.get("prompt") is not None or label.isdigit() else str(target["index"])
