"""qcodegen: tuned native kernels for the quantized models of PyTorch.

    program = qcodegen.compile(torch.export.export(model, (x,)), "model.qcg")
    program = qcodegen.load("model.qcg")        # without torch: numpy arrays, or anything with __dlpack__
    y = program(x)

    model = torch.compile(model, backend="qcodegen")
"""

from ._compile import compile, load
from ._core import Context, Method, Program, State, TensorInfo, __version__
from ._errors import (BadInputError, CacheCorruptError, Error, InternalError, InterruptedError, IoError, ToolchainError,
                      UnsupportedError, UsageError)
from ._explain import explain

__all__ = ["BadInputError", "CacheCorruptError", "Context", "Error", "InternalError", "InterruptedError", "IoError",
           "Method", "Program", "State", "TensorInfo", "ToolchainError", "UnsupportedError", "UsageError", "__version__",
           "compile", "explain", "load"]
