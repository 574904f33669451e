"""What two inputs have to do with each other in the space of an encoder: words and patches, two pictures, two texts."""

from explainers.analysis.interactions.pairs import Interaction, alike, interaction

__all__ = ["Interaction", "alike", "interaction"]
