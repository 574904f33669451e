"""Declarations that let timm and transformers be imported with a torchvision that was built for another torch.

timm imports torchvision, and transformers' model classes do too. When torchvision's compiled extension cannot be loaded (a CUDA
build with a CPU torch, the usual outcome of ``pip install`` on a machine without a GPU), its Python side still registers
fake kernels for ``torchvision::nms`` and ``torchvision::qnms``, and dies because nobody declared these operators. We
declare the two missing
schemas, and nothing else: no model that Vitrine runs calls them. With a matching torchvision this module does nothing.

Import it before timm or transformers; ``import explainers`` does.
"""

from __future__ import annotations

import torch

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
# A library object takes its declarations back when it is collected, so the module keeps it.
_LIBRARIES: list[torch.library.Library] = []


def register_missing_schemas() -> list[str]:
    """Declare ``torchvision::nms`` and ``torchvision::qnms`` if no loaded library has; returns the names declared now."""
    try:
        import torchvision.extension  # noqa: F401  (loads the compiled operators where they fit)
    except ImportError:
        return []
    except RuntimeError:
        pass  # the very failure this module exists for; torchvision is imported again by timm once the schemas are there
    declared = []
    for name, schema in _SCHEMAS.items():
        if not hasattr(torch.ops.torchvision, name):
            if not _LIBRARIES:
                _LIBRARIES.append(torch.library.Library("torchvision", "FRAGMENT"))
            _LIBRARIES[0].define(schema)
            declared.append(name)
    return declared


register_missing_schemas()
