"""A part of a traced graph, as torch.export would have exported it alone."""

import operator
import re
from dataclasses import dataclass

import torch
from torch._export.serde import serialize as serde
from torch.export import graph_signature as signature
from torch.export.exported_program import ModuleCallEntry

from . import _core
from ._errors import UnsupportedError

_SYM_SIZE = torch.ops.aten.sym_size.int


@dataclass
class PartExport:
    """What a part needs to be compiled and called."""

    exported: _core.Export
    operands: list  # of the call: which of its arguments the program takes, in the program's order
    orders: list    # per output: its axes as the program stores them, or None where it is dense as it is


def _is_sym(value):
    return isinstance(value, torch.SymInt)


def hint(size):
    """The number that a size had while it was traced."""
    return size.node.hint if _is_sym(size) else size


def dense_order(value):
    """The order of axes in which a tensor is dense; None where that is the natural one, or where it has gaps."""
    sizes, strides = [hint(s) for s in value.shape], [hint(s) for s in value.stride()]
    order = sorted(range(len(sizes)), key=lambda axis: (-strides[axis], axis))
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return None
        expected *= sizes[axis]
    moved = [axis for axis in order if sizes[axis] != 1]
    return order if moved != sorted(moved) else None


class _Builder:
    def __init__(self, module, arguments, constants):
        self.arguments, self.constants = arguments, constants
        self.graph, self.copies = torch.fx.Graph(), {}
        self.tensors, self.inputs, self.sizes = {}, [], {}
        self.input_specs, self.output_specs = [], []
        self.operands, self.orders = [], []
        self.module = module

    def build(self):
        placeholders = self.module.graph.find_nodes(op="placeholder")
        pairs = list(zip(placeholders, self.arguments, range(len(placeholders))))
        for inner, outer, _ in pairs:
            if outer in self.constants:
                self.add_weight(inner, *self.constants[outer])
        for inner, outer, index in pairs:
            if outer not in self.constants and isinstance(outer.meta["val"], torch.Tensor):
                self.add_input(inner, index)
        for inner, outer, _ in pairs:
            if inner not in self.copies:
                self.copies[inner] = self.size(outer)
        for node in self.module.graph.nodes:
            if node.op == "call_function":
                self.copies[node] = self.copy(node)
            elif node.op == "output":
                self.add_outputs(node.args[0])
        return PartExport(_core.Export(self.serialize(), self.tensors), self.operands, self.orders)

    def placeholder(self, name, value):
        node = self.graph.placeholder(name)
        node.target = node.name  # which the graph makes unique
        node.meta["val"] = value
        return node

    def add_weight(self, inner, name, tensor):
        node = self.placeholder("p_" + re.sub(r"\W", "_", name), inner.meta["val"])
        self.copies[inner] = node
        self.tensors[name] = tensor
        self.input_specs.append(signature.InputSpec(signature.InputKind.PARAMETER,
                                                    signature.TensorArgument(name=node.name), name))

    def add_input(self, inner, index):
        node = self.placeholder(inner.name, inner.meta["val"])
        self.copies[inner] = node
        self.inputs.append(node)
        self.operands.append(index)
        self.input_specs.append(signature.InputSpec(signature.InputKind.USER_INPUT,
                                                    signature.TensorArgument(name=node.name), None))

    def copy(self, node):
        made = self.graph.node_copy(node, lambda n: self.copies[n])
        made.meta = {key: node.meta[key] for key in ("val", "stack_trace") if key in node.meta}
        return made

    def size(self, outer):
        """A size that is computed outside of the part, as an expression of the shapes of the part's own inputs."""
        value = outer.meta["val"]
        if not _is_sym(value):
            return value
        expr = value.node.expr
        if expr.is_number:
            return int(expr)
        if expr in self.sizes:
            return self.sizes[expr]
        made = self.extent(expr, value)
        if made is None and outer.op == "call_function":
            arguments = torch.fx.map_arg(outer.args, self.size)
            made = self.graph.call_function(outer.target, arguments)
            made.meta["val"] = value
        if made is None:
            raise UnsupportedError(f"the size {expr} is no extent of a tensor that this part takes", outer.name,
                                   "pass a tensor that has this size")
        self.sizes[expr] = made
        return made

    def extent(self, expr, value):
        for tensor in self.inputs:
            for axis, extent in enumerate(tensor.meta["val"].shape):
                if _is_sym(extent) and extent.node.expr == expr:
                    made = self.graph.call_function(_SYM_SIZE, (tensor, axis))
                    made.meta["val"] = value
                    return made
        return None

    def add_outputs(self, outputs):
        given = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        made = []
        for node in given:
            order = dense_order(node.meta["val"])
            out = self.copies[node]
            if order is not None:
                out = self.graph.call_function(torch.ops.aten.permute.default, (out, order))
                out.meta["val"] = node.meta["val"].permute(order)
            made.append(out)
            self.orders.append(order)
        self.graph.output(tuple(made))
        for out in made:
            self.output_specs.append(signature.OutputSpec(signature.OutputKind.USER_OUTPUT,
                                                          signature.TensorArgument(name=out.name), None))

    def ranges(self):
        found = {}
        for node in self.graph.nodes:
            value = node.meta.get("val")
            for size in value.shape if isinstance(value, torch.Tensor) else ():
                if _is_sym(size):
                    known = size.node.shape_env.var_to_range
                    found.update((s, known[s]) for s in size.node.expr.free_symbols if s in known)
        return found

    def serialize(self):
        module = torch.fx.GraphModule(torch.nn.Module(), self.graph)
        declared = signature.ExportGraphSignature(self.input_specs, self.output_specs)
        written = serde.GraphModuleSerializer(declared, [ModuleCallEntry(fqn="")]).serialize(module)
        program = serde.ExportedProgram(
            graph_module=written,
            opset_version={"aten": torch._C._get_max_operator_version()},
            range_constraints=serde.serialize_range_constraints(self.ranges()),
            schema_version=serde.SchemaVersion(*serde.SCHEMA_VERSION[:2]),
            torch_version=torch.__version__,
        )
        return serde._to_json_bytes(program)


def export_part(module, arguments, constants):
    """A fused submodule whose call has these arguments. `constants`: name and tensor of the arguments that are weights.

    Error Unsupported: the part needs a size that none of its tensors has.
    """
    return _Builder(module, arguments, constants).build()


def target_name(target):
    """'torch.ops.aten.mm.default', as exports write it."""
    if isinstance(target, torch._ops.OpOverload):
        return f"{target.__module__.replace('torch._ops', 'torch.ops')}.{target.__name__}"
    return f"{target.__module__}.{target.__name__}"


def is_getitem(node):
    return node.op == "call_function" and node.target is operator.getitem
