"""The kinds of blocks that a model may be made of: a file for each, with all that methods, pages and checks need to know of it.

Importing this package imports all of its files, so each kind that one of them adds is in :data:`BLOCK_KINDS`.
"""

from importlib import import_module
from pkgutil import iter_modules

from explainers.models.structure.block_kinds.base import BlockCall, BlockKind
from explainers.models.structure.block_kinds.branches import Branches
from explainers.models.structure.block_kinds.inner_tokens import InnerTokens
from explainers.models.structure.block_kinds.one_stream import OneStream
from explainers.models.structure.block_kinds.registry import BLOCK_KINDS, add_block_kind, kind_of
from explainers.models.structure.block_kinds.several_streams import SeveralStreams, StreamsInColumns

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

__all__ = [
    "BLOCK_KINDS",
    "BlockCall",
    "BlockKind",
    "Branches",
    "InnerTokens",
    "OneStream",
    "SeveralStreams",
    "StreamsInColumns",
    "add_block_kind",
    "kind_of",
]
