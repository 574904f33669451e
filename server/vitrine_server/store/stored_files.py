"""The names of the files that are kept with an explanation."""

#: The tensors that the model took, bit for bit.
TENSORS_FILE = "tensors.safetensors"
#: The pixels that the model saw of a picture (of a clip, of a frame of each of its times).
SEEN = "input.png"
#: A copy of the picture (of a clip, of its first frame): JPEG, at most 1024 pixels a side.
COPY = "original.jpg"
#: The question, without the image.
QUESTION = "question.json"
#: The picture that an explained one is compared with, as it was sent.
REFERENCE = "reference"
#: The stored explanation, if it cannot be read.
DAMAGED = "damaged"


def name_of_picture(name: str, number: int) -> str:
    """Return the name of the file that is called ``name`` for the first picture of a prompt, such as input.png, for the one with this
    ``number``, from 0 on: input-2.png for the second.
    """
    stem, _, ending = name.partition(".")
    return name if number == 0 else f"{stem}-{number + 1}.{ending}"
