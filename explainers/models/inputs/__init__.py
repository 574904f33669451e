"""From a picture or a text to the tensors that a model takes."""
