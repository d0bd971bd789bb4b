"""Scripts of this repository, imported by their files."""

import importlib.util
import sys


def loaded(path):
    """Yield the module that a script makes; it can be imported while a fixture yields it."""
    spec = importlib.util.spec_from_file_location(f"{path.stem}_script", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]
