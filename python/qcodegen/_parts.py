"""Cuts a traced graph into parts that qcodegen compiles, and what stays with torch."""

import json
import re
from dataclasses import dataclass, field

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from . import _core
from ._errors import Error
from ._part_export import export_part, is_getitem, target_name

_DTYPES = {getattr(torch, name) for name in (
    "float32", "float16", "bfloat16", "float64", "uint8", "int8", "int16", "int32", "int64", "bool", "uint16", "uint32",
    "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu") if hasattr(torch, name)}

# What moves or makes no numbers worth a call.
_LIGHT = re.compile(r"aten\.(_?unsafe_view|view|reshape|t|transpose|permute|expand|squeeze|unsqueeze|select|slice|alias|"
                    r"detach|clone|_to_copy|full|full_like|arange|empty|empty_like|zeros|ones|scalar_tensor|"
                    r"lift_fresh_copy|split|split_with_sizes|unbind|as_strided)(\.|$)")
_HEAVY = re.compile(r"mm|linear|conv|attention|embedding|softmax|lstm|gru|rnn")

_MOST_ROUNDS = 100  # of refusing an operator and cutting again


@dataclass
class Refusal:
    """A node that stays with torch."""

    node: str
    target: str
    reason: str
    source: str = ""

    def __str__(self):
        where = f" at {self.source}" if self.source else ""
        return f"{self.target} ({self.node}){where}: {self.reason}"


@dataclass
class Part:
    """What becomes one program."""

    name: str
    nodes: list
    module: torch.fx.GraphModule
    export: object
    report: object = None  # of its program, once it is compiled


@dataclass
class Cut:
    """A graph after cutting: `module` calls the parts as submodules of their names."""

    module: torch.fx.GraphModule
    parts: list = field(default_factory=list)
    refusals: list = field(default_factory=list)


def _values(node):
    value = node.meta.get("val")
    return value if isinstance(value, (tuple, list)) else [value]


def _source(node):
    """The user's line: the last of the traceback."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    return f"{lines[-1][0].rsplit('/', 1)[-1]}:{lines[-1][1]}" if lines else ""


def _why_not(node):
    """Why a program cannot hold this node; '' where it can, as far as names and dtypes tell."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return "computes a size, or is no operator"
    if not _core.supports(target_name(node.target)):
        return "qcodegen has no such operator"
    for value in [v for n in (node, *node.all_input_nodes) for v in _values(n)]:
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                return f"a tensor is on {value.device.type}"
            if value.dtype not in _DTYPES:
                return f"a tensor is {value.dtype}"
            if value.layout != torch.strided:
                return f"a tensor is {value.layout}"
            if any(str(s).startswith("u") for e in value.shape if isinstance(e, torch.SymInt)
                   for s in e.node.expr.free_symbols):
                return "a size depends on the data"
    return ""


class _Support(OperatorSupportBase):
    def __init__(self, refused):
        self.refused = refused

    def is_node_supported(self, submodules, node):
        if is_getitem(node):
            return self.is_node_supported(submodules, node.args[0])
        return node.op == "call_function" and node.name not in self.refused and not _why_not(node)


def _is_worth_a_call(nodes):
    names = [target_name(n.target) for n in nodes if not is_getitem(n)]
    work = [n for n in names if not _LIGHT.search(n)]
    return len(work) > 1 or any(_HEAVY.search(n) for n in work)


def _blame(error, part_json, nodes):
    """The node of a part that an error names."""
    text = f"{error.place} {error.message}"
    found = re.search(r"graph\.nodes\[(\d+)\]", text)
    listed = json.loads(part_json)["graph_module"]["graph"]["nodes"]
    if found and int(found[1]) < len(listed):
        name = listed[int(found[1])].get("name")
        if name in nodes:
            return name
    return next((word for word in re.findall(r"\w+", text) if word in nodes), None)


def cut(module, constants, options, check=True):
    """Cuts a graph of aten operators. `constants`: by the name of a node, name and tensor of an input that is a weight.

    Nodes of which qcodegen says that it cannot lower them are refused, and the graph is cut again.
    """
    refused = {}
    for _ in range(_MOST_ROUNDS):
        found = _cut_once(module, constants, refused)
        news = [bad for part in found.parts for bad in _check(part, options)] if check else []
        if not news:
            break
        refused.update(news)
    for node in module.graph.nodes:
        if node.op == "call_function" and not is_getitem(node):
            reason = refused.get(node.name) or _why_not(node)
            if reason and isinstance(node.target, torch._ops.OpOverload):
                found.refusals.append(Refusal(node.name, target_name(node.target), reason, _source(node)))
    return found


def _is_view_or_size(node):
    """Whether the value may share its memory with other tensors, or is a size."""
    source = node.args[0] if is_getitem(node) else node
    return source.target.is_view or isinstance(node.meta.get("val"), (int, torch.SymInt))


def _keep_views_outside(graph, nodes):
    """The nodes of a partition, but views that are used outside of it are made there: torch's views share the memory of
    one output of the part, and have the gaps that eager's have.

        nodes: h, v = h.view(-1)    used outside: h, v        becomes    nodes: h    outside: v = h.view(-1)
    """
    kept = set(nodes)
    for node in reversed([n for n in graph.nodes if n in kept]):
        outside = [user for user in node.users if user not in kept]
        if not outside or not _is_view_or_size(node):
            continue
        with graph.inserting_after(node):
            view = graph.node_copy(node)
        view.meta = dict(node.meta)
        node.replace_all_uses_with(view, delete_user_cb=lambda user, outside=outside: user in outside)
        if not node.users:
            kept.remove(node)
            graph.erase_node(node)
    return [node for node in nodes if node in kept]


def _cut_once(module, constants, refused):
    graph, copies = torch.fx.Graph(), {}
    graph.output(graph.graph_copy(module.graph, copies))
    copy = torch.fx.GraphModule(module, graph)  # has the attributes that the graph names: constants, graphs of branches
    for node, made in copies.items():
        made.meta = dict(node.meta, qcg_name=node.name)  # fusing makes other nodes of the same meta
    partitioner = CapabilityBasedPartitioner(copy, _Support(refused), allows_single_node_partition=True)
    proposed = [list(p.nodes) for p in partitioner.propose_partitions() if _is_worth_a_call(p.nodes)]
    parts = [_keep_views_outside(copy.graph, nodes) for nodes in proposed]
    out = Cut(fuse_by_partitions(copy, [dict.fromkeys(nodes) for nodes in parts if _is_worth_a_call(nodes)]))
    for call in out.module.graph.find_nodes(op="call_module"):
        inner = getattr(out.module, call.target)
        names = [n.meta["qcg_name"] for n in inner.graph.nodes if n.op == "call_function"]
        part = Part(call.target, names, inner, None)
        out.parts.append(part)
        weights = {node: constants[node.meta["qcg_name"]] for node in call.args
                   if isinstance(node, torch.fx.Node) and node.meta.get("qcg_name") in constants}
        try:
            part.export = export_part(inner, call.args, weights)
        except Error as error:
            part.export = error
    return out


def _check(part, options):
    """(node, reason) of what cannot be lowered; all nodes of the part where the error names none."""
    try:
        if isinstance(part.export, Error):
            raise part.export
        _core.explain(options, part.export.exported)
    except Error as error:
        reason = str(error).split("\nhelp:")[0]
        name = None if isinstance(part.export, Error) else _blame(error, part.export.exported.json, set(part.nodes))
        return [(name, reason)] if name else [(n, reason) for n in part.nodes]
    return []
