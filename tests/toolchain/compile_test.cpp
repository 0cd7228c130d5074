// Toolchain and compile_all with the compilers of this machine: what is found, what is built, what is refused, and that
// nothing is left behind whatever happens.
#include "cache/toolchain/compile.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "../cache/cache_test_util.h"
#include "cache/toolchain/process.h"

using namespace qcg;
using namespace qcg::testing;

namespace {

const char kSource[] =
    "#include \"part.h\"\nextern \"C\" __attribute__((visibility(\"default\"))) int f(int x) { return x * PART; }\n";

std::vector<Toolchain> real_compilers() {
  std::vector<Toolchain> found;
  for (const char* name : {"g++", "clang++", "clang++-14"}) {
    auto toolchain = find_cxx({.cxx = name});
    if (toolchain.ok()) found.push_back(*toolchain);
  }
  return found;
}

void write_program(const std::string& path, const std::string& text) {
  write_text(path, text);
  REQUIRE(::chmod(path.c_str(), 0700) == 0);
}

// Calls f(7) of a shared object that was copied out for loading.
int call_f(const TestDir& dir, const std::string& bytes) {
  static int count = 0;
  const std::string path = dir.path() + "/load" + std::to_string(count++) + ".so";
  write_text(path, bytes);
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) FAIL(::dlerror());
  auto f = reinterpret_cast<int (*)(int)>(::dlsym(handle, "f"));
  REQUIRE((f != nullptr));
  int result = f(7);
  ::dlclose(handle);
  return result;
}

CompileResult compile(const Toolchain& toolchain, const CompileJob& job, CompileLimits limits) {
  auto results = compile_all(toolchain, {&job, 1}, limits);
  if (!results.ok()) FAIL(results.error().to_string());
  return std::move(results->at(0));
}

}  // namespace

TEST_CASE("a compiler is found, fingerprinted, and remembered") {
  auto cxx = find_cxx();
  REQUIRE_MESSAGE(cxx.ok(), (cxx.ok() ? "" : cxx.error().to_string()));
  CHECK(cxx->path[0] == '/');
  CHECK(cxx->major >= kMinGcc);
  CHECK(is_sha256_hex(cxx->fingerprint));
  CHECK(cxx->identity.find("as: ") != std::string::npos);
  CHECK(cxx->identity.find(": none") == std::string::npos);
  CHECK(find_cxx()->fingerprint == cxx->fingerprint);
  auto compilers = real_compilers();
  for (size_t i = 1; i < compilers.size(); ++i)
    if (compilers[i].kind != compilers[0].kind) CHECK(compilers[i].fingerprint != compilers[0].fingerprint);
}

TEST_CASE("the order is --cxx, QCG_CXX, PATH") {
  TestDir dir;
  auto fake = [&](const char* name, const char* version) {
    const std::string path = dir.path() + "/" + name;
    write_program(path, std::string("#!/bin/sh\ncase $1 in -v) echo '") + version + "';; *) echo none;; esac\n");
    return path;
  };
  const std::string a = fake("a", "gcc version 13.1.0 (fake)"), b = fake("b", "Debian clang version 15.0.7");
  const std::string gxx = fake("g++-12", "gcc version 12.9.9 (fake)");
  fake("g++", "gcc version 10.2.1 (old)");
  CHECK(find_cxx({.cxx = a, .env_cxx = b, .path = dir.path()})->version == "13.1.0");
  auto clang = find_cxx({.env_cxx = b, .path = dir.path()});
  REQUIRE(clang.ok());
  CHECK(clang->kind == ToolKind::clang);
  CHECK(clang->version == "15.0.7");
  auto on_path = find_cxx({.path = dir.path()});
  REQUIRE(on_path.ok());
  CHECK(on_path->path == gxx);  // the first g++ is too old
  auto old = find_cxx({.cxx = "g++", .path = dir.path()});
  REQUIRE(!old.ok());
  CHECK(old.error().code == ErrorCode::Toolchain);
  CHECK(old.error().message.find("10.2.1") != std::string::npos);
  CHECK(!find_cxx({.cxx = "no-such-compiler", .path = dir.path()}).ok());
  CHECK(!find_cxx({.cxx = "a;touch x", .path = dir.path()}).ok());
  const std::string not_a_compiler = fake("odd", "hello");
  CHECK(!find_cxx({.cxx = not_a_compiler, .path = dir.path()}).ok());
  TestDir empty;
  auto none = find_cxx({.path = empty.path()});
  REQUIRE(!none.ok());
  CHECK(none.error().help.find("apt-get install g++") != std::string::npos);
}

TEST_CASE("another driver with the same version has another fingerprint") {
  TestDir dir;
  const char text[] = "#!/bin/sh\ncase $1 in -v) echo 'gcc version 12.9.9';; *) echo none;; esac\n";
  write_program(dir.path() + "/one", text);
  write_program(dir.path() + "/two", std::string(text) + "#");
  auto one = find_cxx({.cxx = dir.path() + "/one"}), two = find_cxx({.cxx = dir.path() + "/two"});
  REQUIRE((one.ok() && two.ok()));
  CHECK(one->fingerprint != two->fingerprint);
}

TEST_CASE("a compiler that is upgraded under a process is identified again") {
  TestDir dir;
  const std::string path = dir.path() + "/g++", part = dir.path() + "/cc1plus";
  const auto install = [&](const std::string& file, const std::string& text) {
    write_program(file + ".new", text);  // as package managers do it
    files::rename(file + ".new", file);
  };
  const auto driver = [&](const std::string& version) {
    return "#!/bin/sh\ncase $1 in -v) echo 'gcc version " + version + "';; *cc1plus) echo " + part +
           ";; *) echo none;; esac\n";
  };
  install(part, "#!/bin/sh\n");
  install(path, driver("12.9.9"));
  const auto before = find_cxx({.cxx = path});
  REQUIRE(before.ok());
  CHECK(find_cxx({.cxx = path})->fingerprint == before->fingerprint);
  install(part, "#!/bin/sh\n# another\n");
  const auto other_part = find_cxx({.cxx = path});
  REQUIRE(other_part.ok());
  CHECK(other_part->fingerprint != before->fingerprint);
  install(path, driver("13.1.0"));
  const auto after = find_cxx({.cxx = path});
  REQUIRE(after.ok());
  CHECK(after->version == "13.1.0");
  files::remove(path);
  CHECK(!find_cxx({.cxx = path}).ok());
}

TEST_CASE("the libraries of clang are found in lib, lib64 and the folder of the machine") {
  for (const std::string folder : {"lib", "lib64", "lib/x86_64-linux-gnu"}) {
    CAPTURE(folder);
    TestDir dir;
    files::create_directories(dir.path() + "/bin");
    files::create_directories(dir.path() + "/" + folder);
    const std::string driver = dir.path() + "/bin/clang++", library = dir.path() + "/" + folder + "/libLLVM-15.so.1";
    write_program(driver, "#!/bin/sh\ncase $1 in -v) echo 'clang version 15.0.7';; *) echo none;; esac\n");
    write_text(library, "one");
    const auto one = find_cxx({.cxx = driver});
    REQUIRE(one.ok());
    CHECK(one->identity.find("library: " + files::canonical(library).string()) != std::string::npos);
    write_text(library + ".new", "other");
    files::rename(library + ".new", library);
    CHECK(find_cxx({.cxx = driver})->fingerprint != one->fingerprint);
  }
}

TEST_CASE("a shared object is built by each compiler, loads, and the same input gives the same bytes") {
  for (const auto& toolchain : real_compilers()) {
    CAPTURE(toolchain.path);
    TestDir dir;
    const std::string temp = dir.path() + "/temp";
    files::create_directory(temp);
    CompileJob job{.sources = {{"kernel.cpp", kSource}},
                   .headers = {{"part.h", "#define PART 6\n"}},
                   .flags = kernel_flags(toolchain)};
    CompileResult first = compile(toolchain, job, {.temp_root = temp});
    REQUIRE_MESSAGE(first.ok(), first.log);
    CHECK(first.log.empty());
    CHECK(first.seconds > 0);
    CHECK(first.max_rss_kb > 0);
    CHECK(call_f(dir, first.bytes) == 42);
    CHECK(compile(toolchain, job, {.temp_root = temp}).bytes == first.bytes);
    CHECK(count_files(temp) == 0);
    CHECK(first.bytes.find("GNU_UNIQUE") == std::string::npos);

    job.output = OutputKind::assembly;
    CompileResult assembly = compile(toolchain, job, {.temp_root = temp});
    CHECK(assembly.bytes.find(".globl\tf") != std::string::npos);
  }
}

TEST_CASE("several sources become one object, many jobs keep their order") {
  auto cxx = find_cxx();
  REQUIRE(cxx.ok());
  TestDir dir;
  CompileJob two{
      .sources =
          {{"a.cpp",
            "extern int g(int); extern \"C\" __attribute__((visibility(\"default\"))) int f(int x) { return g(x); }"},
           {"sub/b.cpp", "#include \"deep/er/h.h\"\nint g(int x) { return x + H; }"}},
      .headers = {{"deep/er/h.h", "#define H 100"}},
      .flags = kernel_flags(*cxx)};
  CHECK(call_f(dir, compile(*cxx, two, {}).bytes) == 107);

  std::vector<CompileJob> jobs;
  for (int n = 0; n < 6; ++n)
    jobs.push_back({.sources = {{"kernel.cpp", n == 3 ? "int broken = ;" : kSource}},
                    .headers = {{"part.h", "#define PART " + std::to_string(n)}},
                    .flags = kernel_flags(*cxx)});
  auto results = compile_all(*cxx, jobs, {.jobs = 3});
  REQUIRE(results.ok());
  for (int n = 0; n < 6; ++n) {
    const CompileResult& result = results->at(static_cast<size_t>(n));
    CHECK(result.ok() == (n != 3));
    if (n != 3) CHECK(call_f(dir, result.bytes) == 7 * n);
  }
  CHECK(results->at(3).exit_status == 1);
  CHECK(results->at(3).log.find("kernel.cpp:1:") != std::string::npos);
  CHECK(results->at(3).bytes.empty());
}

TEST_CASE("a library that is missing fails when it is built, not when it is loaded") {
  auto cxx = find_cxx();
  REQUIRE(cxx.ok());
  CompileJob job{.sources = {{"k.cpp",
                              "extern \"C\" int missing(); extern \"C\" __attribute__((visibility(\"default\"))) int "
                              "f() { return missing(); }"}},
                 .flags = kernel_flags(*cxx)};
  CompileResult result = compile(*cxx, job, {});
  CHECK(!result.ok());
  CHECK(result.log.find("missing") != std::string::npos);
}

TEST_CASE("no name and no flag reaches a shell or becomes an option") {
  for (const auto& toolchain : real_compilers()) {
    CAPTURE(toolchain.path);
    TestDir dir;
    const std::string temp = dir.path() + "/temp";
    files::create_directory(temp);
    for (const char* name : {"a;touch pwned;.cpp", "$(touch pwned).cpp", "`touch pwned`", "-fplugin=evil.cpp", "@pwned",
                             "a b 'c' \"d\".cpp", "x\ny.cpp", "-lfoo"}) {
      CAPTURE(name);
      CompileJob job{
          .sources = {{name, "extern \"C\" __attribute__((visibility(\"default\"))) int f(int x) { return x; }"}},
          .flags = kernel_flags(toolchain)};
      CompileResult result = compile(toolchain, job, {.temp_root = temp});
      CHECK_MESSAGE(result.ok(), result.log);
    }
    CompileJob job{.sources = {{"k.cpp",
                                "extern \"C\" __attribute__((visibility(\"default\"))) int f(int x) { return x; } "
                                "const char* s = TEXT;"}},
                   .flags = kernel_flags(toolchain)};
    job.flags.push_back("-DTEXT=\";$(touch pwned)`touch pwned`\"");
    CompileResult result = compile(toolchain, job, {.temp_root = temp});
    REQUIRE_MESSAGE(result.ok(), result.log);
    CHECK(result.bytes.find(";$(touch pwned)`touch pwned`") != std::string::npos);
    CHECK(count_files(temp) == 0);
    CHECK(!files::exists("pwned"));
  }
}

TEST_CASE("names that leave the directory and flags that lie are refused") {
  auto cxx = find_cxx();
  REQUIRE(cxx.ok());
  for (const char* name : {"", "../x.cpp", "/tmp/x.cpp", "a/../../x.cpp", ".", "a//b.cpp"}) {
    CAPTURE(name);
    CompileJob job{.sources = {{name, ""}}};
    CHECK(!compile_all(*cxx, {&job, 1}).ok());
  }
  for (const char* flag :
       {"-ffast-math", "-Ofast", "-march=native", "-mtune=native", "-funsafe-math-optimizations", "@file", "", "-o"}) {
    CAPTURE(flag);
    CompileJob job{.sources = {{"k.cpp", ""}}, .flags = {flag}};
    auto results = compile_all(*cxx, {&job, 1});
    REQUIRE(!results.ok());
    CHECK(results.error().code == ErrorCode::Toolchain);
  }
  CompileJob cuda{.language = Language::cuda, .sources = {{"k.cu", ""}}, .output = OutputKind::cubin};
  CHECK(!compile_all(*cxx, {&cuda, 1}).ok());
}

TEST_CASE("a compiler that hangs is killed with all it started") {
  TestDir dir;
  const std::string temp = dir.path() + "/temp";
  files::create_directory(temp);
  write_program(dir.path() + "/slow", "#!/bin/sh\necho started\nsleep 300 &\nsleep 300\n");
  Toolchain slow{.path = dir.path() + "/slow"};
  CompileJob job{.sources = {{"k.cpp", ""}}};
  auto start = std::chrono::steady_clock::now();
  CompileResult result = compile(slow, job, {.timeout_s = 0.5, .temp_root = temp});
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
  CHECK(result.timed_out);
  CHECK(!result.ok());
  CHECK(result.log == "started\n");
  CHECK(count_files(temp) == 0);

  // The real one, with a source whose constant takes for ever.
  auto cxx = find_cxx();
  REQUIRE(cxx.ok());
  CompileJob endless{
      .sources = {{"k.cpp",
                   "template <int D> struct T { static constexpr long v = T<D - 1>::v + T<D - 1>::v; };\n"
                   "template <> struct T<0> { static constexpr long v = 1; };\n"
                   "constexpr unsigned long f(unsigned long n) { return n < 2 ? n : f(n - 1) + f(n - 2); }\n"
                   "constexpr unsigned long g() { unsigned long s = 0; for (unsigned long i = 0; i < 1ul << 60; ++i) s "
                   "+= i; return s; }\n"
                   "constexpr unsigned long x = g();\n"}},
      .flags = {
          "-std=c++20",
          cxx->kind == ToolKind::gcc ? "-fconstexpr-ops-limit=9000000000000000000" : "-fconstexpr-steps=4294967295",
          cxx->kind == ToolKind::gcc ? "-fconstexpr-loop-limit=2147483647" : "-O0"}};
  result = compile(*cxx, endless, {.timeout_s = 1, .temp_root = temp});
  CHECK(result.timed_out);
  CHECK(count_files(temp) == 0);
}

TEST_CASE("a compiler that is late beside others is started once more, alone") {
  TestDir dir;
  // Is done in time only where no other one runs.
  write_program(dir.path() + "/shy", "#!/bin/sh\nmarks='" + dir.path() + R"('
touch $marks/mark.$$
sleep 1
for mark in $marks/mark.*; do
  [ $mark = $marks/mark.$$ ] || ! kill -0 ${mark##*.} 2>/dev/null || exec sleep 300
done
echo object > ../out
)");
  std::vector<CompileJob> jobs(2, CompileJob{.sources = {{"k.cpp", ""}}});
  auto results = compile_all({.path = dir.path() + "/shy"}, jobs, {.timeout_s = 5, .jobs = 2});
  REQUIRE(results.ok());
  int starts = 0;
  for (const auto& result : *results) {
    CHECK(result.ok());
    CHECK(result.bytes == "object\n");
    starts += result.starts;
  }
  CHECK(starts > 2);
}

TEST_CASE("a compiler that never ends is not given every job to lose time with, and is called late") {
  TestDir dir;
  const std::string starts = dir.path() + "/starts";
  write_program(dir.path() + "/slow++", "#!/bin/sh\necho start >> '" + starts + "'\nsleep 300\n");
  const Toolchain slow{.path = dir.path() + "/slow++"};
  std::vector<CompileJob> jobs(12, CompileJob{.sources = {{"k.cpp", ""}}});
  const CompileLimits limits{.timeout_s = 0.5, .jobs = 2};
  auto results = compile_all(slow, jobs, limits);
  REQUIRE(results.ok());
  for (const auto& result : *results) {
    CHECK(result.timed_out);
    CHECK(!result.ok());
  }
  CHECK(files::file_size(starts) <= 5 * std::string("start\n").size());  // two at once, perhaps one more, two alone
  CHECK(late_message(slow, limits) == "slow++ did not finish within 0.5 s");
}

TEST_CASE("a source that a compiler is always late with costs itself only") {
  TestDir dir;
  write_program(dir.path() + "/picky", "#!/bin/sh\ngrep -q slow k.cpp && exec sleep 300\necho object > ../out\n");
  std::vector<CompileJob> jobs(6, CompileJob{.sources = {{"k.cpp", ""}}});
  for (const size_t slow : {0, 1, 4}) jobs[slow].sources[0].text = "slow";
  for (const int at_once : {1, 2}) {
    auto results = compile_all({.path = dir.path() + "/picky"}, jobs, {.timeout_s = 3, .jobs = at_once});
    REQUIRE(results.ok());
    for (size_t i = 0; i < jobs.size(); ++i) {
      CAPTURE(i);
      CHECK(results->at(i).timed_out == !jobs[i].sources[0].text.empty());
      CHECK(results->at(i).ok() == jobs[i].sources[0].text.empty());
    }
  }
}

TEST_CASE("a compiler that stops itself, or leaves a pipe where its output should be, does not hold us up") {
  TestDir dir;
  CompileJob job{.sources = {{"k.cpp", ""}}};
  write_program(dir.path() + "/stopped", "#!/bin/sh\nkill -STOP $$\n");
  CHECK(compile({.path = dir.path() + "/stopped"}, job, {.timeout_s = 0.5}).timed_out);
  write_program(dir.path() + "/piper", "#!/bin/sh\nmkfifo ../out\n");
  CompileResult piped = compile({.path = dir.path() + "/piper"}, job, {.timeout_s = 20});
  CHECK(!piped.ok());
  CHECK(!piped.timed_out);
  // Parts of a toolchain are read to know it.
  for (const char* folder : {"/bin", "/lib"}) files::create_directory(dir.path() + folder);
  write_program(dir.path() + "/bin/clang++",
                "#!/bin/sh\ncase $1 in -v) echo 'clang version 15.0.7';; *) echo none;; esac\n");
  REQUIRE(::mkfifo((dir.path() + "/lib/libLLVM-15.so").c_str(), 0600) == 0);
  auto clang = find_cxx({.cxx = dir.path() + "/bin/clang++"});
  REQUIRE(clang.ok());
  CHECK(clang->kind == ToolKind::clang);
  REQUIRE(::mkfifo((dir.path() + "/pipe++").c_str(), 0700) == 0);
  CHECK(!find_cxx({.cxx = dir.path() + "/pipe++"}).ok());
}

TEST_CASE("a compile can be cancelled from another thread") {
  TestDir dir;
  write_program(dir.path() + "/slow", "#!/bin/sh\nsleep 300\n");
  Toolchain slow{.path = dir.path() + "/slow"};
  std::vector<CompileJob> jobs(4, CompileJob{.sources = {{"k.cpp", ""}}});
  std::atomic<bool> cancel{false};
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    cancel = true;
  });
  const std::string temp = dir.path() + "/temp";
  files::create_directory(temp);
  auto results = compile_all(slow, jobs, {.timeout_s = 100, .jobs = 2, .temp_root = temp, .cancel = &cancel});
  later.join();
  REQUIRE(results.ok());
  for (const auto& result : *results) CHECK(result.cancelled);
  CHECK(count_files(temp) == 0);
}

TEST_CASE("after Ctrl-C or a kill the compiler and what it started are gone, and the next compile cleans up") {
  for (int signal : {SIGINT, SIGKILL}) {
    CAPTURE(signal);
    TestDir dir;
    const std::string temp = dir.path() + "/temp", pid_file = dir.path() + "/pid";
    files::create_directory(temp);
    // The driver starts the compiler proper.
    write_program(dir.path() + "/slow", "#!/bin/sh\nsleep 300 &\necho $$ $! > '" + pid_file + ".new'\nmv '" + pid_file +
                                            ".new' '" + pid_file + "'\nwait\n");
    CompileJob job{.sources = {{"k.cpp", ""}}};
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
      ::signal(SIGINT, SIG_DFL);
      (void)compile_all({.path = dir.path() + "/slow"}, {&job, 1}, {.temp_root = temp});
      ::_exit(0);
    }
    auto wait_for = [](auto done) {
      for (int i = 0; i < 2000 && !done(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return done();
    };
    REQUIRE(wait_for([&] { return !read_text(pid_file).empty(); }));
    std::istringstream pids(read_text(pid_file));
    pid_t driver = 0, compiler = 0;
    pids >> driver >> compiler;
    REQUIRE(compiler > 0);
    ::kill(pid, signal);
    ::waitpid(pid, nullptr, 0);
    for (const pid_t gone : {driver, compiler})
      CHECK(wait_for([&] {
        return ::kill(gone, 0) != 0 ||
               read_text("/proc/" + std::to_string(gone) + "/stat").find(") Z") != std::string::npos;
      }));
    CHECK(count_files(temp) == 2);
    write_program(dir.path() + "/quick", "#!/bin/sh\nexit 1\n");
    REQUIRE(compile_all({.path = dir.path() + "/quick"}, {&job, 1}, {.temp_root = temp}).ok());
    CHECK(count_files(temp) == 0);
  }
}

TEST_CASE("a compiler may not eat all memory") {
  TestDir dir;
  auto cxx = find_cxx();
  REQUIRE(cxx.ok());
  CompileJob job{.sources = {{"k.cpp", "#include <algorithm>\n#include <map>\n#include <string>\nint x;\n"}},
                 .flags = {"-std=c++20"}};
  CompileResult result = compile(*cxx, job, {.memory_mb = 40});
  CHECK(!result.ok());
  CHECK(!result.timed_out);
  CHECK(compile(*cxx, job, {}).ok());
}

TEST_CASE("a compiler that cannot be started is an error, one that fails oddly a result") {
  TestDir dir;
  CompileJob job{.sources = {{"k.cpp", ""}}};
  Toolchain none{.path = dir.path() + "/none"};
  auto results = compile_all(none, {&job, 1});
  REQUIRE(!results.ok());
  CHECK(results.error().code == ErrorCode::Toolchain);
  CHECK(!compile_all(none, {&job, 1}, {.temp_root = dir.path() + "/none"}).ok());

  write_program(dir.path() + "/silent", "#!/bin/sh\nexit 0\n");
  CHECK(!compile({.path = dir.path() + "/silent"}, job, {}).ok());  // no output file
  write_program(dir.path() + "/crash", "#!/bin/sh\nkill -SEGV $$\n");
  CompileResult crash = compile({.path = dir.path() + "/crash"}, job, {});
  CHECK(crash.exit_status == 128 + SIGSEGV);
  write_program(dir.path() + "/chatty", "#!/bin/sh\nyes | head -c 5000000\nexit 3\n");
  CompileResult chatty = compile({.path = dir.path() + "/chatty"}, job, {});
  CHECK(chatty.exit_status == 3);
  CHECK(chatty.log.size() == size_t{1} << 20);
  write_program(dir.path() + "/link", "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\nln -s /etc/passwd \"$2\"\n");
  CHECK(!compile_all({.path = dir.path() + "/link"}, {&job, 1}).ok());
}

TEST_CASE("a compiler sees nothing of our environment, standard input or descriptors") {
  TestDir dir;
  write_program(dir.path() + "/env",
                "#!/bin/sh\nenv | sort; read x && echo input; ls /proc/self/fd | wc -l; ulimit -c; exit 1\n");
  ::setenv("QCG_SECRET", "1", 1);
  ::setenv("CPATH", "/evil", 1);
  CompileJob job{.sources = {{"k.cpp", ""}}};
  const std::string log = compile({.path = dir.path() + "/env"}, job, {}).log;
  ::unsetenv("QCG_SECRET");
  ::unsetenv("CPATH");
  CHECK(log.find("QCG_SECRET") == std::string::npos);
  CHECK(log.find("CPATH") == std::string::npos);
  CHECK(log.find("LANG=C\n") != std::string::npos);
  CHECK(log.find("TMPDIR=") != std::string::npos);
  CHECK(log.find("input") == std::string::npos);
  CHECK_MESSAGE(log.ends_with("4\n0\n"), log);  // 0, 1, 2 and the directory that ls reads
}

TEST_CASE("the number of jobs is bounded by cores and memory") {
  CHECK(parallel_jobs({.jobs = 3}) == 3);
  CHECK(parallel_jobs({}) >= 1);
  CHECK(parallel_jobs({.jobs = 64, .need_mb = 1 << 30}) == 1);
}

TEST_CASE("children: forked bodies are limited like programs") {
  auto result = run_process({.timeout_s = 20, .body = [] { return ::write(1, "hello\n", 6) == 6 ? 7 : 8; }});
  REQUIRE(result.ok());
  CHECK(result->exit_status == 7);
  CHECK(result->output == "hello\n");
  result = run_process({.timeout_s = 0.2, .body = [] {
                          for (;;) ::pause();
                          return 0;
                        }});
  REQUIRE(result.ok());
  CHECK(result->timed_out);
  CHECK(result->signal == SIGKILL);
  result = run_process({.timeout_s = 20, .body = [] { return ::raise(SIGKILL); }});
  CHECK(result->signal == SIGKILL);
  CHECK(!result->timed_out);
}
