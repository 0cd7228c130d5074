"""torch tensors in and out, and compiles of torch's own objects."""

import os
import tempfile
import unittest

import docs
import numpy as np
import qcodegen
import torch
from torch import nn
from torchao.quantization import Int8WeightOnlyConfig, quantize_


class Mlp(nn.Module):
    def __init__(self, hidden=64, intermediate=96):
        super().__init__()
        self.gate = nn.Linear(hidden, intermediate, bias=False)
        self.up = nn.Linear(hidden, intermediate, bias=False)
        self.down = nn.Linear(intermediate, hidden)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def mlp(dtype=torch.float32):
    torch.manual_seed(0)
    return Mlp().eval().to(dtype)


def negative(*shape):
    """A tensor whose memory has the negated numbers."""
    return torch.randn(*shape, dtype=torch.complex64).conj().imag


def exported(model, x):
    rows = torch.export.Dim("rows", min=1, max=64)
    with torch.no_grad():
        return torch.export.export(model, (x,), dynamic_shapes=[{0: rows}])


class Compile(unittest.TestCase):
    def test_an_exported_program_in_memory(self):
        model, x = mlp(torch.bfloat16), torch.randn(5, 64, dtype=torch.bfloat16)
        program = qcodegen.compile(exported(model, x), tune="off")
        y = program(x)
        self.assertEqual((type(y), y.dtype, y.shape), (torch.Tensor, torch.bfloat16, (5, 64)))
        with torch.no_grad():
            torch.testing.assert_close(y, model(x), atol=0.02, rtol=0.02)
        self.assertEqual(program.inputs[0].shape, (None, 64))
        bits = program(x.view(torch.uint16).numpy())
        np.testing.assert_array_equal(bits.view(np.uint16), y.view(torch.uint16).numpy())

    def test_in_memory_and_from_a_file_are_the_same_program(self):
        model, x = mlp(), torch.randn(5, 64)
        program = exported(model, x)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mlp.pt2")
            torch.export.save(program, path)
            torch.testing.assert_close(qcodegen.compile(program, tune="off")(x), qcodegen.compile(path, tune="off")(x),
                                       atol=0, rtol=0)

    def test_the_cache_knows_weights_and_graph(self):
        x = torch.randn(5, 64)
        at = [qcodegen.compile(exported(model, x), tune="off").report["cost"]["at"] for model in (mlp(), mlp())]
        self.assertGreater(at[1], 0, "the second compile was not found in the cache")
        other = mlp()
        with torch.no_grad():
            other.down.bias += 1
            y = qcodegen.compile(exported(other, x), tune="off")(x)
            torch.testing.assert_close(y, other(x), atol=1e-4, rtol=1e-4)

    def test_a_module_with_weights_of_torchao(self):
        model, x = mlp(torch.bfloat16), torch.randn(5, 64, dtype=torch.bfloat16)
        quantize_(model, Int8WeightOnlyConfig())
        kinds = [type(p) for p in model.parameters()]
        program = qcodegen.compile(model, args=(x,), tune="off")
        with torch.no_grad():
            torch.testing.assert_close(program(x), model(x), atol=0.02, rtol=0.02)
        self.assertEqual(kinds, [type(p) for p in model.parameters()], "the caller's module was changed")
        self.assertIn("w8", {k["summary"].split()[0] for k in program.report["kernels"]})

    def test_tensors_are_not_copied(self):
        model = mlp()
        program = qcodegen.compile(model, args=(torch.randn(5, 64),), tune="off")
        wide = torch.randn(64, 5).t()
        out = torch.empty(5, 64)
        self.assertIs(program(wide, out=out), out)
        with torch.no_grad():
            torch.testing.assert_close(out, model(wide), atol=1e-4, rtol=1e-4)

    def test_the_negative_bit_of_torch(self):
        class Product(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("w", negative(64, 8))

            def forward(self, x):
                return x @ self.w

        model, x = Product(), negative(5, 64)
        program = qcodegen.compile(model, args=(x,), tune="off")
        torch.testing.assert_close(program(x), model(x), atol=1e-4, rtol=1e-4)
        out = negative(5, 8)
        before = out.clone()
        with self.assertRaisesRegex(qcodegen.BadInputError, "negative bit"):
            program(x, out=out)
        torch.testing.assert_close(out, before, atol=0, rtol=0)

    def test_outputs_of_the_caller_tell_autograd(self):
        program, x = qcodegen.compile(mlp(), args=(torch.randn(5, 64),), tune="off"), torch.randn(5, 64)
        out, scale = torch.randn(5, 64), torch.randn(5, 64, requires_grad=True)
        loss = (scale * out).sum()
        program(x, out=out)
        with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
            loss.backward()
        with self.assertRaisesRegex(qcodegen.BadInputError, "needs gradients"):
            program(x, out=scale)
        program(x, out=scale.detach())
        torch.testing.assert_close(scale.detach(), out)
        with torch.inference_mode():  # whose tensors have no versions
            torch.testing.assert_close(program(x, out=torch.empty(5, 64)), out)
        array = np.empty((5, 64), np.float32)
        self.assertIs(program(x, out=array), array)

    def test_the_default_device_of_torch(self):
        program, x = qcodegen.compile(mlp(), args=(torch.randn(5, 64),), tune="off"), torch.randn(5, 64)
        want = program(x)
        with torch.device("meta"):
            y = program(x)
        self.assertEqual(y.device.type, "cpu")
        torch.testing.assert_close(y, want)

    def test_modules_stay_in_training(self):
        model, x = nn.Sequential(mlp(), nn.Dropout()).train(), torch.randn(5, 64)
        model[0].down.eval()
        modes = [m.training for m in model.modules()]
        program = qcodegen.compile(model, args=(x,), tune="off")
        self.assertEqual([m.training for m in model.modules()], modes)
        with torch.no_grad():
            torch.testing.assert_close(program(x), model[0](x), atol=1e-4, rtol=1e-4)
        refused = nn.Sequential(AiryAi(), nn.Dropout())
        with self.assertRaises(qcodegen.UnsupportedError):
            qcodegen.compile(refused, args=(x,), tune="off")
        self.assertTrue(all(m.training for m in refused.modules()))

    def test_errors(self):
        x = torch.randn(5, 64)
        with self.assertRaises(qcodegen.UsageError):
            qcodegen.compile(mlp())
        with self.assertRaisesRegex(qcodegen.UnsupportedError, "airy_ai"):
            qcodegen.compile(torch.export.export(nn.Sequential(AiryAi()), (x,)))
        with self.assertRaisesRegex(qcodegen.UsageError, "weights"):
            qcodegen.compile(mlp(), args=(x,), weights="random:1", tune="off")
        with self.assertRaisesRegex(qcodegen.UsageError, "weights"):
            qcodegen.explain(exported(mlp(), x), weights="random:1")
        with self.assertRaisesRegex(qcodegen.UsageError, "takes no args"):
            qcodegen.compile(exported(mlp(), x), args=(x,), tune="off")
        program = qcodegen.compile(mlp(), args=x, tune="off")
        with self.assertRaisesRegex(qcodegen.UnsupportedError, "no memory of its own"):
            program(_fake(x))


class AiryAi(nn.Module):
    def forward(self, x):
        return torch.special.airy_ai(x)


def _fake(x):
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode().from_tensor(x)


class State(unittest.TestCase):
    def test_a_buffer_is_state(self):
        class Sum(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(8))

            def forward(self, x):
                self.total.add_(x)
                return self.total * 2

        program = qcodegen.compile(Sum(), args=(torch.ones(8),), tune="off")
        program(torch.ones(8))
        torch.testing.assert_close(program(torch.ones(8)), torch.full((8,), 4.0))
        torch.testing.assert_close(torch.from_dlpack(program.state.dlpack("total")), torch.full((8,), 2.0))
        program.state["total"] = torch.zeros(8)
        torch.testing.assert_close(program(torch.ones(8)), torch.full((8,), 2.0))

    def test_a_buffer_that_is_written_shares_no_memory(self):
        class Shared(nn.Module):
            def __init__(self, view):
                super().__init__()
                self.register_buffer("total", torch.zeros(4))
                self.register_buffer("seen", view(self.total))

            def forward(self, x):
                self.total.add_(x)
                return self.seen + 1

        x = torch.ones(4)
        alone = qcodegen.compile(Shared(torch.clone), args=(x,), tune="off")  # in the cache, with the same numbers
        torch.testing.assert_close(alone(x), torch.ones(4))
        for view in (lambda t: t.view(4), lambda t: t[:2].expand(2, 2)):
            with self.assertRaisesRegex(qcodegen.UnsupportedError, "views of the same memory"):
                qcodegen.compile(Shared(view), args=(x,), tune="off")


class Docs(unittest.TestCase):
    def test_fences_with_torch(self):
        self.assertGreater(docs.run_fences("python torch"), 0)


if __name__ == "__main__":
    unittest.main()
