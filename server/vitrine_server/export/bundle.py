"""A finished explanation as one zip file: its input, its numbers, its pictures, and the lines that make it again."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vitrine_server.export.file_names import file_stem, folder_names
from vitrine_server.export.map_formats import MAP_FORMATS, scores_of
from vitrine_server.export.overlay import overlay
from vitrine_server.export.reproduce import CLIP, WHOLE, curl_lines, is_video, pictures_in, python_lines
from vitrine_server.store.map_files import pixels_name
from vitrine_server.store.stored_files import COPY, SEEN, TENSORS_FILE, name_of_picture

Document = Mapping[str, Any]
_PICTURE_PIXELS = 448  # of the pictures of maps


def map_stems(document: Document) -> list[str]:
    """Return a path without suffix for each map, in the order of the document; with several targets each has a folder of its own."""
    labels = [target["label"] for target in document["targets"]]
    folders = dict(zip(labels, folder_names(labels), strict=True)) if len(labels) > 1 else {}
    return [
        str(PurePosixPath("maps", folders.get(attribution["target"], ""), file_stem(attribution["method"])))
        for attribution in document["maps"]
    ]


def picture(
    document: Document,
    attribution: Mapping[str, Any],
    stored_file: Callable[[str], bytes | None],
    size: int,
    pixels: NDArray[Any] | None = None,
) -> bytes:
    """Render the map ``attribution`` of the explanation ``document`` and return the bytes of a PNG file whose longer side has ``size``
    pixels. ``stored_file`` returns the file of a name that is stored with the explanation, of which the images as the model saw them are
    read. ``pixels``: draw the scores of pixels instead of those of patches.
    """
    files = [stored_file(name_of_picture(SEEN, number)) for number in range(pictures_in(document["input"]))]
    seen = [Image.open(io.BytesIO(file), formats=("PNG",)) for file in files if file is not None]
    buffer = io.BytesIO()
    overlay(document, attribution, seen, size, pixels).save(buffer, "PNG")
    return buffer.getvalue()


def files(document: Document, stored: Mapping[str, bytes], server: str, largest: int) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file of the bundle of an explanation, ``document``.

    stored   the stored files of the explanation, by name: pictures of the input, the model's input tensors, maps by pixel
    server   the server's address, for the lines of curl
    largest  the maximum size in bytes of a picture that the server accepts
    """
    input_file = next((name for name in (CLIP, WHOLE) if name in stored), COPY)
    fits = len(stored.get(input_file, b"")) <= largest
    code, shell = python_lines(document, exact=TENSORS_FILE in stored), curl_lines(document, server, input_file if fits else None)
    stems = map_stems(document)
    yield "README.txt", _readme(document, stored, code, shell).encode()
    yield "reproduce.py", code.encode()
    yield "reproduce.sh", shell.encode()
    yield "explanation.json", (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()
    if document["input"]["kind"] == "text":
        yield "input.txt", str(document["input"]["text"]).encode()
        if "text_pair" in document["input"]:
            yield "input_pair.txt", str(document["input"]["text_pair"]).encode()
    numbers = range(pictures_in(document["input"]))
    listed = {name_of_picture(name, number) for name in (SEEN, COPY, WHOLE) for number in numbers} | {CLIP, TENSORS_FILE}
    yield from ((name, content) for name, content in stored.items() if name in listed)
    for attribution, stem in zip(document["maps"], stems, strict=True):
        pixels = stored.get(pixels_name(attribution["method"], attribution["target"]))
        for kind in MAP_FORMATS:
            yield f"{stem}.{kind.ending}", kind.write(scores_of(attribution))
            if pixels is not None:
                yield f"{stem}.pixels.{kind.ending}", kind.write(np.load(io.BytesIO(pixels)))
        yield f"{stem}.png", picture(document, attribution, stored.get, _PICTURE_PIXELS)


def zip_entries(entries: Iterator[tuple[str, bytes]], when: datetime) -> Iterator[bytes]:
    """Yield a zip file of the entries in pieces, so that it is never in memory as a whole; ``when`` is the date of every entry."""
    pipe = _Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        for name, content in entries:
            entry = zipfile.ZipInfo(name, (max(1980, when.year), *when.timetuple()[1:6]))
            packed = name.endswith((".png", ".jpg"))
            archive.writestr(entry, content, zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED)
            yield pipe.drain()
    yield pipe.drain()


class _Pipe(io.RawIOBase):
    """A file object to which a zip is written: it keeps the bytes until they are drained, and cannot seek."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._waiting += data
        return len(data)

    def drain(self) -> bytes:
        waiting, self._waiting = bytes(self._waiting), bytearray()
        return waiting


def _input(document: Document, stored: Mapping[str, bytes]) -> str:
    """Return text for the bundle's description: what input was explained in ``document``, the JSON of an explanation, and which of the
    ``stored`` files contain it.
    """
    source = document["input"]
    if "picture" in source:
        about = _input({"input": source["picture"]}, stored)
        more = pictures_in(source) - 1
        further = f" Of the {more} further pictures the files have numbers, such as {name_of_picture(SEEN, 1)}." if more else ""
        if is_video(source):
            seen = source["picture"]["seen"]
            frames = f"{SEEN} and the files with numbers have a frame of each time that the model tells apart, at {seen[0]} x {seen[1]}"
            about = f"A video. {frames}"
            further = f"; {CLIP} is all of it, pixel for pixel" if CLIP in stored else ""
        it = "They were" if more else "It was"
        return f"{about}{further}\n{it} read with a text of {len(source['text'])} characters: input.txt"
    if source["kind"] == "text":
        return f"A text of {len(source['text'])} characters: input.txt" + (
            ", and a second one: input_pair.txt" if "text_pair" in source else ""
        )
    exact = f"; {TENSORS_FILE} is what the model was given, to the last bit" if TENSORS_FILE in stored else ""
    if "frames" in source:
        frames = f"{SEEN} has a frame of each of the {source['frames']} times that the model tells apart, below each other, as it saw them"
        return f"A clip. {frames}{f'; {CLIP} is all of it, pixel for pixel' if CLIP in stored else ''}{exact}"
    width, height = source["width"], source["height"]
    left, top, right, bottom = source["crop"]
    part = "all of it" if source["crop"] == [0, 0, width, height] else f"columns {left} to {right} and rows {top} to {bottom}"
    copy = f"{COPY} is a smaller or lossy copy of it, {SEEN} what the model saw"
    which = f"{WHOLE} is that picture, pixel for pixel; {copy}" if WHOLE in stored else copy
    return f"A picture of {width} x {height} pixels. The model saw {part}, at {source['seen'][0]} x {source['seen'][1]}.\n{which}{exact}"


def _readme(document: Document, stored: Mapping[str, bytes], code: str, shell: str) -> str:
    targets = ", ".join(f"{target['label']} (logit {target['logit']:.6g})" for target in document["targets"])
    versions = ", ".join(f"{name} {number}" for name, number in document["versions"].items())
    contents = {
        "explanation.json": "the whole explanation: what the model said, every score, ranges, timings, notes",
        **{f"maps/*.{kind.ending}": f"{kind.says}, float32: (rows, columns) of patches, or one a token" for kind in MAP_FORMATS},
        **dict.fromkeys(
            (f"maps/*.pixels.{kind.ending}" for kind in MAP_FORMATS),
            "where a method goes back to the pixels: its map of those that the model saw, float32 (height, width)",
        ),
        "maps/*.png": "pictures of the maps, in the colours of the page",
        "reproduce.py": "the Python lines below",
        "reproduce.sh": "the lines of curl below",
        TENSORS_FILE: "what the model was given, to the last bit",
        SEEN: "the picture as the model saw it, pixel for pixel",
        WHOLE: "the picture, every pixel as it was sent, without what else stood in the file",
        CLIP: "the clip, every pixel of every frame as it was sent",
        COPY: "a copy of the picture (of a clip, of its first frame), JPEG, at most 1024 pixels a side",
        "input.txt": "the text",
        "input_pair.txt": "the second text",
    }
    text = document["input"]["kind"] == "text"
    pair = "text_pair" in document["input"]
    absent = {name for name in (TENSORS_FILE, SEEN, WHOLE, CLIP, COPY) if name not in stored}
    absent |= set() if text else {"input.txt"}
    absent |= (
        set()
        if any("pixels" in attribution for attribution in document["maps"])
        else {f"maps/*.pixels.{kind.ending}" for kind in MAP_FORMATS}
    )
    absent |= set() if pair else {"input_pair.txt"}
    listed = "\n".join(f"  {name:20} {what}" for name, what in contents.items() if name not in absent)
    notes = "".join(f"  {note}\n" for note in document.get("notes", ()))
    parts = [
        f"{document['title']}\n\nAn explanation made by Vitrine\n" if "title" in document else "An explanation made by Vitrine\n",
        f"made      {document['created']}\nmodel     {document['model']}\nweights   SHA-256 {document['weights_digest']}\n"
        f"explained {targets}\nversions  {versions}\n",
        f"Input\n\n{_input(document, stored)}\n",
        f"Files\n{listed}\n",
        *([f"Notes\n{notes}"] if notes else []),
        f"Make it again in Python, in this folder: python reproduce.py\n\n{code}",
        f"Make it again with curl, in this folder, of a Vitrine server: sh reproduce.sh\n\n{shell}",
    ]
    return "\n".join(parts)
