"""Tasks of models that give more than one row of logits: a file for each.

Importing this package imports all of its files, so each task that one of them adds is in :data:`TASKS`.
"""

from importlib import import_module
from pkgutil import iter_modules

from explainers.models.tasks.detection import ObjectDetection
from explainers.models.tasks.features import Features
from explainers.models.tasks.generated_answer import GeneratedAnswer
from explainers.models.tasks.masked_word import MaskedWord
from explainers.models.tasks.picture_answer import PictureAnswer
from explainers.models.tasks.question_answering import QuestionAnswering
from explainers.models.tasks.segmentation import ImageSegmentation
from explainers.models.tasks.several_heads import SeveralHeads
from explainers.models.tasks.task import TASKS, Place, Reading, Task, TaskInput, add_task, task_of
from explainers.models.tasks.token_classification import TokenClassification

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

__all__ = [
    "TASKS",
    "Features",
    "GeneratedAnswer",
    "ImageSegmentation",
    "MaskedWord",
    "ObjectDetection",
    "PictureAnswer",
    "Place",
    "QuestionAnswering",
    "Reading",
    "SeveralHeads",
    "Task",
    "TaskInput",
    "TokenClassification",
    "add_task",
    "task_of",
]
