"""The lines that make a stored explanation again, in Python and with curl. The page, the bundle and the interface all show these."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from explainers.records.targets import python_code, target_from_json
from vitrine_server.schemas.question import ExplainOptions
from vitrine_server.store.stored_files import COPY, TENSORS_FILE, name_of_picture

#: Files of a bundle: the picture with every pixel as it was sent, and all frames of a clip so.
WHOLE, CLIP = "picture.png", "clip.tiff"
Document = Mapping[str, Any]


def python_lines(document: Document, address: str | None = None, *, exact: bool = True) -> str:
    """Return lines of Python that explain the input of ``document`` (JSON of an explanation) of the same model by the same methods.

    address  the explanation's address on its server, from where the lines fetch the input; None if its files are in the same folder
    exact    whether the model's input was kept (``tensors.safetensors``), so that the scores are the same; otherwise a smaller copy of the
             picture is explained
    """
    target, modules = _python_target(document)
    head, source = [f"import {module}" for module in sorted({"explainers", *modules})], ""
    fetch: list[str] = []
    if document["input"]["kind"] == "text":
        source = _text_source(document["input"])
        if "picture" in document["input"] and address is not None:
            head.insert(0, "from urllib.request import urlretrieve\n")
            what = "a smaller copy of the picture: numbers can differ"
            names = [name_of_picture(COPY, number) for number in range(pictures_in(document["input"]))]
            fetch = [f"urlretrieve({_quote(f'{address}/{name}')}, {_quote(name)})  # {what}" for name in names]
            if is_video(document["input"]):
                del head[0]
                fetch = [f"# {CLIP}, its frames, is in {address}/bundle.zip"]
    else:
        name = TENSORS_FILE if exact else COPY
        source = f'load_file("{name}"),  # or a picture: "photo.jpg"' if exact else f'"{name}",'
        if exact:
            head.append("from safetensors.torch import load_file")
        if address is not None:
            what = "exactly what the model was given" if exact else "a smaller copy of the picture: numbers can differ"
            head.insert(0, "from urllib.request import urlretrieve\n")
            fetch = [f"urlretrieve({_quote(f'{address}/{name}')}, {_quote(name)})  # {what}"]
    methods = [f"    {_quote(spec)}," for spec in document["methods"]]
    arguments = [source, f"target={target},", "methods=[", *methods, "],"]
    if "prompts" in document:
        arguments.append('side="text",')
    arguments += [f"{name}={value!r}," if not isinstance(value, str) else f"{name}={_quote(value)}," for name, value in _options(document)]
    lines = [
        *head,
        "",
        _model_line(document),
        *fetch,
        "result = explainers.explain(",
        "    model,",
        *(f"    {argument}" for argument in arguments),
        ")",
        "for one in result.maps:",
        "    print(one.method, one.target, one.scores)",
    ]
    return "\n".join(lines) + "\n"


def curl_lines(document: Document, server: str, picture: str | None = None) -> str:
    """Return shell lines that ask ``server`` the question of the explanation ``document`` (JSON).

    picture the file in the same folder to send as the (first) picture; None has the server use the one that it keeps
    """
    source = document["input"]
    fields = [("model", document["model"])]
    lines: list[str] = []
    shown = source.get("picture", source)  # a picture may stand in a text
    fields += [(name, source[name]) for name in ("text", "text_pair") if name in source]
    if shown["kind"] == "image" and picture is None:
        kept, file = ("clip", "clip.gif") if "frames" in source or is_video(source) else ("picture", "photo.jpg")
        lines.append(f"# the server explains the {kept} that it keeps; in place of source, send a file: --form image=@{file}")
        fields.append(("source", document["id"]))
    elif shown["kind"] == "image" and picture == COPY:
        copy = f"# {picture} is a copy (JPEG, at most 1024 pixels a side): numbers can differ a little; send your own file for the same"
        lines.append(copy)
    if is_video(source):
        fields.append(("video", "true"))
    if picture != COPY and "frame" in shown:
        fields.append(("crop", ",".join(map(str, shown["frame"]))))
    first = document["targets"][0]
    fields += [("prompt" if _has_prompts(document) else "target", _form_value(target)) for target in document["targets"]]
    if first.get("against") is not None:
        fields.append(("against", first["against"]))
    if first.get("read") == "probability":
        fields.append(("read", "probability"))
    if "prompts" in document:
        fields.append(("side", "text"))
    fields += [(name, str(value)) for name, value in _options(document)]
    fields += [("methods", spec) for spec in document["methods"]]
    sent = [f"--form-string {shlex.quote(f'{name}={value}')}" for name, value in fields]
    if shown["kind"] == "image" and picture is not None:
        count = 1 if is_video(source) else pictures_in(source)
        sent[1:1] = [f"--form image=@{name_of_picture(picture, number)}" for number in range(count)]
        if document.get("at") == "similar":
            lines.append("# reference.jpg stands for the picture that it was compared with: it is not among these files")
            sent.insert(2, "--form reference=@reference.jpg")
    call = [f"curl --silent --show-error {shlex.quote(f'{server}/api/explanations?wait=1')}", *sent]
    return "\n".join([*lines, " \\\n  ".join(call)]) + "\n"


def is_video(source: Mapping[str, Any]) -> bool:
    """Return whether an input, its JSON ``source``, is a text with a video."""
    return "frame_numbers" in source.get("picture", {})


def pictures_in(source: Mapping[str, Any]) -> int:
    """Return the number of pictures in an input, its JSON ``source``, that is a picture, or a text with pictures."""
    return 1 + len(source.get("further_pictures", ()))


def _options(document: Document) -> list[tuple[str, Any]]:
    """Return the options of ``explain`` in the explanation ``document`` that differ from the defaults, as (name, value)."""
    return [(name, document[name]) for name in ExplainOptions.model_fields if name in document]


def _has_prompts(document: Document) -> bool:
    """Return whether prompts were explained in ``document``, the JSON of an explanation, judging by the top answers: a contrast of two
    prompts does not say so itself.
    """
    return any(answer.get("prompt") is not None for answer in document["top"])


def _model_line(document: Mapping[str, Any]) -> str:
    """Return the line of Python that loads the model of the explanation ``document``; a visitor's own model has a name on this server only,
    so its line has a gap to fill.
    """
    name, digest = document["model"], document["weights_digest"][:12]
    if name.startswith("own/"):
        return f'model = explainers.open("...")  # the files that were brought here as {name}, and how: weights {digest}'
    return f"model = explainers.load({_quote(name)})  # weights {digest}"


def _quote(text: str) -> str:
    """Return ``text`` as a Python string in double quotes."""
    return json.dumps(text, ensure_ascii=False)


def _text_source(source: Mapping[str, Any]) -> str:
    if is_video(source):
        return f"explainers.PicturePrompt(explainers.Clip({_quote(CLIP)}), {_quote(source['text'])}),"
    if "picture" in source:
        names = [_quote(name_of_picture(COPY, number)) for number in range(pictures_in(source))]
        shown = names[0] if len(names) == 1 else f"[{', '.join(names)}]"
        return f"explainers.PicturePrompt({shown}, {_quote(source['text'])}),"
    if "text_pair" in source:
        return f"explainers.TextPair({_quote(source['text'])}, {_quote(source['text_pair'])}),"
    return f"{_quote(source['text'])},"


def _python_target(document: Document) -> tuple[str, set[str]]:
    """Return the targets of the explanation ``document`` as Python code, and the modules to import for it. A class is named by its index,
    as two classes may share a label.
    """
    several = [target_from_json(target, None if _has_prompts(document) else ()) for target in document["targets"]]
    return python_code(several[0] if len(several) == 1 else several)


def _form_value(target: Mapping[str, Any]) -> str:
    """Return a target as the value of a form field: a prompt, a label or a written target, else the index of the class."""
    label = str(target.get("of", target["label"]))
    is_whole = target.get("kind") is not None or target.get("prompt") is not None or label.isdigit()
    return label if is_whole or target.get("index") is None else str(target["index"])
