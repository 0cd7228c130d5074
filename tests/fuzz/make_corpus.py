"""Writes tests/fuzz/corpus: small good inputs of every reader, from which the fuzzers start. Needs only Python's library.

    python3 tests/fuzz/make_corpus.py
"""
import io
import json
import pathlib
import re
import struct
import zipfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
CORPUS = HERE / "corpus"


def write(reader, name, data):
    path = CORPUS / reader / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def small_export():
    header = (HERE.parent / "graph_read" / "small_export.h").read_text()
    return json.loads(re.search(r'R"json\((.*?)\)json"', header, re.S).group(1))


def symbolic_export():
    """With sym_size, arithmetic on sizes, a list argument and two outputs."""
    j = small_export()
    graph = j["graph_module"]["graph"]
    arg = lambda name, value: {"name": name, "arg": value, "kind": 1}
    tensor = lambda name: {"as_tensor": {"name": name}}
    graph["nodes"] = [
        {"target": "torch.ops.aten.sym_size.int", "name": "n", "metadata": {}, "outputs": [{"as_sym_int": {"as_name": "n"}}],
         "inputs": [arg("self", tensor("x")), arg("dim", {"as_int": 0})]},
        {"target": "torch.ops.aten.reshape.default", "name": "linear", "metadata": {}, "outputs": [tensor("linear")],
         "inputs": [arg("self", tensor("x")), arg("shape", {"as_sym_ints": [{"as_name": "n"}, {"as_int": 4}]})]},
        {"target": "torch.ops.aten.cat.default", "name": "cat", "metadata": {}, "outputs": [tensor("cat")],
         "inputs": [arg("tensors", {"as_tensors": [{"name": "x"}, {"name": "linear"}]}), arg("dim", {"as_int": 1})]},
        {"target": "torch.ops.aten.split.Tensor", "name": "split", "metadata": {}, "outputs": [{"as_tensors": [{"name": "a"}, {"name": "b"}]}],
         "inputs": [arg("self", tensor("cat")), arg("split_size", {"as_int": 4}), arg("dim", {"as_int": 1})]},
        {"target": "torch.ops.aten.add_.Tensor", "name": "relu", "metadata": {}, "outputs": [tensor("relu")],
         "inputs": [arg("self", tensor("a")), arg("other", tensor("b")), arg("alpha", {"as_float": 0.5})]}]
    metas = graph["tensor_values"]
    for name in ("linear", "a", "b", "relu"):
        metas[name] = metas["x"]
    metas["cat"] = dict(metas["x"], sizes=[metas["x"]["sizes"][0], {"as_int": 8}])
    graph["sym_int_values"] = {"n": {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)"}}}
    return j


def manifests():
    """A program of each version: plain, with a state, with methods, for several targets, with a size that a run reads."""
    digest = "0" * 64
    method = {
        "symbols": [{"name": "s0", "min": 0, "max": 9}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": [[[1, 0]], 8]}],
        "outputs": [{"name": "y", "dtype": "f32", "shape": [[[1, 0]], {"floordiv": [16, 2]}]}],
        "buffers": [{"kind": "input", "index": 0}, {"kind": "output", "index": 0},
                    {"kind": "weights", "offset": 64, "bytes": 32}, {"kind": "temp", "bytes": [[32, 0]], "first": 0, "last": 0}],
        "steps": [{"name": "a", "kernels": [{"m_max": -1, "module": "k.so", "symbol": "f"}], "params": [[[1, 0]], 8],
                   "args": [{"buffer": 0, "offset": 0, "stride": None}, {"buffer": 1, "offset": 0, "stride": 8},
                            {"buffer": 2, "offset": 0, "stride": 0, "reach": {"item": 4, "axes": [["p1", "s"]]}}]}]}
    method["outputs"][0]["shape"][1] = [[1, {"floordiv": [16, 2]}]]
    head = lambda version: {
        "format": "qcodegen-program", "version": version, "generator": "fuzz", "kernel_abi": 1,
        "files": {"k.so": {"bytes": 9, "sha256": digest}, "weights.bin": {"bytes": 4096, "sha256": digest}}}
    cpu, state = {"target": "cpu:avx2", "isa": "avx2"}, {"name": "n", "dtype": "i32", "shape": [4], "init": "zero"}
    cuda = dict(json.loads(json.dumps(method)), target="cuda:sm_80", isa="sm_80", states=[state])
    cuda["steps"][0]["kernels"][0]["launch"] = {"threads": 32, "rows": 1, "column_tiles": 1, "shared_bytes": 0, "axes": [[0, 1]]}
    methods = [dict(method, name="a"), dict(method, name="b")]
    yield "plain.json", head(1) | cpu | method
    yield "state.json", head(2) | cpu | method | {"states": [state]}
    yield "methods.json", head(3) | cpu | {"states": [state], "methods": methods}
    yield "targets.json", head(4) | {"targets": [cuda, cpu | {"methods": methods}]}
    reading = json.loads(json.dumps(method))
    reading["symbols"].append({"name": "u0", "min": 0, "max": 9, "read": {"step": 1, "buffer": 3, "most": [[1, 0]]}})
    reading["buffers"][3].update(bytes=8, last=1)
    reach = {"item": 4, "axes": [["p0", "s"], [8]]}
    reading["steps"].append(dict(method["steps"][0], name="b", params=[[[1, 1]], 8], args=[
        {"buffer": 0, "offset": [[32, 1]], "stride": None, "reach": reach},
        {"buffer": 1, "offset": 0, "stride": 8, "reach": dict(reach, writes=True)}]))
    yield "reads.json", head(5) | cpu | reading


def weights_config(deduplicated=False):
    def payload(path, sizes, strides, offset=0):
        ints = lambda values: [{"as_int": v} for v in values]
        return {"path_name": path, "is_param": True, "use_pickle": False, "tensor_meta": {
            "dtype": 7, "sizes": ints(sizes), "strides": ints(strides), "storage_offset": {"as_int": offset}, "layout": 7}}
    return {"config": {"fc.weight": payload("weight_0", [3, 4], [1, 3] if deduplicated else [4, 1]),
                       "fc.bias": payload("weight_0", [3], [1], 3) if deduplicated else payload("weight_1", [3], [1])}}


def pt2(method):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in {
            "data/weights/weight_0": struct.pack("<12f", *range(12)), "data/weights/weight_1": b"",
            "data/weights/model_weights_config.json": json.dumps(weights_config()), "data/constants/model_constants_config.json": '{"config": {}}',
            "models/model.json": json.dumps(small_export(), separators=(",", ":")), "archive_format": "pt2", "byteorder": "little"}.items():
            archive.writestr(zipfile.ZipInfo("g/" + name), data, method)
    return buffer.getvalue()


def safetensors(header, data):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def main():
    write("torch_export", "small.json", json.dumps(small_export(), separators=(",", ":")))
    write("torch_export", "symbolic.json", json.dumps(symbolic_export(), separators=(",", ":")))
    write("pt2", "stored.pt2", pt2(zipfile.ZIP_STORED))
    write("pt2", "deflated.pt2", pt2(zipfile.ZIP_DEFLATED))
    write("pt2", "config.json", json.dumps(weights_config()))
    write("pt2", "config_shared.json", json.dumps(weights_config(True)))
    write("safetensors", "two", safetensors({
        "__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
        "b": {"dtype": "I8", "shape": [4], "data_offsets": [24, 28]}}, bytes(28)))
    write("safetensors", "odd", safetensors({
        "u": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]}, "f": {"dtype": "BF16", "shape": [1, 2], "data_offsets": [3, 7]},
        "e": {"dtype": "F64", "shape": [0, 7], "data_offsets": [7, 7]}}, bytes(7)))
    write("safetensors", "empty", safetensors({}, b""))
    write("native", "linear_w8.json", (ROOT / "examples/native/linear_w8.json").read_bytes())
    write("native", "mlp_f32.json", (ROOT / "examples/native/mlp_f32.json").read_bytes())
    write("text", "state", "state %sum as \"m.sum\": f32[4]\ngraph(%x: f32[4]) {\n"
          "  %after = aten.add.Tensor(%sum, %x) : f32[4]\n  return %after\n  next %sum = %after\n}\n")
    write("native", "state.json", json.dumps({"format": "qcodegen", "version": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [4]}],
          "states": [{"name": "sum", "dtype": "f32", "shape": [4], "next": "after", "data": [1, 2, 3, 4]}],
          "nodes": [{"op": "add", "inputs": {"self": "sum", "other": "x"}, "outputs": ["after"]}], "outputs": ["after"]}))
    write("text", "linear", "symbol s0 in [1, 64]\nparam @w: f32[3, 4] strides [1, 3]\nparam @b: f32[3]\ngraph \"g\"(%x: f32[s0, 4]) {\n"
          "  %y = aten.linear.default(%x, @w, @b) : f32[s0, 3]\n  %z = aten.gelu.default(%y, approximate = \"tanh\") : f32[s0, 3]\n"
          "  %\"a b\" = aten.reshape.default(%z, shape = [3*s0]) : f32[3*s0]\n  return %\"a b\" as \"out\"\n}\n")
    write("text", "qcg", "symbol s0 in [1, inf]\nparam @w: i8[6, 8]\nparam @s: f32[6, 1]\ngraph(%x: bf16[s0, 8], %r: bf16[s0, 6]) {\n"
          "  %y = qcg.linear([%x], weights = [@w], scales = [@s], operands = [%r], scheme = \"w8\", epilogue = [add(silu(acc0), in0)]) : bf16[s0, 6]\n"
          "  %z = qcg.loop([%y, %r], exprs = [mul(cast_bf16(in0), 0.5), max(in1, in0)]) : bf16[s0, 6], bf16[s0, 6]\n  return %y\n}\n"
          .replace("  %z = qcg.loop", "  %z, %u = qcg.loop"))
    for name, manifest in manifests():
        write("manifest", name, json.dumps(manifest))
    templates = {
        "for": "<% for i in range(3) if i != a %><$ loop.index $>: <$ l[i] | default('x') | upper $><% if not loop.last %>, <% endif %><% else %>none<% endfor %>\n",
        "macro": "<# comment #><% macro m(x, y=2) -%>\n  <$ x + y * 3 // 2 % 5 $>\n<%- endmacro %><$ m(a) $><$ m(x=1, y=d.k) | indent(4) $>\n",
        "set": "<% set n = namespace(v=0) %><% for k, v in d.items() %><% set n.v = n.v + v %><% endfor %><$ n.v $><% set t %>block<% endset %><$ t ~ s $>\n",
        "raw": "<% raw %><$ not $><% endraw %><$ 'q' if s is defined and 'e' in s else [1, (2, 3), {'a': none}] | length $>\n"}
    for name, text in templates.items():
        write("template", name, text)


if __name__ == "__main__":
    main()
