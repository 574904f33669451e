"""The names of the files that are kept with an explanation."""

#: What the model was given, bit for bit.
TENSORS_FILE = "tensors.safetensors"
#: What was asked, but for the image.
QUESTION = "question.json"
#: The picture that an explained one is compared with, as it was sent.
REFERENCE = "reference"
#: What was stored of the explanation and cannot be read.
DAMAGED = "damaged"
