"""torch.compile(model, backend="qcodegen") against eager: Hugging Face's models, torchao's schemes, what is not supported."""

import subprocess
import sys
import unittest
import warnings

import qcodegen
import torch
from qcodegen.backend import Backend
from torch import nn
from torchao import quantization as ao
from transformers import BertConfig, BertModel, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

SMALL = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 64,
         "max_position_embeddings": 64}
MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=1)),
    "qwen": lambda: Qwen2ForCausalLM(Qwen2Config(**SMALL, num_key_value_heads=1)),
    "bert": lambda: BertModel(BertConfig(**SMALL)),
}
INT4 = {"weight_dtype": torch.int4}
SCHEMES = {
    "w8": ao.Int8WeightOnlyConfig(),
    "w4": ao.IntxWeightOnlyConfig(**INT4, granularity=ao.PerGroup(32)),  # Int4WeightOnlyConfig has nothing for CPUs
    "da8w8": ao.Int8DynamicActivationInt8WeightConfig(),
    "da8w4": ao.Int8DynamicActivationIntxWeightConfig(**INT4, weight_granularity=ao.PerGroup(32)),
}


def setUpModule():
    torch.set_grad_enabled(False)
    warnings.filterwarnings("ignore", category=DeprecationWarning)


def tearDownModule():
    torch.set_grad_enabled(True)


def kinds(backend):
    """What the linears of a backend's programs became."""
    return {k["summary"].split()[0] for graph in backend.graphs for part in graph.parts
            for k in (part.report or {"kernels": []})["kernels"]}


class Models(unittest.TestCase):
    def check(self, name, scheme=None):
        torch.compiler.reset()
        torch.manual_seed(0)
        model = MODELS[name]().eval()
        if scheme:
            model = model.to(torch.bfloat16)
            ao.quantize_(model, SCHEMES[scheme])
        backend = Backend(tune="off")
        # Of a plain model the second length makes the length symbolic; the others are compiled like that at once.
        compiled = torch.compile(model, backend=backend, dynamic=True if scheme else None)
        options = {} if name == "bert" else {"use_cache": False}
        for length in (7, 9, 11):
            ids = torch.randint(0, 64, (1, length))
            want, got = model(ids, **options)[0], compiled(ids, **options)[0]
            bound = 1e-5 if scheme is None else 0.03
            torch.testing.assert_close(got, want, atol=bound * float(want.abs().max()), rtol=0)
        self.assertEqual([len(graph.parts) for graph in backend.graphs], [1] if scheme else [1, 1])
        self.assertEqual([str(r) for graph in backend.graphs for r in graph.refusals], [])
        if scheme:
            self.assertIn(scheme, kinds(backend))


for _name in MODELS:
    for _scheme in (None, *SCHEMES):
        setattr(Models, f"test_{_name}_{_scheme or 'plain'}",
                lambda self, name=_name, scheme=_scheme: self.check(name, scheme))


class Odd(nn.Module):
    """A linear, `count` operators that qcodegen does not have with work between them, and a linear."""

    def __init__(self, count):
        super().__init__()
        self.first, self.last = nn.Linear(16, 16), nn.Linear(16, 16)
        self.count = count

    def forward(self, x):
        y = self.first(x)
        for _ in range(self.count):
            y = torch.special.airy_ai(y) * 2 + 1
        return self.last(y)


class Parts(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()
        torch.manual_seed(0)
        self.x = torch.randn(4, 16)

    def test_one_eager_operator_per_unsupported_one(self):
        for count in (1, 2):
            torch.compiler.reset()
            model, backend = Odd(count).eval(), Backend(tune="off")
            torch.testing.assert_close(torch.compile(model, backend=backend)(self.x), model(self.x))
            (graph,) = backend.graphs
            self.assertEqual(len(graph.refusals), count)
            self.assertEqual(len(graph.parts), count + 1)

    def test_explain_names_what_broke_a_part(self):
        found = qcodegen.explain(Odd(1).eval(), self.x)
        self.assertEqual((len(found.parts), len(found.refusals)), (2, 1))
        text = str(found)
        self.assertIn("aten.special_airy_ai.default", text)
        self.assertIn("test_torch_backend.py:", text)

    def test_explain_leaves_what_is_compiled(self):
        def broken(x):
            y = model(x)
            torch._dynamo.graph_break()
            return y + 1

        model, backend = Odd(1).eval(), Backend(tune="off")
        compiled = torch.compile(broken, backend=backend)
        want = compiled(self.x)
        count = len(backend.graphs)
        said = {str(qcodegen.explain(broken, self.x)) for _ in range(torch._dynamo.config.recompile_limit + 1)}
        self.assertEqual(len(said), 1)
        self.assertIn("2 graphs, 2 programs, 1 operator with torch", said.pop())
        torch.testing.assert_close(compiled(self.x), want, atol=0, rtol=0)
        self.assertEqual(len(backend.graphs), count, "it was compiled again")

    def test_options_and_the_entry_point(self):
        self.assertIn("qcodegen", torch.compiler.list_backends(exclude_tags=()))
        model = Odd(0).eval()
        compiled = torch.compile(model, backend="qcodegen", options={"tune": "off", "threads": 1})
        torch.testing.assert_close(compiled(self.x), model(self.x))
        torch.compiler.reset()
        with self.assertRaisesRegex(Exception, "tuna"):
            torch.compile(model, backend="qcodegen", options={"tuna": "off"})(self.x)
        with self.assertRaisesRegex(Exception, "weights"):
            torch.compile(model, backend="qcodegen", options={"weights": "random:1"})(self.x)

    def test_constants_and_graphs_of_branches(self):
        first, last = nn.Linear(16, 16), nn.Linear(16, 16)

        def scaled(x):
            return first(x) * torch.tensor([1.0, 2.0] * 8)

        def gathered(x):
            return first(x[torch.tensor([0, 2])])

        def branches(x):
            return torch.cond(x.sum() > 0, lambda x: first(x) + 1, lambda x: last(x) - 1, (x,))

        for function in (scaled, gathered, branches):
            for x in (self.x, self.x.abs()):
                torch.compiler.reset()
                backend = Backend(tune="off")
                torch.testing.assert_close(torch.compile(function, backend=backend)(x), function(x))
                self.assertEqual([len(graph.parts) for graph in backend.graphs], [1])

    def test_attributes_of_submodules(self):
        from qcodegen._parts import cut

        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.randn(16))

        root = nn.Module()
        root.inner = Inner()
        graph = torch.fx.Graph()
        x, scale = graph.placeholder("x"), graph.get_attr("inner.scale")
        graph.output(graph.call_function(torch.ops.aten.mul.Tensor, (x, scale)))
        module = cut(torch.fx.GraphModule(root, graph), {}, None, check=False).module
        torch.testing.assert_close(module(self.x), self.x * root.inner.scale)

    def test_strides_of_outputs_are_those_of_eager(self):
        class Transposed(nn.Module):
            def forward(self, x):
                return (x @ x.t()).softmax(-1).view(2, 2, 4).permute(2, 0, 1)

        want, got = Transposed()(self.x), torch.compile(Transposed(), backend=Backend(tune="off"))(self.x)
        torch.testing.assert_close(got, want)
        self.assertEqual(got.stride(), want.stride())

    def test_outputs_that_share_memory(self):
        def flat(x):
            h = model(x)
            v = h.view(-1)
            torch._dynamo.graph_break()
            h.add_(1)
            return h, v

        def row(x):
            h = model(x)
            v = h[1]
            torch._dynamo.graph_break()
            v.add_(1)
            return h, v

        def chunks(x):
            h = model(x)
            q, k = h.t().chunk(2)
            y = torch.relu(k @ k.t())
            torch._dynamo.graph_break()
            q.add_(1)
            return h, q, k, y

        def of_input(x):
            v = x.t()
            y = model(x) + v.sum()
            torch._dynamo.graph_break()
            v.mul_(2)
            return x, y

        model = Odd(0).eval()
        for function in (flat, row, chunks, of_input):
            for dynamic in (False, True):
                with self.subTest(function.__name__, dynamic=dynamic):
                    torch.compiler.reset()
                    backend = Backend(tune="off")
                    got = torch.compile(function, backend=backend, dynamic=dynamic)(self.x.clone())
                    want = function(self.x.clone())
                    torch.testing.assert_close(got, want)
                    self.assertEqual([y.stride() for y in got], [y.stride() for y in want])
                    self.assertEqual(len({y.untyped_storage().data_ptr() for y in got}),
                                     len({y.untyped_storage().data_ptr() for y in want}))
                    self.assertGreater(sum(len(graph.parts) for graph in backend.graphs), 0)

    def test_gaps_of_outputs(self):
        model = Odd(0).eval()

        def between(x):  # what lies in the gaps
            return model(x)[:, :8].as_strided((3, 8), (8, 1), 0)

        def beyond(x):
            return model(x)[:, :8].as_strided((3, 8), (16, 1), 8)

        for function in (between, beyond):
            torch.compiler.reset()
            torch.testing.assert_close(torch.compile(function, backend=Backend(tune="off"))(self.x), function(self.x))

    def test_the_negative_bit_of_torch(self):
        def negative(*shape):  # a tensor whose memory has the negated numbers
            return torch.randn(*shape, dtype=torch.complex64).conj().imag

        other = Odd(1).eval()
        other.first.weight = nn.Parameter(negative(16, 16))
        for model, x in ((Odd(1).eval(), negative(4, 16)), (other, self.x)):
            torch.compiler.reset()
            torch.testing.assert_close(torch.compile(model, backend=Backend(tune="off"))(x), model(x))

    def test_buffers_that_are_written(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(16, 16)
                self.register_buffer("total", torch.zeros(16))

            def forward(self, x):
                self.total.add_(x.sum(0))
                return self.linear(x) + self.total

        model, other = Counter().eval(), Counter().eval()
        other.load_state_dict(model.state_dict())
        compiled = torch.compile(model, backend=Backend(tune="off"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of a run that is eager
            for _ in range(3):
                torch.testing.assert_close(compiled(self.x), other(self.x))
        torch.testing.assert_close(model.total, other.total)

    def test_buffers_that_are_written_beside_weights_of_several_tensors(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.last = nn.Linear(64, 64), nn.Linear(64, 64)
                self.register_buffer("total", torch.zeros(64))

            def forward(self, x):
                y = self.first(x)
                self.total.add_(y.sum(0))
                return self.last(y) + self.total

        model, other = Counter().eval(), Counter().eval()
        other.load_state_dict(model.state_dict())
        for one in (model, other):
            ao.quantize_(one, SCHEMES["w8"])
        backend = Backend(tune="off")
        compiled, x = torch.compile(model, backend=backend), torch.randn(4, 64)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # of a run that is eager
            for _ in range(3):
                torch.testing.assert_close(compiled(x), other(x), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(model.total, other.total)
        linears = [k["summary"] for graph in backend.graphs for part in graph.parts for k in part.report["kernels"]
                   if k["summary"].startswith("w8")]
        self.assertEqual(len(linears), 2, "a weight is an operand at run time")

    def test_weights_that_dynamo_makes_attributes_of_its_graph_are_constants(self):
        import torch._inductor.config

        model, x, backend = nn.Linear(64, 64).eval(), torch.randn(4, 64), Backend(tune="off")
        ao.quantize_(model, SCHEMES["w8"])
        with torch._inductor.config.patch(freezing=True):
            torch.testing.assert_close(torch.compile(model, backend=backend)(x), model(x), atol=1e-4, rtol=1e-4)
        self.assertIn("w8", kinds(backend))


class Weights(unittest.TestCase):
    def setUp(self):
        torch.compiler.reset()
        torch.manual_seed(0)
        self.x = torch.randn(4, 16)

    def test_modules_of_one_class_have_their_own(self):
        for _ in range(2):
            model = Odd(0).eval()
            torch.testing.assert_close(torch.compile(model, backend=Backend(tune="off"))(self.x), model(self.x))

    def test_weights_that_change_are_never_stale(self):
        model = Odd(0).eval()
        compiled = torch.compile(model, backend=Backend(tune="off"))
        compiled(self.x)
        model.first.weight.mul_(2)
        with self.assertWarnsRegex(UserWarning, "weights were written to"):
            torch.testing.assert_close(compiled(self.x), model(self.x))
        model.first.weight = nn.Parameter(torch.randn(16, 16))
        torch.testing.assert_close(compiled(self.x), model(self.x))

    def test_writes_through_data_are_seen(self):
        def assign(weight):
            weight.data = torch.randn(16, 16)

        def transpose(weight):
            weight.data = weight.data.t()

        def copy(weight):
            weight.data.copy_(torch.randn(16, 16))

        for write in (assign, transpose, copy):
            with self.subTest(write.__name__):
                torch.compiler.reset()
                model = Odd(0).eval()
                compiled = torch.compile(model, backend=Backend(tune="off"))
                with warnings.catch_warnings():
                    warnings.simplefilter("error", UserWarning)
                    compiled(self.x)
                write(model.first.weight)
                with warnings.catch_warnings():  # Dynamo itself compiles some of them anew
                    warnings.simplefilter("ignore", UserWarning)
                    torch.testing.assert_close(compiled(self.x), model(self.x))

    def test_weights_of_inference_mode(self):
        with torch.inference_mode():
            model = Odd(0).eval()
            self.assertTrue(model.first.weight.is_inference())
            compiled = torch.compile(model, backend=Backend(tune="off"))
            with warnings.catch_warnings():
                warnings.simplefilter("error", UserWarning)
                torch.testing.assert_close(compiled(self.x), model(self.x))
            model.first.weight.mul_(2)
            with self.assertWarnsRegex(UserWarning, "weights were written to"):
                torch.testing.assert_close(compiled(self.x), model(self.x))

    def test_weights_of_torchao_that_are_loaded(self):
        model, other, x = nn.Sequential(nn.Linear(64, 64)), nn.Sequential(nn.Linear(64, 64)), torch.randn(4, 64)
        for one in (model, other):
            ao.quantize_(one, SCHEMES["w8"])
        compiled = torch.compile(model, backend=Backend(tune="off"))
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            torch.testing.assert_close(compiled(x), model(x), atol=1e-4, rtol=1e-4)
        model.load_state_dict(other.state_dict())
        with self.assertWarnsRegex(UserWarning, "weights were written to"):
            torch.testing.assert_close(compiled(x), other(x), atol=1e-4, rtol=1e-4)

    def test_weights_of_one_name(self):
        class Listed(nn.Module):
            def __init__(self):
                super().__init__()
                self.all = [nn.Linear(16, 16), nn.Linear(16, 16)]  # no ModuleList

            def forward(self, x):
                return self.all[1](torch.relu(self.all[0](x)))

        class Merged(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.a_b = nn.Module(), nn.Parameter(torch.randn(16, 16))
                self.a.b = nn.Parameter(torch.randn(16, 16))

            def forward(self, x):
                return torch.relu(x @ self.a.b) @ self.a_b

        one, two = nn.Linear(16, 16), nn.Linear(16, 16)
        for model in (lambda x: two(torch.relu(one(x))), Listed(), Merged()):
            torch.compiler.reset()
            backend = Backend(tune="off")
            torch.testing.assert_close(torch.compile(model, backend=backend)(self.x), model(self.x))
            self.assertEqual([len(graph.parts) for graph in backend.graphs], [1])

    def test_training_runs_eagerly(self):
        model = Odd(0)
        with torch.enable_grad(), self.assertWarnsRegex(UserWarning, "needs gradients"):
            torch.compile(model, backend=Backend(tune="off"))(self.x).sum().backward()
        self.assertIsNotNone(model.first.weight.grad)

    def test_another_process_finds_the_kernels(self):
        code = ("import time, torch; from torch import nn; from qcodegen.backend import Backend; torch.manual_seed(0);"
                "torch.set_grad_enabled(False); model = nn.Sequential(nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 8)).eval();"
                "backend = Backend(tune='off'); torch.compile(model, backend=backend)(torch.ones(3, 16));"
                "print(backend.graphs[0].parts[0].report['cost']['at'] > 0)")
        said = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
                for _ in range(2)]
        self.assertEqual(said[1], "True", said)


if __name__ == "__main__":
    unittest.main()
