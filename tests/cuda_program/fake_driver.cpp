// The entry points of libcuda.so.1 that runtime/cuda.cpp uses, under their versioned names.
#include "tests/cuda_program/fake_driver.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <vector>

namespace {
qcg::test::FakeDriver* g_driver = nullptr;  // the test's; nobody else loads this library
constexpr int kInvalid = 1, kNoDevice = 100, kNotFound = 500;
using Clock = std::chrono::steady_clock;
struct Launch {
  void* function;
  uint32_t grid[3];
  uint32_t threads, shared;
  std::vector<unsigned char> parameter;
};
using Recording = std::vector<Launch>;
Recording* g_recording = nullptr;

int launch(const Launch& l) {
  return g_driver->launch(l.function, {l.grid[0], l.grid[1], l.grid[2]}, l.threads, l.shared, l.parameter.data());
}

// The work of a stream that is_queue(): nothing of it is done before someone waits for it, directly or by an event.
struct Queue {
  std::deque<std::function<int()>> work;
  size_t done = 0;
};
std::map<void*, Queue> g_queues;

struct Event {
  Clock::time_point at;
  void* stream = nullptr;
  size_t behind = 0;  // so much of the stream's work
};

int do_work(void* stream, size_t until) {
  Queue& queue = g_queues[stream];
  int code = 0;
  while (code == 0 && queue.done < until && !queue.work.empty()) {
    const auto next = std::move(queue.work.front());
    queue.work.pop_front(), ++queue.done;
    code = next();
  }
  return code;
}
int do_all(void* stream) { return do_work(stream, SIZE_MAX); }

// Now, or when the stream has done what it has.
int put(void* stream, std::function<int()> work) {
  if (!g_driver->is_queue(stream)) return work();
  g_queues[stream].work.push_back(std::move(work));
  return 0;
}
}  // namespace

#define QCG_BEGIN \
  if (const int code = g_driver->begin(__func__)) return code

extern "C" {

void qcg_use_fake_driver(qcg::test::FakeDriver* driver) { g_driver = driver; }

int cuInit(unsigned) {
  if (!g_driver) return kNoDevice;
  QCG_BEGIN;
  return 0;
}
int cuDeviceGetCount(int* count) {
  QCG_BEGIN;
  *count = 1;
  return 0;
}
int cuDeviceGet(int* device, int) {
  QCG_BEGIN;
  *device = 0;
  return 0;
}
int cuDeviceGetName(char* name, int length, int) {
  QCG_BEGIN;
  std::strncpy(name, "executor of PTX", static_cast<size_t>(length));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  QCG_BEGIN;
  switch (attribute) {                    // CU_DEVICE_ATTRIBUTE_*
    case 13: return *value = 1000000, 0;  // clock in kHz
    case 16: return *value = 4, 0;        // multiprocessors
    case 38: return *value = 1 << 20, 0;  // bytes of L2
    case 75: return *value = g_driver->capability() / 10, 0;
    case 76: return *value = g_driver->capability() % 10, 0;
    case 97: return *value = g_driver->most_shared_bytes(), 0;
    default: return kInvalid;
  }
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  QCG_BEGIN;
  *context = g_driver;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxPushCurrent_v2(void*) { return 0; }
int cuCtxPopCurrent_v2(void**) { return 0; }
int cuModuleLoadData(void** module, const void* image) {
  QCG_BEGIN;
  return (*module = g_driver->load(image)) ? 0 : kInvalid;
}
int cuModuleUnload(void*) { return 0; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  QCG_BEGIN;
  return (*function = g_driver->function(module, name)) ? 0 : kNotFound;
}
int cuFuncSetAttribute(void*, int, int) {
  QCG_BEGIN;
  return 0;
}
int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  QCG_BEGIN;
  *address = g_driver->allocate(bytes);
  return 0;
}
int cuMemFree_v2(uint64_t address) {
  g_driver->free(address);
  return 0;
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t bytes) {
  QCG_BEGIN;
  return g_driver->copy_in(to, from, bytes);
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void* from, size_t bytes, void* stream) {
  QCG_BEGIN;
  const auto* const begin = static_cast<const unsigned char*>(from);
  return put(stream, [to, staged = std::vector<unsigned char>(begin, begin + bytes)] {
    return g_driver->copy_in(to, staged.data(), staged.size());
  });
}
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t bytes) {
  QCG_BEGIN;
  return g_driver->copy_out(to, from, bytes);
}
int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t bytes) {
  QCG_BEGIN;
  return g_driver->copy_within(to, from, bytes);
}
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes) {
  QCG_BEGIN;
  return g_driver->set(to, value, bytes);
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned, unsigned,
                   unsigned shared, void* stream, void** parameters, void**) {
  QCG_BEGIN;
  g_driver->on_stream(stream);
  if (!g_recording && !g_driver->is_queue(stream))
    return g_driver->launch(function, {gx, gy, gz}, bx, shared, parameters[0]);
  const auto* bytes = static_cast<const unsigned char*>(parameters[0]);
  Launch kept = {function, {gx, gy, gz}, bx, shared, {bytes, bytes + g_driver->parameter_bytes(function)}};
  if (!g_recording) return put(stream, [kept = std::move(kept)] { return launch(kept); });
  g_recording->push_back(std::move(kept));
  return 0;
}

// Launches while a stream is captured are kept, and made at each launch of the graph.
int cuStreamCreate(void** stream, unsigned) {
  QCG_BEGIN;
  *stream = new int;
  return 0;
}
int cuStreamDestroy_v2(void* stream) { return delete static_cast<int*>(stream), 0; }
int cuStreamSynchronize(void* stream) {
  QCG_BEGIN;
  g_driver->synchronize(stream);
  return do_all(stream);
}
int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  QCG_BEGIN;
  return put(stream, [e = *static_cast<Event*>(event)] { return do_work(e.stream, e.behind); });
}
int cuStreamBeginCapture_v2(void*, int) {
  QCG_BEGIN;
  return g_recording = new Recording, 0;
}
int cuStreamEndCapture(void*, void** graph) {
  *graph = g_recording;
  g_recording = nullptr;
  QCG_BEGIN;
  return 0;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  QCG_BEGIN;
  *executable = new Recording(*static_cast<Recording*>(graph));
  return 0;
}
int cuGraphDestroy(void* graph) { return delete static_cast<Recording*>(graph), 0; }
int cuGraphExecDestroy(void* executable) { return delete static_cast<Recording*>(executable), 0; }
int cuGraphLaunch(void* executable, void* stream) {
  QCG_BEGIN;
  g_driver->on_stream(stream);
  return put(stream, [launches = *static_cast<Recording*>(executable)] {
    for (const Launch& l : launches)
      if (const int code = launch(l)) return code;
    return 0;
  });
}
// Events have the time of the host.
int cuEventCreate(void** event, unsigned) {
  QCG_BEGIN;
  *event = new Event;
  return 0;
}
int cuEventDestroy_v2(void* event) { return delete static_cast<Event*>(event), 0; }
int cuEventRecord(void* event, void* stream) {
  QCG_BEGIN;
  const Queue& queue = g_queues[stream];
  *static_cast<Event*>(event) = {Clock::now(), stream, queue.done + queue.work.size()};
  return 0;
}
int cuEventSynchronize(void* event) {
  QCG_BEGIN;
  const Event e = *static_cast<Event*>(event);
  return do_work(e.stream, e.behind);
}
int cuEventElapsedTime(float* ms, void* from, void* to) {
  QCG_BEGIN;
  *ms = std::chrono::duration<float, std::milli>(static_cast<Event*>(to)->at - static_cast<Event*>(from)->at).count();
  return 0;
}
int cuGetErrorString(int, const char** text) {
  *text = "the executor's error";
  return 0;
}

}  // extern "C"
