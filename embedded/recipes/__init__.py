"""How each embedded model was made, and how a model of one's own is fine-tuned.

Every recipe is a module with ``add_arguments(parser)`` and ``train(args)``; this table names them, and it is all that
the command line reads.
"""

from __future__ import annotations

RECIPES = {
    "scenes-vit": "embedded.recipes.train_scenes_vit",
    "photos-vit": "embedded.recipes.train_photos_vit",
    "clip": "embedded.recipes.train_clip",
    "reviews-bert": "embedded.recipes.train_reviews_bert",
    "molecules": "embedded.recipes.train_molecules",
    "marks-vit": "embedded.recipes.train_marks_vit",
    "votes-vit": "embedded.recipes.train_votes_vit",
    "subject-verb-bert": "embedded.recipes.train_subject_verb_bert",
    "reviews": "embedded.recipes.train_reviews",
}
