# Sourced by scripts/demo and scripts/test: where things are and how many compilers may run at once.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(realpath -m "${QCG_BUILD_DIR:-$root/build}")
if ! mkdir -p "$build" 2>/dev/null || [[ ! -w $build ]]; then
  echo "error: $build is not writable; run as its owner or set QCG_BUILD_DIR to a directory that is" >&2
  exit 3
fi

# cc1plus needs up to 1.2 GB for the largest folders.
cores=$(nproc)
memory_gb=$(awk '/MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
jobs=$((memory_gb < 1 ? 1 : memory_gb < cores ? memory_gb : cores))

# ccache, where there is one, keeps its files in the build directory unless told otherwise.
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_DIR=${CCACHE_DIR:-$build/ccache}
fi

section() { printf '\n== %s\n' "$*"; }

# configure NAME FLAG...: a Ninja build in build/NAME; says nothing unless it fails.
configure() {
  local log=$build/$1.configure.log
  cmake -S "$root" -B "$build/$1" -G Ninja "${@:2}" >"$log" 2>&1 || { cat "$log" >&2; return 1; }
}
