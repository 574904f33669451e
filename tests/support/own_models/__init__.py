"""Models as people have them, made tiny: every layout of files, folders and objects that ``explainers.open`` takes."""

from tests.support.own_models.case import Case, Given
from tests.support.own_models.files import FILES
from tests.support.own_models.folders import FOLDERS
from tests.support.own_models.objects import OBJECTS

CASES: dict[str, Case] = {case.name: case for case in (*FILES, *FOLDERS, *OBJECTS)}

__all__ = ["CASES", "Case", "Given"]
