"""The package without torch: programs are loaded, called and compiled with numpy alone."""

import ast
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import ml_dtypes
import numpy as np
import qcodegen

TEXTS = {
    "mul": """symbol m in [1, 64]
graph(%x: f32[m, 4], %y: f32[m, 4]) {
  %z = aten.mul.Tensor(%x, %y) : f32[m, 4]
  return %z
}
""",
    "two": """graph(%x: f32[8]) {
  %a = aten.add.Tensor(%x, %x) : f32[8]
  %b = aten.mul.Tensor(%x, %x) : f32[8]
  return %a, %b
}
""",
    "sum": """state %total: f32[8]
graph(%x: f32[8]) {
  %after = aten.add.Tensor(%total, %x) : f32[8]
  return %after
  next %total = %after
}
""",
    "half": """graph(%x: bf16[8]) {
  %y = aten.add.Tensor(%x, %x) : bf16[8]
  return %y
}
""",
    "byte": """graph(%x: f8e4m3[8]) {
  %y = aten._to_copy.default(%x, dtype = f32) : f32[8]
  return %y
}
""",
    "long": """graph(%x: f32[1024, 1024]) {
  %y = aten.mm.default(%x, %x) : f32[1024, 1024]
  %z = aten.mm.default(%y, %x) : f32[1024, 1024]
  return %z
}
""",
}


def setUpModule():
    global FOLDER, PROGRAMS
    FOLDER = tempfile.TemporaryDirectory()
    for name, text in TEXTS.items():
        with open(graph_path(name), "w") as file:
            file.write(text)
    PROGRAMS = {}


def tearDownModule():
    FOLDER.cleanup()


def graph_path(name):
    return os.path.join(FOLDER.name, name + ".qir")


def program(name):
    if name not in PROGRAMS:
        out = os.path.join(FOLDER.name, name + ".qcg")
        PROGRAMS[name] = qcodegen.compile(graph_path(name), out, tune="off", threads=2)
    return PROGRAMS[name]


def numbers(*shape):
    return np.random.default_rng(1).standard_normal(shape, dtype=np.float32)


class Call(unittest.TestCase):
    def test_positions_and_names(self):
        x, y = numbers(3, 4), numbers(3, 4) + 1
        run = program("mul")
        for z in (run(x, y), run(x, y=y), run(y=y, x=x)):
            self.assertIs(type(z), np.ndarray)
            np.testing.assert_array_equal(z, x * y)

    def test_metadata(self):
        run = program("mul")
        self.assertEqual([(t.name, t.dtype, t.shape) for t in run.inputs],
                         [("x", "float32", (None, 4)), ("y", "float32", (None, 4))])
        self.assertEqual([t.name for t in run.outputs], ["z"])
        self.assertEqual(run.symbols, {"m": (1, 64)})
        self.assertEqual((run.states, run.methods), ([], {}))
        self.assertEqual(run.threads, 2)
        self.assertTrue(run.target.startswith("cpu:"))

    def test_several_outputs_are_a_tuple(self):
        x = numbers(8)
        a, b = program("two")(x)
        np.testing.assert_array_equal(a, x + x)
        np.testing.assert_array_equal(b, x * x)

    def test_outputs_of_the_caller(self):
        x, out = numbers(3, 4), np.zeros((3, 4), np.float32)
        self.assertIs(program("mul")(x, x, out=out), out)
        np.testing.assert_array_equal(out, x * x)
        a, b = np.zeros(8, np.float32), np.zeros(16, np.float32)
        program("two")(numbers(8), out=[a, b[::2]])
        np.testing.assert_array_equal(b[::2], numbers(8) ** 2)
        np.testing.assert_array_equal(b[1::2], 0)

    def test_strides_are_read_in_place(self):
        x, y = numbers(4, 3).T, numbers(6, 8)[::2, ::2]
        np.testing.assert_array_equal(program("mul")(x, y), x * y)

    def test_anything_with_dlpack(self):
        class Opaque:  # neither a buffer nor an array
            def __init__(self, array):
                self.__dlpack__, self.__dlpack_device__ = array.__dlpack__, array.__dlpack_device__

        x = numbers(3, 4)
        np.testing.assert_array_equal(program("mul")(Opaque(x), x), x * x)

    def test_bfloat16(self):
        x = numbers(8).astype(ml_dtypes.bfloat16)
        y = program("half")(x)
        self.assertEqual(y.dtype, ml_dtypes.bfloat16)
        np.testing.assert_array_equal(y, x + x)
        np.testing.assert_array_equal(program("half")(x.view(np.uint16)), y)  # its bits
        out = np.zeros(8, np.uint16)
        program("half")(x, out=out)
        np.testing.assert_array_equal(out.view(ml_dtypes.bfloat16), y)

    def test_float8(self):
        x = numbers(8).astype(ml_dtypes.float8_e4m3fn)
        np.testing.assert_array_equal(program("byte")(x), x.astype(np.float32))

    def test_without_ml_dtypes_outputs_are_bits(self):
        x = numbers(8).astype(ml_dtypes.bfloat16)
        code = ("import sys; sys.modules['ml_dtypes'] = None; import numpy as np, qcodegen;"
                f"y = qcodegen.load({program('half').path!r})(np.array({x.view(np.uint16).tolist()}, np.uint16));"
                "print(y.dtype, y.tolist())")
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.strip(), f"uint16 {(x + x).view(np.uint16).tolist()}")

    def test_refused_arrays_are_given_back(self):
        x = np.zeros(8, np.complex64)
        before = sys.getrefcount(x)
        for _ in range(3):
            with self.assertRaises(qcodegen.Error):
                program("half")(x)
        self.assertEqual(sys.getrefcount(x), before)

    def test_the_gil_is_released(self):
        run, x = program("long"), numbers(1024, 1024)
        run(x)
        done = []
        thread = threading.Thread(target=lambda: [run(x) for _ in range(20)] + [done.append(True)])
        began, turns = time.perf_counter(), 0
        thread.start()
        while not done:
            turns += 1
            time.sleep(1e-4)
        # A thread that had to wait for whole calls would have had 20 turns at most.
        self.assertGreater(turns, 40, f"in {time.perf_counter() - began:.2f} s")
        thread.join()

    def test_threads_of_python_share_a_program(self):
        run, wrong = program("mul"), []

        def work(seed):
            x = np.full((5, 4), seed, np.float32)
            wrong.extend(1 for _ in range(200) if not (run(x, x) == seed * seed).all())

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class State(unittest.TestCase):
    def setUp(self):
        program("sum").reset()

    def test_state_is_kept_and_reset(self):
        run, x = program("sum"), numbers(8)
        run(x)
        np.testing.assert_array_equal(run(x), x + x)
        np.testing.assert_array_equal(run.state["total"], x + x)
        run.reset()
        np.testing.assert_array_equal(run.state["total"], 0)

    def test_state_is_read_and_written_in_place(self):
        run, x = program("sum"), numbers(8)
        self.assertEqual((list(run.state), len(run.state), "total" in run.state), (["total"], 1, True))
        view = run.state["total"]
        view[:] = 1
        np.testing.assert_array_equal(run(x), x + 1)
        np.testing.assert_array_equal(view, x + 1)
        run.state["total"] = np.full(8, 5, np.float32)
        np.testing.assert_array_equal(view, 5)
        np.testing.assert_array_equal(np.from_dlpack(run.state.dlpack("total")), 5)

    def test_a_state_becomes_a_view_of_itself(self):
        state, x = program("sum").state, numbers(8)
        state["total"] = x
        state["total"] = state["total"][::-1]
        np.testing.assert_array_equal(state["total"], x[::-1])
        state["total"] = np.broadcast_to(state["total"][7:], 8)
        np.testing.assert_array_equal(state["total"], x[0])

    def test_contexts_have_states_of_their_own(self):
        run, x = program("sum"), numbers(8)
        one, other = run.new_context(threads=1), run.new_context()
        self.assertEqual((one.threads, other.threads), (1, 2))
        one(x)
        np.testing.assert_array_equal(one(x), x + x)
        np.testing.assert_array_equal(other(x), x)
        copy = one.clone()
        copy(x)
        np.testing.assert_array_equal(one.state["total"], x + x)
        np.testing.assert_array_equal(copy.state["total"], x + x + x)

    def test_a_view_outlives_its_context(self):
        view = program("sum").new_context(threads=1).state["total"]
        view += 1
        np.testing.assert_array_equal(view, 1)

    def test_wrong_states(self):
        run = program("sum")
        with self.assertRaisesRegex(qcodegen.BadInputError, "total"):
            run.state["tot"]
        with self.assertRaisesRegex(qcodegen.BadInputError, r"float32\[4\]"):
            run.state["total"] = numbers(4)
        with self.assertRaisesRegex(qcodegen.BadInputError, "no state"):
            program("mul").state["total"]


class Compile(unittest.TestCase):
    def test_methods(self):
        out = os.path.join(FOLDER.name, "methods.qcg")
        both = qcodegen.compile({"mul": graph_path("mul"), "two": graph_path("two")}, out, tune="off")
        x = numbers(3, 4)
        self.assertEqual(list(both.methods), ["mul", "two"])
        np.testing.assert_array_equal(both.methods["mul"](x, x), x * x)
        np.testing.assert_array_equal(both.methods["two"](numbers(8))[1], numbers(8) ** 2)
        context = both.new_context(threads=1)
        np.testing.assert_array_equal(context.methods["two"](numbers(8))[0], numbers(8) * 2)
        self.assertEqual([t.name for t in both.methods["two"].outputs], ["a", "b"])

    def test_report_and_cache(self):
        program("mul")
        again = qcodegen.compile(graph_path("mul"), tune="off", threads=2)  # into a folder that is gone by now
        self.assertFalse(os.path.exists(again.path))
        np.testing.assert_array_equal(again(numbers(3, 4), numbers(3, 4)), numbers(3, 4) ** 2)
        self.assertEqual(again.report["nodes_read"], 1)
        self.assertGreater(again.report["cost"]["at"], 0, "the cache of whole compiles was not used")

    def test_progress_and_its_exceptions(self):
        steps = []
        qcodegen.compile(graph_path("two"), tune="off", cache=False, progress=steps.append)
        self.assertTrue(any("build" in step for step in steps), steps)

        def stop(step):
            raise KeyboardInterrupt

        out = os.path.join(FOLDER.name, "stopped.qcg")
        with self.assertRaises(KeyboardInterrupt):
            qcodegen.compile(graph_path("two"), out, tune="off", cache=False, progress=stop)
        self.assertFalse(os.path.exists(out))

    def test_explain(self):
        text = qcodegen.explain(graph_path("mul"))
        self.assertIn("lower_loops: fired 1", text)
        self.assertIn("step 0", text)


class Errors(unittest.TestCase):
    def expect(self, kind, code, place, call):
        with self.assertRaises(kind) as raised:
            call()
        error = raised.exception
        self.assertIsInstance(error, qcodegen.Error)
        self.assertEqual(error.code, code)
        self.assertIn(place, error.place)
        self.assertTrue(error.message and error.help, error)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(copy), str(copy)), (type(error), str(error)))

    def test_calls(self):
        run, x = program("mul"), numbers(3, 4)
        self.expect(TypeError, "Usage", "inputs", lambda: run(x))
        self.expect(TypeError, "Usage", "w", lambda: run(x, w=x))
        self.expect(TypeError, "Usage", "x", lambda: run(x, x=x))
        self.expect(TypeError, "Usage", "out", lambda: run(x, x, out=[x, x]))
        self.expect(ValueError, "BadInput", "x", lambda: run([1, 2], x))
        self.expect(ValueError, "BadInput", "x", lambda: run(x.astype(np.float64), x))
        self.expect(ValueError, "BadInput", "y", lambda: run(x, numbers(3, 5)))
        self.expect(ValueError, "BadInput", "y", lambda: run(x, numbers(2, 4)))
        self.expect(ValueError, "BadInput", "x", lambda: run(numbers(65, 4), numbers(65, 4)))
        self.expect(NotImplementedError, "Unsupported", "x", lambda: run(x.astype(np.complex64), x))
        fixed = np.zeros((3, 4), np.float32)
        fixed.flags.writeable = False
        self.expect(ValueError, "BadInput", "z", lambda: run(x, x, out=fixed))
        self.expect(ValueError, "BadInput", "", lambda: run(x, x, out=x))
        with self.assertRaisesRegex(qcodegen.BadInputError, "cannot be written to"):
            run(x, x, out=np.broadcast_to(np.float32(0), (3, 4)))
        np.testing.assert_array_equal(run(fixed, x), 0)  # inputs may be read only

    def test_names_of_methods(self):
        folder = os.path.join(FOLDER.name, "names")
        os.mkdir(folder)
        for name in ("../escaped", "", "a.b", "a\n", "é", "x" * 65):
            self.expect(ValueError, "BadInput", name,
                        lambda: qcodegen.compile({name: graph_path("mul")}, os.path.join(folder, "all.qcg"), tune="off"))
        models = {"mul": graph_path("mul"), "Mul": graph_path("mul")}
        self.expect(ValueError, "BadInput", "ul", lambda: qcodegen.compile(models, os.path.join(folder, "all.qcg")))
        self.assertEqual(os.listdir(folder), [])

    def test_options(self):
        mul = graph_path("mul")
        for name in ("input", "output", "env_cxx"):
            self.expect(TypeError, "Usage", name, lambda: qcodegen.compile(mul, tune="off", **{name: "x"}))
        for name in ("threads", "jobs"):
            for count in (-1, 4097):
                self.expect(TypeError, "Usage", name, lambda: qcodegen.compile(mul, tune="off", **{name: count}))
        self.expect(TypeError, "Usage", "threads", lambda: qcodegen.load(program("mul").path, threads=-1))
        self.expect(TypeError, "Usage", "--m", lambda: qcodegen.compile(mul, tune="off", m=16))  # it has no linear
        one = qcodegen.compile(mul, tune="off", disabled_passes="cse")
        np.testing.assert_array_equal(one(numbers(3, 4), numbers(3, 4)), numbers(3, 4) ** 2)

    def test_files(self):
        self.expect(qcodegen.Error, "Io", "nowhere", lambda: qcodegen.load("nowhere.qcg"))
        self.expect(OSError, "Io", "nowhere", lambda: qcodegen.compile("nowhere.pt2"))
        self.expect(TypeError, "Usage", "tune", lambda: qcodegen.compile(graph_path("mul"), tune="some"))
        self.expect(TypeError, "Usage", "tuna", lambda: qcodegen.compile(graph_path("mul"), tuna="off"))
        self.expect(TypeError, "Usage", "model", lambda: qcodegen.compile(3))
        self.expect(TypeError, "Usage", "methods", lambda: qcodegen.compile({}, "none.qcg"))
        self.expect(OSError, "Io", "nofolder", lambda: qcodegen.compile({"mul": graph_path("mul")}, "nofolder/x.qcg"))
        for name in ("args", "kwargs", "dynamic_shapes"):
            for model in (graph_path("mul"), {"mul": graph_path("mul")}):
                self.expect(TypeError, "Usage", name, lambda: qcodegen.compile(model, tune="off", **{name: {}}))
        bad = os.path.join(FOLDER.name, "bad.qir")
        with open(bad, "w") as file:
            file.write("graph(%x: f32[8]) {\n  %y = aten.sin.defalt(%x) : f32[8]\n  return %y\n}\n")
        self.expect(ValueError, "BadInput", "line 2", lambda: qcodegen.compile(bad))


class Package(unittest.TestCase):
    def test_a_call_costs_at_most_10_us(self):
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "bench"))
        import python_call

        times = python_call.measure(os.getcwd())  # the build directory
        for caller, us in times.items():
            self.assertLess(us - times["C"], 10, f"{caller}: {times}")

    def test_torch_is_not_imported(self):
        code = (f"import sys, qcodegen, numpy as np; x = np.ones((1, 4), np.float32);"
                f"qcodegen.load({program('mul').path!r})(x, x); print('torch' in sys.modules)")
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.strip(), "False")

    def test_stubs_have_what_the_module_has(self):
        home = os.path.dirname(qcodegen.__file__)
        self.assertTrue(os.path.exists(os.path.join(home, "py.typed")))
        with open(os.path.join(home, "_core.pyi")) as file:
            stubs = {node.name for node in ast.parse(file.read()).body if hasattr(node, "name")}
        real = {n for n in dir(qcodegen._core) if not n.startswith("_")}
        self.assertEqual(stubs & real, real)


if __name__ == "__main__":
    unittest.main()
