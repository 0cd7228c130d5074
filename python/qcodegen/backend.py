"""torch.compile(model, backend="qcodegen"): what qcodegen supports becomes programs, the rest stays with torch.

    model = torch.compile(model, backend="qcodegen", options={"tune": "fast"})

Options are those of qcodegen.compile(). Weights are packed when a graph is compiled: under torch.no_grad() or
torch.inference_mode(), from the values that parameters and buffers have then. Each call looks whether they changed.
"""

import inspect
import logging
import os
import re
import tempfile
import warnings

import torch
from torch._functorch.aot_autograd import aot_module_simplified
from torch.utils._python_dispatch import _disable_current_modes

from . import _core
from ._compile import core_options, refuse_weights
from ._errors import Error
from ._part_export import target_name
from ._parts import cut
from ._progress import make_progress

log = logging.getLogger("qcodegen")


def qcodegen_backend(module, example_inputs, *, options=None, mode=None):
    """The backend; torch.compile calls it once per graph."""
    return Backend(**(options or {}))(module, example_inputs)


class Backend:
    """Compiles graphs of Dynamo. `graphs` is what became of each."""

    def __init__(self, *, threads=0, progress=None, only_explain=False, **options):
        self.threads, self.progress, self.only_explain = threads, progress, only_explain
        self.options = options
        refuse_weights(self.core_options())  # an option that does not exist is said at once, too
        self.graphs = []

    def core_options(self):
        return core_options(threads=self.threads, **self.options)

    def __call__(self, module, example_inputs):
        if torch.is_grad_enabled() and any(isinstance(x, torch.Tensor) and x.requires_grad for x in example_inputs):
            warnings.warn("qcodegen compiles inference: this graph needs gradients and runs eagerly. "
                          "Call the model under torch.no_grad().", stacklevel=2)
            return module.forward
        weights = _weights_of(module, example_inputs)
        _guard_weights(weights)
        with _kept_whole():
            compiled = aot_module_simplified(
                module, example_inputs, fw_compiler=_run_eagerly, decompositions=_decompositions(),
                inference_compiler=lambda graph, _: self.compile_graph(graph, weights))
        return _Guarded(compiled, module.forward, [w for w in weights.values() if w.is_constant])

    def compile_graph(self, graph, weights):
        """A boxed function that computes a graph of aten operators."""
        with _disable_current_modes(), torch.no_grad():
            constants = _constants_of(graph, weights)
            found = cut(graph, constants, self.core_options())
            self.graphs.append(found)
            if not self.only_explain:
                for part in found.parts:
                    self.compile_part(found, part)
            _drop_weights(found)
            found.module.recompile()
        for refusal in found.refusals:
            log.info("stays with torch: %s", refusal)
        return _boxed(found.module)

    def compile_part(self, found, part):
        """Puts a program in the place of the part's operators; leaves them where it cannot be compiled."""
        if isinstance(part.export, Error):
            return
        line = make_progress(self.progress)
        try:
            with tempfile.TemporaryDirectory(prefix="qcodegen-") as folder:
                options = self.core_options()
                options.output = os.path.join(folder, "part.qcg")
                _core.compile(options, part.export.exported, line.show)
                program = _core.Program(options.output, threads=self.threads)
        except Error as error:
            line.clear()
            if error.code not in ("Unsupported", "BadInput"):
                raise
            part.export = error
            warnings.warn(f"a part of {len(part.nodes)} operators runs eagerly: {error}", stacklevel=2)
            return
        line.clear()
        call = next(n for n in found.module.graph.find_nodes(op="call_module") if n.target == part.name)
        call.args = tuple(call.args[i] for i in part.export.operands)
        setattr(found.module, part.name, _Program(program, part.export.orders))
        part.export = part.module = None  # the weights are packed
        part.report = program.report


class _Program(torch.nn.Module):
    """A program as a submodule of the graph that calls it."""

    def __init__(self, program, orders):
        super().__init__()
        self.program = program
        self.inverses = [order and tuple(sorted(range(len(order)), key=order.__getitem__)) for order in orders]
        if not any(self.inverses):
            self.forward = program
        self.is_one = len(orders) == 1

    def forward(self, *inputs):
        outputs = self.program(*inputs)
        outputs = (outputs,) if self.is_one else outputs
        outputs = tuple(y if order is None else y.permute(order) for y, order in zip(outputs, self.inverses))
        return outputs[0] if self.is_one else outputs


class _Guarded:
    """Runs what was compiled while the weights are what they were then, and the graph itself when they are not."""

    def __init__(self, compiled, eager, weights):
        self.compiled, self.eager = compiled, eager
        # What a property makes anew is never the same.
        self.inner = [(t, attr, inner) for w in weights for t, attr, inner in w.inner if getattr(t, attr) is inner]
        self.watch = _core.WeightWatch([t for w in weights for t in (w.tensor, *(inner for _, _, inner in w.inner))])

    def are_unchanged(self):
        return self.watch.is_unchanged() and all(getattr(t, attr) is inner for t, attr, inner in self.inner)

    def __call__(self, *inputs):
        if self.are_unchanged():
            return self.compiled(*inputs)
        warnings.warn("weights were written to after qcodegen compiled them: the model runs eagerly. "
                      "Call torch.compiler.reset() to compile it again.", stacklevel=2)
        return self.eager(*inputs)


class _Weight:
    """is_constant: a program holds its value; a buffer that the graph itself writes to is no constant.
    inner: of a subclass, the tensors that it is made of: whose attribute of which name."""

    def __init__(self, name, tensor, source):
        self.name, self.tensor, self.source = name, tensor, source
        self.is_constant, self.inner = False, []


def _weights_of(module, example_inputs):
    """The parameters and buffers among the inputs of Dynamo's graph, by position; those that are attributes of the graph
    instead, as with torch._inductor.config.freezing, by name."""
    found = {name: _Weight(name, tensor, None)
             for named in (module.named_parameters, module.named_buffers) for name, tensor in named(remove_duplicate=False)}
    for index, node in enumerate(module.graph.find_nodes(op="placeholder")):
        source = getattr(node, "_dynamo_source", None)
        text = source.name if source is not None and isinstance(source.name, str) else source.name() if source else ""
        if not re.search(r"\._(parameters|buffers)\[", text) or not isinstance(example_inputs[index], torch.Tensor):
            continue
        path = re.findall(r"\._(?:modules|parameters|buffers)\['([^']*)'\]", text)
        found[index] = _Weight(".".join(path) or node.name, example_inputs[index], source)
    return found


def _guard_weights(weights):
    """Another module of the same class has other weights: Dynamo compiles its graph anew."""
    from torch._dynamo.guards import GuardBuilder, install_guard

    # Of attributes Dynamo guards the modules themselves.
    install_guard(*(w.source.make_guard(GuardBuilder.ID_MATCH) for w in weights.values() if w.source is not None))


def _follow(desc, weights):
    """The key in `weights` of what a graph's input is of, and its tensor: a subclass has several."""
    if hasattr(desc, "attr"):
        key, tensor = _follow(desc.base, weights)
        return key, None if tensor is None else getattr(tensor, desc.attr)
    kind = type(desc).__name__
    key = desc.idx if kind == "PlainAOTInput" else desc.target if kind in ("ParamAOTInput", "BufferAOTInput") else None
    return key, weights[key].tensor if key in weights else None


def _written_inputs(placeholders):
    """The names of nodes whose tensors the graph writes to."""
    infos = torch._guards.TracingContext.get().fw_metadata.input_info
    if len(infos) != len(placeholders):  # no weight is known to be constant
        return {node.name for node in placeholders}
    return {node.name for node, info in zip(placeholders, infos) if info.mutates_data or info.mutates_metadata}


def _unused(name, constants):
    """The name, with a number where another constant has it: names begin at the outermost module, and a function may
    use several."""
    taken, made, number = {n for n, _ in constants.values()}, name, 1
    while made in taken:
        made, number = f"{name}_{number}", number + 1
    return made


def _constants_of(graph, weights):
    """By the name of a node: name and tensor of what is read and never written."""
    placeholders = list(graph.graph.find_nodes(op="placeholder"))
    written = _written_inputs(placeholders)
    found = {}
    for node in placeholders:
        desc = node.meta.get("desc")
        key, tensor = _follow(desc, weights)
        if node.name in written or type(tensor) not in (torch.nn.Parameter, torch.Tensor):
            continue
        weights[key].is_constant = True
        inner, attributes = desc, []
        while hasattr(inner, "attr"):
            attributes.insert(0, inner.attr)
            weights[key].inner.append((_follow(inner.base, weights)[1], inner.attr, _follow(inner, weights)[1]))
            inner = inner.base
        found[node.name] = (_unused(".".join([weights[key].name, *attributes]), found), tensor.detach())
    for node in graph.graph.find_nodes(op="get_attr"):
        tensor = getattr(graph, node.target)
        if isinstance(tensor, torch.Tensor) and "val" in node.meta:
            found[node.name] = (_unused(node.target, found), tensor.detach())
    return found


def _drop_weights(found):
    """Weights that only programs read are no arguments of anything any more."""
    for node in found.module.graph.find_nodes(op="get_attr"):
        if not node.users:
            found.module.graph.erase_node(node)


def _decompositions():
    """torch's own formulas of operators that qcodegen does not have."""
    from torch._decomp import core_aten_decompositions

    return {op: formula for op, formula in core_aten_decompositions().items()
            if isinstance(op, torch._ops.OpOverload) and not _core.supports(target_name(op))}


def _kept_whole():
    """While it is entered, torchao's quantization stays the operators that qcodegen recognizes."""
    from torch.export.exported_program import _override_composite_implicit_decomp

    found = {}
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("torchao::").partition(".")
        if not name.startswith("torchao::") or not _core.supports(f"torch.ops.torchao.{packet}.{overload or 'default'}"):
            continue
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd"):
            op = getattr(getattr(torch.ops.torchao, packet), overload or "default")
            found[op] = lambda *args, **kwargs: NotImplemented
    return _override_composite_implicit_decomp(found)


def _run_eagerly(graph, _):
    return _boxed(graph)


def _boxed(module):
    forward = module.forward

    def run(arguments):
        taken = tuple(arguments)
        arguments.clear()  # what is an argument alone is freed as soon as it can be
        return forward(*taken)

    run._boxed_call = True
    return run


def _count(number, noun):
    return f"{number} {noun}{'' if number == 1 else 's'}"


class Explanation:
    """How torch.compile(model, backend="qcodegen") would run a model: print it."""

    def __init__(self, graphs, breaks):
        self.graphs, self.breaks = graphs, breaks

    @property
    def parts(self):
        return [part for graph in self.graphs for part in graph.parts]

    @property
    def refusals(self):
        return [refusal for graph in self.graphs for refusal in graph.refusals]

    def __str__(self):
        lines = [f"{_count(len(self.graphs), 'graph')}, {_count(len(self.parts), 'program')}, "
                 f"{_count(len(self.refusals), 'operator')} with torch"]
        for reason, count in self.breaks.items():
            lines.append(f"graph break ×{count}: {reason.splitlines()[0]}")
        for number, graph in enumerate(self.graphs):
            for part in graph.parts:
                lines.append(f"graph {number}: {part.name}: {len(part.nodes)} operators, "
                             f"{part.nodes[0]} to {part.nodes[-1]}")
            lines += [f"graph {number}: broken by {refusal}" for refusal in graph.refusals]
        return "\n".join(lines)


def explain_parts(model, *args, kwargs=None, **options):
    """Runs the model once, eagerly, and says how it is cut and why."""
    from torch._dynamo.utils import counters

    backend = Backend(only_explain=True, **options)
    # What is compiled in isolation is beside what the process has compiled. An older torch has to forget that.
    isolates = "isolate_recompiles" in inspect.signature(torch.compile).parameters
    extra = {"isolate_recompiles": True} if isolates else {}
    if not isolates:
        torch.compiler.reset()
    before = dict(counters["graph_break"])
    with torch.no_grad():
        torch.compile(model, backend=backend, **extra)(*args, **(kwargs or {}))
    breaks = {reason: n - before.get(reason, 0) for reason, n in counters["graph_break"].items()
              if n > before.get(reason, 0)}
    if not isolates:
        torch.compiler.reset()
    return Explanation(backend.graphs, breaks)
