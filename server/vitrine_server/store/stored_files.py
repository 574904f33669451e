"""The names of the files that are kept with an explanation."""

#: The tensors that the model took, bit for bit.
TENSORS_FILE = "tensors.safetensors"
#: The question, without the image.
QUESTION = "question.json"
#: The picture that an explained one is compared with, as it was sent.
REFERENCE = "reference"
#: The stored explanation, if it cannot be read.
DAMAGED = "damaged"
