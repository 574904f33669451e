"""What is asked of models that give more than one row of logits: a file for each task."""

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
