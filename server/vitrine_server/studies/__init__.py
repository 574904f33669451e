"""Studies: what a loaded model can be asked besides explanations, such as the answer with tokens removed, layers, mixed rules, depth."""

from importlib import import_module
from pkgutil import iter_modules

for _file in iter_modules(__path__):  # each declares its kinds
    import_module(f"{__name__}.{_file.name}")
