"""Calls with tensors of a device whose memory is the host's and whose kernels do nothing: device_calls.py FOLDER LOG

What a call did shows in which memory it left alone, and in LOG, which has the stream of each launch.
"""

import ctypes
import sys
import unittest

import numpy as np
import qcodegen

FOLDER, LOG = sys.argv[1:3]
K_CUDA = 2


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


def new_capsule(address, name):
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, name, None)


class Tensor:
    """An array whose memory is that of device number `device`."""

    def __init__(self, array, device=0):
        self.array, self.shape = array, (ctypes.c_int64 * array.ndim)(*array.shape)
        self.given = []  # must outlive the calls
        self.view = DLTensor(array.ctypes.data, K_CUDA, device, array.ndim, 2, 32, 1, self.shape, None, 0)

    def __dlpack__(self, **_):
        self.given.append(DLManagedTensor(self.view, None, None))
        return new_capsule(ctypes.addressof(self.given[-1]), b"dltensor")


FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(DLTensor))
WORK_STREAM = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class ExchangeAPI(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("allocator", ctypes.c_void_p), ("managed_from", ctypes.c_void_p), ("managed_to", ctypes.c_void_p),
                ("tensor_from", FROM_OBJECT), ("work_stream", WORK_STREAM)]


class StreamTensor(Tensor):
    """The same of a framework that tells its current stream."""

    stream = 0

    @FROM_OBJECT
    def _describe(tensor, out):
        out[0] = tensor.view
        return 0

    @WORK_STREAM
    def _current(kind, device, out):
        out[0] = StreamTensor.stream
        return 0

    _api = ExchangeAPI(1, 3, None, None, None, None, _describe, _current)
    __dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(_api), b"dlpack_exchange_api")


def sevens():
    return np.full((3, 4), 7, np.float32)


def launches():
    """The streams of the launches since the last call."""
    with open(LOG, "a+") as file:
        file.seek(0)
        streams = [int(line) for line in file]
        file.truncate(0)
    return streams


class Calls(unittest.TestCase):
    def setUp(self):
        self.program = qcodegen.load(f"{FOLDER}/device.qcg")
        launches()

    def test_tensors_on_the_device_are_used_in_place(self):
        x, out = Tensor(sevens()), Tensor(sevens())
        self.assertIs(self.program(x, x, out=out), out)
        np.testing.assert_array_equal(out.array, 7)  # what is copied out of the device's own memory is 0
        on_host = sevens()
        self.program(x, sevens(), out=on_host)
        np.testing.assert_array_equal(on_host, 0)
        self.program(sevens(), sevens(), out=out)
        np.testing.assert_array_equal(out.array, 7)
        np.testing.assert_array_equal(self.program(sevens(), sevens()), 0)
        self.assertEqual(launches(), [0] * 4)

    def test_calls_are_queued_on_the_stream_of_the_framework(self):
        x, out, context = StreamTensor(sevens()), StreamTensor(sevens()), self.program.new_context()
        StreamTensor.stream = 4096
        context(x, x, out=out)
        self.assertEqual(launches(), [4096])
        context.wait(), self.program.wait()
        StreamTensor.stream = 0
        context(x, x, out=out)
        self.assertEqual(launches()[-1], 0)  # of a graph, after the launch that is recorded
        StreamTensor.stream = 4096
        with self.assertRaisesRegex(qcodegen.UsageError, "ready on different streams"):
            context(x, Tensor(sevens()), out=out)
        self.assertEqual(launches(), [])

    def test_what_cannot_be_used_is_named(self):
        x = Tensor(sevens())
        with self.assertRaisesRegex(qcodegen.UsageError, "out: is not given, and inputs are on a device"):
            self.program(x, x)
        with self.assertRaisesRegex(qcodegen.UnsupportedError, "x: is on device 1, the program runs on device 0"):
            self.program(Tensor(sevens(), 1), x, out=x)
        with self.assertRaisesRegex(qcodegen.UnsupportedError, "x: is on DLPack device type 2"):
            qcodegen.load(f"{FOLDER}/cpu.qcg")(x, x)


unittest.main(argv=sys.argv[:1])
