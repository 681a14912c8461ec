"""Functions that kernels call, without machine code of their own: LLVM optimises them in each kernel that calls them.

numba alone would also optimise them apart, generate machine code, and wrap it for Python: a third of the time.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
from llvmlite.binding.newpassmanagers import create_new_module_pass_manager
from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.compiler import Compiler
from numba.core.compiler import Flags as NumbaFlags


class Flags(NumbaFlags):
    """Options of a compilation that are cheap to compare: numba looks overloads up by them 10,000 times a kernel."""

    _HASH = NumbaFlags().__hash__()

    def __hash__(self) -> int:
        return self._HASH

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NumbaFlags):
            return False
        return bool(self._values == other._values or self.values() == other.values())


def shape_error(src_shapes, index_shape):  # type: ignore[no-untyped-def]
    """What numba calls for slices of different shapes, without the text of both, which takes a second to compile."""
    raise ValueError("cannot assign slice from input of different size")


class _Codegen(JITCPUCodegen):
    """Code generator of kernels, whose engine gets none of the parts."""

    def __init__(self, whole: JITCPUCodegen) -> None:
        self.__dict__ = vars(whole).copy()

    @property
    def _library_class(self) -> type:
        return PartLibrary

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing: no machine code reads it."""


class PartLibrary(JITCodeLibrary):
    """LLVM code of a part."""

    @property
    def codegen(self) -> JITCPUCodegen:
        return _Codegen(self._codegen)

    def _optimize_final_module(self) -> None:
        """Leave no address of a function that is an argument, since numba caches none."""
        passes = create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_dead_code_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(self._final_module, self._codegen._pass_builder())

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        return 0

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """Bitcode alone, which `_unserialize` takes too."""
        return self.name, "bitcode", self._get_module_for_linking().as_bitcode()


class PartCompiler(Compiler):
    """Puts code into a `PartLibrary`."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, *others: Any) -> None:
        super().__init__(typingctx, targetctx, PartLibrary(targetctx.codegen(), "part"), *others)


def for_parts(target: Any) -> Any:
    """A target context that reads parts from the cache."""
    return target.subtarget(_internal_codegen=_Codegen(target.codegen()))


def make_part(function: Callable[..., Any], whole: Callable[..., Any], **options: Any) -> Any:
    """The dispatcher of a part. whole: makes a kernel of the function, at the first call from Python."""
    options |= dict.fromkeys(("nogil", "no_cpython_wrapper", "no_cfunc_wrapper"), True)
    part = numba.njit(error_model="numpy", pipeline_class=PartCompiler, **options)(function)
    if part is not function:
        part._compiler._customize_flags = Flags
        kernel = functools.cache(lambda: whole(function))
        part.add_overload = lambda compiled: part.overloads.__setitem__(tuple(compiled.signature.args), compiled)
        part._compile_for_args = lambda *_, **named: kernel()
    return part
