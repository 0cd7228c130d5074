// Tensors in the device's memory as inputs and outputs of a program, through the C API and the C++ header.
#include "tests/cuda_program/device_tensor.h"

using namespace qcg;
using namespace qcg::test;

TEST_CASE("tensors on the device are used in place, beside tensors of the host") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  Mlp mlp(*tool);
  ExecutedDevice& device = mlp.device;
  const qcodegen::Program program(mlp.path);
  qcodegen::Context context(program, 1);
  const qcg_dtype dtype = program.input(0).dtype;
  const size_t x_bytes = bytes_of(mlp.x).size(), y_bytes = bytes_of(mlp.y).size();

  Values room(y_bytes + 256, std::byte{0x5a});
  const DeviceTensor x(device, dtype, mlp.x.shape, bytes_of(mlp.x)), y(device, dtype, mlp.y.shape, room),
      other(device, dtype, mlp.y.shape, room);
  const auto run = [&](const qcg_dltensor& from, const qcg_dltensor& to, size_t in, size_t out) {
    device.seen.clear(), device.copied_in = device.copied_out = 0;
    context.run({from}, {to});
    CHECK(device.copied_in == in);
    CHECK(device.copied_out == out);
  };
  const auto check_device_output = [&](const DeviceTensor& t) {
    const Values all = bytes_at(device, t.view, room.size());
    mlp.check_output({all.begin(), all.begin() + static_cast<ptrdiff_t>(y_bytes)});
    CHECK(std::all_of(all.begin() + static_cast<ptrdiff_t>(y_bytes), all.end(),
                      [](std::byte b) { return b == std::byte{0x5a}; }));
  };
  CHECK(program.output_shape(std::vector<qcg_dltensor>{x.view}, 0) == mlp.y.shape);
  const size_t blocks = device.allocated.size();
  run(x.view, y.view, 0, 0), check_device_output(y);
  CHECK(device.allocated.size() <= blocks + 1);  // the arena
  run(x.view, y.view, 0, 0);
  CHECK(device.seen["cuGraphInstantiateWithFlags"] == 1);
  run(x.view, y.view, 0, 0);
  CHECK(device.seen["cuGraphLaunch"] == 1);
  CHECK(device.seen["cuLaunchKernel"] == 0);
  run(x.view, other.view, 0, 0), check_device_output(other);  // a recorded graph holds the addresses of its tensors
  CHECK(device.seen["cuLaunchKernel"] == 2);

  std::vector<int64_t> x_shape = mlp.x.shape, y_shape = mlp.y.shape;
  Values x_host = bytes_of(mlp.x), y_host(y_bytes);
  run(on_host(dtype, x_shape, x_host), other.view, x_bytes, 0), check_device_output(other);
  run(x.view, on_host(dtype, y_shape, y_host), 0, y_bytes), mlp.check_output(y_host);
  std::ranges::fill(y_host, std::byte{0});
  qcg_dltensor pinned = on_host(dtype, y_shape, y_host);
  pinned.device.device_type = 3;
  run(x.view, pinned, 0, y_bytes), mlp.check_output(y_host);

  // An address behind the beginning.
  Values later(64);
  later.resize(64 + x_bytes);
  std::ranges::copy(bytes_of(mlp.x), later.begin() + 64);
  DeviceTensor behind(device, dtype, mlp.x.shape, later);
  behind.view.byte_offset = 64;
  run(behind.view, y.view, 0, 0), check_device_output(y);
}

TEST_CASE("rows apart are used in place on the device, at addresses that are aligned to elements alone") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  for (const Isa isa : {Isa::sm_80, Isa::sm_90a}) {
    Mlp mlp(*tool, isa);
    ExecutedDevice& device = mlp.device;
    const qcodegen::Program program(mlp.path);
    for (const int64_t shift : {0, 1})
      for (const int64_t gap : {8, 3}) {
        INFO(isa_info(isa).name, " ", shift, " ", gap);
        qcodegen::Context context(program, 1);
        const qcg_dtype dtype = program.input(0).dtype;
        const auto apart = [&](const Tensor& t, bool filled) {
          const auto size = static_cast<int64_t>(dtype_bytes(t.dtype)), columns = t.shape[1];
          const int64_t step = columns + gap;
          Values bytes(static_cast<size_t>((shift + t.shape[0] * step) * size), std::byte{0x5a});
          for (int64_t row = 0; filled && row < t.shape[0]; ++row)
            std::memcpy(bytes.data() + (shift + row * step) * size, t.bytes().data() + row * columns * size,
                        static_cast<size_t>(columns * size));
          auto out = std::make_unique<DeviceTensor>(device, dtype, t.shape, bytes, std::vector<int64_t>{step, 1});
          out->view.byte_offset = static_cast<uint64_t>(shift * size);
          return out;
        };
        const auto x = apart(mlp.x, true), y = apart(mlp.y, false);
        device.copied_in = device.copied_out = 0;
        REQUIRE_NOTHROW(context.run({x->view}, {y->view}));
        CHECK(device.copied_in + device.copied_out == 0);
        const auto size = static_cast<int64_t>(dtype_bytes(mlp.y.dtype)), columns = mlp.y.shape[1];
        const int64_t rows = mlp.y.shape[0], step = columns + gap;
        const Values all = bytes_at(device, y->view, static_cast<size_t>((shift + rows * step) * size));
        Values dense;
        for (size_t i = 0; i < all.size(); ++i) {
          const int64_t at = static_cast<int64_t>(i) / size - shift;
          if (at >= 0 && at % step < columns) dense.push_back(all[i]);
          else CHECK(all[i] == std::byte{0x5a});
        }
        mlp.check_output(dense);
      }
  }
}

TEST_CASE("tensors that a device program cannot use are errors that name them") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  Mlp mlp(*tool);
  ExecutedDevice& device = mlp.device;
  const qcodegen::Program program(mlp.path);
  qcodegen::Context context(program, 1);
  const qcg_dtype dtype = program.input(0).dtype;
  const std::string input = std::string("input '") + program.input(0).name + "'",
                    output = std::string("output '") + program.output(0).name + "'";
  const Values twice(bytes_of(mlp.x).size() * 2), room(bytes_of(mlp.y).size());
  DeviceTensor x(device, dtype, mlp.x.shape, twice), y(device, dtype, mlp.y.shape, room);
  const int before = device.launches;
  const auto fails = [&](qcg_dltensor from, qcg_dltensor to, qcg_status status, const std::string& where,
                         const std::string& what) {
    const auto [code, text] = failure([&] { context.run({from}, {to}); });
    INFO(text);
    CHECK(code == status);
    CHECK(text.find(where) != std::string::npos);
    CHECK(text.find(what) != std::string::npos);
  };
  qcg_dltensor bad = x.view;
  bad.device.device_id = 1;
  fails(bad, y.view, QCG_ERROR_UNSUPPORTED, "inputs[0]", "is on device 1, the program runs on device 0");
  bad = y.view;
  bad.device.device_type = 10;
  fails(x.view, bad, QCG_ERROR_UNSUPPORTED, "outputs[0]", "is on DLPack device type 10, the program runs on");
  bad = x.view;
  bad.byte_offset = 1;
  fails(bad, y.view, QCG_ERROR_UNSUPPORTED, input, "no multiple of its element's 2 bytes");
  bad = y.view;
  bad.byte_offset = 1;
  fails(x.view, bad, QCG_ERROR_UNSUPPORTED, output, "no multiple of its element's 2 bytes");
  std::vector<int64_t> columns = {1, mlp.x.shape[0]};
  bad = x.view;
  bad.strides = columns.data();
  fails(bad, y.view, QCG_ERROR_UNSUPPORTED, input, "strides that kernels of this program do not use");
  bad = y.view;
  bad.data = nullptr;
  fails(x.view, bad, QCG_ERROR_BAD_INPUT, output, "has no data");
  bad = y.view;
  bad.data = static_cast<std::byte*>(x.view.data) + 16;
  fails(x.view, bad, QCG_ERROR_BAD_INPUT, output, "overlaps " + input);
  CHECK(device.launches == before);
  REQUIRE_NOTHROW(context.run({x.view}, {y.view}));
}

TEST_CASE("a value that sizes follow from is in host memory; the other tensors may be on the device") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  TempDir dir;
  spit(dir / "g.txt", R"(symbol n in [0, 8]
graph(%x: f32[3, 8], %n: i64[] = n) {
  %y = aten.slice.Tensor(%x, dim = 1, start = 0, end = n) : f32[3, n]
  %z = aten.add.Tensor(%y, %y) : f32[3, n]
  return %z
}
)");
  ExecutedProgram executed(*tool, dir / "g.txt");
  ExecutedDevice& device = executed.device;
  const qcodegen::Program program(executed.path);
  qcodegen::Context context(program, 1);
  std::vector<float> numbers(24);
  for (size_t i = 0; i < 24; ++i) numbers[i] = static_cast<float>(i);
  const auto* const begin = reinterpret_cast<const std::byte*>(numbers.data());
  const DeviceTensor x(device, program.input(0).dtype, {3, 8}, {begin, begin + 96}),
      y(device, program.input(0).dtype, {3, 2}, Values(24)), n(device, program.input(1).dtype, {}, Values(8));
  int64_t two = 2;
  qcg_dltensor value = {&two, {1, 0}, 0, program.input(1).dtype, nullptr, nullptr, 0};
  context.run({x.view, value}, {y.view});
  float got[6];
  std::memcpy(got, bytes_at(device, y.view, 24).data(), 24);
  for (size_t i = 0; i < 6; ++i) CHECK(got[i] == 2 * static_cast<float>(i / 2 * 8 + i % 2));
  const auto [code, text] = failure([&] { context.run({x.view, n.view}, {y.view}); });
  INFO(text);
  CHECK(code == QCG_ERROR_BAD_INPUT);
  CHECK(text.find("input 'n'") != std::string::npos);
  CHECK(text.find("is on a device, but sizes follow from its value n") != std::string::npos);
}

TEST_CASE("a run with tensors on the device copies no state, refuses the state's own memory and names positions") {
  const auto tool = cuda_compiler();
  if (!tool) return;
  ExecutedProgram executed(*tool, kPositions);
  ExecutedDevice& device = executed.device;
  const qcodegen::Program program(executed.path);
  qcodegen::Context context(program, 1);
  qcodegen::State state(program);
  DeviceExample example(device, program, kPositions + "/t0");
  std::vector<qcg_dltensor>&in = example.in, &out = example.out;
  context.run(state, in, out), example.check_outputs();
  state.reset();
  device.copied_in = device.copied_out = 0;
  context.run(state, in, out);
  CHECK(device.copied_in == 0);
  CHECK(device.copied_out <= 8 * 8);  // faults
  example.check_outputs();
  state.reset();
  const auto at = static_cast<size_t>(program.input_index("at"));
  std::vector<int64_t> positions = {1, 8};
  device.copy_in(reinterpret_cast<uint64_t>(in[at].data), positions.data(), 16);
  const auto [code, text] = failure([&] { context.run(state, in, out); });
  CHECK(code == QCG_ERROR_BAD_INPUT);
  CHECK(text.find("input 'at' is 8 at [1], which is out of range") != std::string::npos);
  state.reset();
  qcg_dltensor own = in[at];
  own.data = state.tensor("table").data;
  in[at] = own;
  const auto [refused, why] = failure([&] { context.run(state, in, out); });
  CHECK(refused == QCG_ERROR_BAD_INPUT);
  CHECK(why.find("overlaps the state of the run") != std::string::npos);
}
