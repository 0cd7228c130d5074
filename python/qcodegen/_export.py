"""torch's ExportedProgram as the compiler reads it: the JSON that torch.export.save would write, and the tensors in place."""

import torch
from torch.export.graph_signature import InputKind

from . import _core
from ._compile import refuse_inputs
from ._errors import UnsupportedError, UsageError

_TENSORS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def exported(model, args=None, kwargs=None, dynamic_shapes=None):
    """An ExportedProgram as it is, a module as its export."""
    if isinstance(model, torch.export.ExportedProgram):
        refuse_inputs("an ExportedProgram", args=args, kwargs=kwargs, dynamic_shapes=dynamic_shapes)
        return model
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"a {type(model).__name__} is no model", "model",
                         "give a path, an ExportedProgram or a torch.nn.Module")
    if args is None and kwargs is None:
        raise UsageError("a module needs inputs to be exported with", "args",
                         "compile(module, out, args=(x,)), or give torch.export.export(module, (x,))")
    if isinstance(args, torch.Tensor):
        args = (args,)
    trained = [module for module in model.modules() if module.training]
    try:
        with torch.no_grad():
            return torch.export.export(plain_weights(model.eval()), tuple(args or ()), kwargs or {},
                                       dynamic_shapes=dynamic_shapes, strict=False)
    finally:
        for module in trained:
            module.training = True


def plain_weights(model):
    """The module itself, or, where it has torchao's quantized weights, a copy whose weights are plain tensors."""
    if all(type(p) in (torch.nn.Parameter, torch.Tensor) for p in model.parameters()):
        return model
    import copy

    from torchao.utils import unwrap_tensor_subclass

    # The copy has modules of its own and shares the tensors: unwrapping changes modules alone.
    memo = {id(t): t for t in (*model.parameters(), *model.buffers())}
    return unwrap_tensor_subclass(copy.deepcopy(model, memo))


def to_json(program):
    """The graph of an ExportedProgram, without weights."""
    from torch._export.serde.serialize import serialize

    return serialize(program, serialize_state_dict=False, serialize_constants=False,
                     serialize_example_inputs=False).exported_program


def to_core(program):
    """The compiler's view of an ExportedProgram. No weight on the CPU is copied."""
    tensors = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind not in _TENSORS:
            continue
        tensor = program.state_dict.get(spec.target, program.constants.get(spec.target))
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedError("the program has no such tensor", spec.target, "export the model again")
        if type(tensor) not in (torch.nn.Parameter, torch.Tensor):
            raise UnsupportedError(f"the weight is a {type(tensor).__name__}", spec.target,
                                   "export torchao.utils.unwrap_tensor_subclass(model), whose weights are plain tensors")
        tensors[spec.target] = tensor.detach().cpu()
    return _core.Export(to_json(program), tensors)
