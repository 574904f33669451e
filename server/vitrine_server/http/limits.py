"""Limits of one request, each once, with the message where it is passed. The server refuses by it, and pages tell it before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from explainers.json_records import HIDDEN, Record, describe
from vitrine_server.http.problems import Problem
from vitrine_server.settings import Settings

MOST_CHARS_OF_A_NAME = 1000  # a target, a prompt, a method
MOST_CHARS_OF_A_TITLE = 120
MOST_FRAMES = 256  # files of one clip: each is open while a form is read
MOST_PICTURES = 16  # of one prompt: each takes hundreds of tokens
MOST_FRAMES_OF_VIDEO = 32  # of one prompt: all are read
MOST_BYTES_OF_JSON = 1_000_000
MOST_BYTES_OF_TOKENS = 3_000_000  # JSON with a number for each token: a hundred thousand of them, at twenty characters and more
MOST_BYTES_OF_FIELDS = 1_000_000  # all of a form but its image: names, targets, a text, boundaries


@dataclass(frozen=True)
class Limit(Record):
    """The maximum of one quantity in a request, and the refusal of a request that exceeds it.

    most    the largest number that is allowed
    status  HTTP status of the refusal; ``slug`` is its type
    detail  what is wrong; ``send`` says what to send instead
    """

    most: int
    status: Annotated[int, HIDDEN]
    slug: Annotated[str, HIDDEN]
    detail: Annotated[str, describe("With {count} and {what} for the number and the kind of things sent.")]
    send: str

    @property
    def type(self) -> Annotated[str, describe()]:
        """The type of the refusal, for machines."""
        return str(self.problem().to_json()["type"])

    @property
    def title(self) -> Annotated[str, describe()]:
        """The title of the refusal."""
        return str(self.problem().to_json()["title"])

    def problem(self, count: int = 0, what: str = "") -> Problem:
        """Make the Problem for a request with ``count`` things of the kind ``what``."""
        return Problem(self.status, self.slug, self.detail.format(count=count, what=what), send=self.send)


def size_limit(slug: str, most: int) -> Limit:
    """Make the limit of ``most`` bytes on a request's body, with ``slug`` as the type of the refusal."""
    size = f"{most / 1_000_000:g} MB"
    return Limit(most, 413, slug, f"The body of the request is larger than {size}.", f"Send at most {size}.")


def _time_limit(what: str, most: int) -> Limit:
    """Make the limit of ``most`` seconds that the model may work on ``what``. Its refusal is Problem 503."""
    detail = f"{what} took longer than {most} seconds of the model's time, and was ended."
    return Limit(most, 503, "took-too-long", detail, "Ask for fewer methods or targets, fewer samples or steps, or a shorter text.")


def limits(settings: Settings) -> dict[str, Limit]:
    """Return every limit in ``settings`` by its name."""
    size, pixels = f"{settings.max_upload_mb:g} MB", f"{settings.max_megapixels:g} megapixels"
    smaller = "a smaller copy will do."
    return {
        "upload": Limit(
            settings.max_upload_bytes,
            413,
            "upload-too-large",
            f"The upload is larger than {size}.",
            f"Send at most {size}; {smaller}",
        ),
        "pixels": Limit(
            settings.max_pixels, 413, "too-many-pixels", f"The image has more than {pixels}.", f"Send at most {pixels}; {smaller}"
        ),
        "pixels_of_clip": Limit(
            settings.max_pixels,
            413,
            "too-many-pixels",
            f"The frames of the clip have more than {pixels} together.",
            f"Send at most {pixels}: fewer frames, or smaller ones.",
        ),
        "frames": Limit(
            MOST_FRAMES,
            422,
            "too-many",
            "There are {count} frames.",
            f"Send at most {MOST_FRAMES} files: the model takes a few, chosen evenly among them.",
        ),
        "pictures": Limit(
            MOST_PICTURES, 422, "too-many", "There are {count} pictures in one prompt.", f"Send at most {MOST_PICTURES} pictures."
        ),
        "frames_of_video": Limit(
            MOST_FRAMES_OF_VIDEO,
            422,
            "too-many",
            "The video has {count} frames.",
            f"Send at most {MOST_FRAMES_OF_VIDEO} frames: the model reads all of them.",
        ),
        "pixels_of_pictures": Limit(
            settings.max_pixels,
            413,
            "too-many-pixels",
            f"The pictures of the prompt have more than {pixels} together.",
            f"Send at most {pixels}: fewer pictures, or smaller ones.",
        ),
        "text": Limit(
            settings.max_text_chars,
            413,
            "text-too-long",
            "The text has {count} characters.",
            f"Send at most {settings.max_text_chars} characters.",
        ),
        "title": Limit(
            MOST_CHARS_OF_A_TITLE,
            422,
            "title-too-long",
            "The title has {count} characters.",
            f"Send at most {MOST_CHARS_OF_A_TITLE} characters.",
        ),
        "methods": Limit(settings.max_methods, 422, "too-many", "There are {count} methods.", f"Send at most {settings.max_methods}."),
        "targets": Limit(
            settings.max_targets, 422, "too-many", "There are {count} values of {what}.", f"Send at most {settings.max_targets}."
        ),
        "job_seconds": _time_limit("What was asked", settings.job_seconds),
        "method_seconds": _time_limit("The method {what}", settings.method_seconds),
        "queue_share": Limit(
            settings.queue_share,
            429,
            "queue-full",
            "{count} {what} of yours are waiting already, which is your share of the queue.",
            "Send the same request again in a moment.",
        ),
        "name": Limit(MOST_CHARS_OF_A_NAME, 422, "too-long", "A {what} is too long.", f"Send at most {MOST_CHARS_OF_A_NAME} characters."),
    }
