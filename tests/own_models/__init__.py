"""Models as people have them, made tiny: every layout of files, folders and objects that ``explainers.open`` takes."""

from tests.own_models.case import Case, Given
from tests.own_models.files import FILES
from tests.own_models.folders import FOLDERS
from tests.own_models.objects import OBJECTS

CASES: dict[str, Case] = {case.name: case for case in (*FILES, *FOLDERS, *OBJECTS)}

__all__ = ["CASES", "Case", "Given"]
