"""Questions as the engine takes them, and its answers as plain data for the server."""

from __future__ import annotations

from typing import Any

from PIL import Image
from safetensors.torch import save

from explainers.models.inputs.depth import WindowedPicture
from explainers.models.inputs.types import Clip, Crop, PicturePrompt, TextPair
from vitrine_server.http.uploads import encode_image, is_packed, open_alone, open_picture, open_pictures, open_video
from vitrine_server.jobs.host.interface import MadeMap, ModelAnswer
from vitrine_server.jobs.host.streams import Tell
from vitrine_server.schemas.question import Question
from vitrine_server.settings import Settings
from vitrine_server.store.map_files import npy
from vitrine_server.store.stored_files import SEEN, TENSORS_FILE, name_of_picture


class AnswerSender:
    """An observer of ``explain`` that passes the answer, with ``note`` added, and each map to ``tell`` as plain data."""

    def __init__(self, tell: Tell, note: str | None = None) -> None:
        self._tell, self._note = tell, note

    def on_prediction(self, explanation: Any) -> None:
        """Send the model's answer in ``explanation``, its tensors and its input picture to the server; called once in every turn."""
        files = {TENSORS_FILE: save({name: tensor.detach().cpu().contiguous() for name, tensor in explanation.tensors.items()})}
        for number, shown in enumerate(getattr(explanation.input, "pictures", [explanation.input])):  # those that stand in a text
            pixels = getattr(shown, "pixels", None)  # a text has none
            if pixels is not None:
                files[name_of_picture(SEEN, number)] = encode_image(pixels, "PNG")
        document = explanation.to_json()
        if self._note is not None:
            document["notes"].append(self._note)
        self._tell(ModelAnswer(document, _tokens(explanation), files))

    def on_map(self, explanation: Any, attribution: Any) -> None:
        """Send ``attribution``, a finished map of ``explanation``, to the server."""
        pixels = None if attribution.pixels is None else npy(attribution.pixels.numpy())
        self._tell(MadeMap(attribution.to_json(), pixels, _tokens(explanation)))


def _tokens(explanation: Any) -> int:
    """Return the number of token ids in the input of an explanation, by which costs are estimated; 0 if there are none."""
    shapes = [explanation.tensors[name].shape for name in ("input_ids", "attention_mask") if name in explanation.tensors]
    return int(shapes[0].numel()) if shapes else 0


def source_of(question: Question, settings: Settings, model: Any) -> Any:
    """Convert the input of ``question`` to the argument of ``explain`` for ``model`` and return it: a picture, a clip, a crop, a text, a
    pair of texts, or pictures or a video with a text.
    """
    if question.image is not None and question.text is not None and question.video:
        return PicturePrompt(Clip(open_video(question.image, settings)), question.text)
    if question.image is not None and question.text is not None and is_packed(question.image):
        return PicturePrompt(open_pictures(question.image, settings), question.text)
    if question.image is not None:
        given = open_alone(question.image, settings, model.details)
        if not isinstance(given, Image.Image):
            return given
        whole = given if question.window is None else WindowedPicture(given, *question.window)
        shown = whole if question.crop is None else Crop(whole, question.crop)
        return shown if question.text is None else PicturePrompt(shown, question.text)
    text = question.text or ""
    return text if question.text_pair is None else TextPair(text, question.text_pair)


def reference_of(question: Question, settings: Settings) -> Image.Image | str | None:
    """Return the picture or text to which the input of a question is compared; None if there is none."""
    return question.reference_text if question.reference is None else open_picture(question.reference, settings)
