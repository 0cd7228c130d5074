#include "runtime/module.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/runtime/sample_program.h"

using namespace qcg;

namespace {

int count_descriptors() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) count += !entry.path().empty();
  return count;
}

}  // namespace

// glibc's dlopen gives back a library it has already loaded for a path it has seen: a descriptor number that is used
// again, or a file that was built again, would silently run the old code.
TEST_CASE("every load is a module of its own") {
  const std::string bytes = read_file(QCG_TEST_KERNELS);
  auto first = Module::load_bytes(bytes, "first");
  auto second = Module::load_bytes(bytes, "second");
  auto by_path = Module::load_unverified(QCG_TEST_KERNELS);
  auto again = Module::load_unverified(QCG_TEST_KERNELS);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  REQUIRE(by_path.ok());
  REQUIRE(again.ok());
  const qcg_kernel* const kernels[] = {*first->find_kernel("test_double"), *second->find_kernel("test_double"),
                                       *by_path->find_kernel("test_double"), *again->find_kernel("test_double")};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < i; ++j) CHECK(kernels[i] != kernels[j]);
}

TEST_CASE("a memory file may be given by its descriptor, and the number used again") {
  const std::string bytes = read_file(QCG_TEST_KERNELS);
  std::vector<Module> modules;
  std::vector<const qcg_kernel*> kernels;
  for (int i = 0; i < 3; ++i) {
    const int fd = memfd_create("test", MFD_CLOEXEC);
    REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    auto module = Module::load_unverified("/proc/self/fd/" + std::to_string(fd));
    close(fd);
    REQUIRE(module.ok());
    kernels.push_back(*module->find_kernel("test_double"));
    modules.push_back(std::move(*module));
  }
  CHECK(kernels[0] != kernels[1]);
  CHECK(kernels[1] != kernels[2]);
}

TEST_CASE("loading keeps no descriptor open, and failures say what failed") {
  const int before = count_descriptors();
  {
    const auto module = Module::load_bytes(read_file(QCG_TEST_KERNELS), "kernel");
    REQUIRE(module.ok());
    CHECK(count_descriptors() == before);
    CHECK(!module->find_kernel("nothing").ok());
    CHECK(!module->find_kernel("test_incomplete").ok());
  }
  const auto broken = Module::load_bytes("not a library", "my_kernel");
  REQUIRE(!broken.ok());
  CHECK(broken.error().where == "my_kernel");
  CHECK(!Module::load_bytes("", "empty").ok());
  CHECK(!Module::load_unverified("/nowhere/k.so").ok());
  CHECK(count_descriptors() == before);
}
