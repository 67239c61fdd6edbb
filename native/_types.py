"""The types of native/python. They are in the shared object of the C core, whose second module replaces this one."""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader

from orbitmq.native import _core

_loader = ExtensionFileLoader(__name__, _core.__file__)
_spec = spec_from_loader(__name__, _loader, origin=_core.__file__)
assert _spec is not None
_module = module_from_spec(_spec)
_loader.exec_module(_module)
sys.modules[__name__] = _module
