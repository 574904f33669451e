"""How each embedded model was made, and how your own model is fine-tuned.

Every recipe is a module with ``add_arguments(parser)`` and ``train(args)``; this table names them, and it is all that
the command line reads.
"""

from __future__ import annotations

RECIPES = {
    "scenes-vit": "recipes.train_scenes_vit",
    "photos-vit": "recipes.train_photos_vit",
    "clip": "recipes.train_clip",
    "reviews-bert": "recipes.train_reviews_bert",
    "molecules": "recipes.train_molecules",
    "scenes-llava": "recipes.train_scenes_llava",
    "marks-vit": "recipes.train_marks_vit",
    "votes-vit": "recipes.train_votes_vit",
    "subject-verb-bert": "recipes.train_subject_verb_bert",
    "reviews": "recipes.train_reviews",
}
