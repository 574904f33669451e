"""What two inputs have to do with each other in the space of an encoder: words and patches, two pictures, two texts."""

from explainers.analysis.interactions.pairs import Interaction, input_interaction, interaction

__all__ = ["Interaction", "input_interaction", "interaction"]
