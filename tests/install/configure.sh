#!/bin/sh
# Configures the project in the ways that users do, builds the runtime alone, installs what is built, and links the static
# runtime.
#   configure.sh SOURCE_DIR BUILD_DIR CMAKE CC CXX
set -eu
source_dir=$1 build_dir=$2 cmake=$3 cc=$4 cxx=$5
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
quietly() { "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; fail "$*"; }; }
# without PACKAGE…: find_package() fails for these.
without() { for package; do printf ' -DCMAKE_DISABLE_FIND_PACKAGE_%s=ON' "$package"; done; }
cached() { sed -n "s/^$2:[A-Z]*=//p" "$tmp/$1/CMakeCache.txt"; }
configure() {
  tree=$1
  shift
  # shellcheck disable=SC2086
  quietly "$cmake" -G Ninja -B "$tmp/$tree" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" "$@"
}
installed() { find "$tmp/$1" ! -type d 2>/dev/null; }

# The preset needs what scripts/setup installs, and nothing that only tests need.
cd "$source_dir"
# shellcheck disable=SC2046
configure preset --preset release $(without doctest benchmark)
[ "$(cached preset CMAKE_BUILD_TYPE)" = Release ] || fail "the preset release is no Release"
# Of a tree where nothing was built nothing is installed, unless it was asked for by name.
quietly "$cmake" --install "$tmp/preset" --prefix "$tmp/nothing"
grep -q 'Left out, not built: qcodegen$' "$tmp/log" || fail "an install of nothing does not say so"
[ -z "$(installed nothing)" ] || fail "an install of nothing left $(installed nothing)"
for component in runtime dev cli; do
  if "$cmake" --install "$tmp/preset" --prefix "$tmp/nothing" --component $component >"$tmp/log" 2>&1; then
    fail "component $component was installed unbuilt"
  fi
  grep -q 'qcodegen.* was not built' "$tmp/log" || fail "component $component: what has to be built is not named"
done

# The runtime alone, with tests, without what only the compiler needs.
# shellcheck disable=SC2046
configure runtime -S "$source_dir" -DQCG_RUNTIME_ONLY=ON -DQCG_STATIC_RUNTIME=ON $(without CLI11 fmt libzip)
[ "$(cached runtime CMAKE_BUILD_TYPE)" = Release ] || fail "a tree without a build type is no Release"
(cd "$tmp/runtime" && ctest -N) | grep -q ': runtime$' || fail "the runtime alone has no tests"
quietly "$cmake" --build "$tmp/runtime" --target qcodegen_runtime qcodegen_runtime_static
quietly "$cmake" --install "$tmp/runtime" --prefix "$tmp/prefix"
for file in include/qcodegen.h include/qcodegen.hpp 'lib*/libqcodegen_runtime.a' 'lib*/libqcodegen_runtime.so'; do
  [ -n "$(find "$tmp/prefix" -path "*/$file")" ] || fail "$file was not installed: $(installed prefix)"
done
[ ! -d "$tmp/prefix/bin" ] || fail "the runtime alone installs programs"

# Programs with the static runtime need no library of ours; those in C no C++ compiler.
for with_cxx in ON OFF; do
  configure consumer_$with_cxx -S "$source_dir/tests/install/consumer" -DCMAKE_PREFIX_PATH="$tmp/prefix" \
    -DEXAMPLES="$source_dir/examples" -DRUNTIME=qcodegen::runtime_static -DWITH_CXX=$with_cxx
  quietly "$cmake" --build "$tmp/consumer_$with_cxx"
done
for program in consumer_OFF/run_c consumer_ON/run_c consumer_ON/run_cpp; do
  if readelf -d "$tmp/$program" | grep -q qcodegen; then fail "$program loads the shared runtime"; fi
  if "$tmp/$program" "$tmp/nowhere" 2>"$tmp/log"; then fail "$program loads nothing"; fi
  grep -q nowhere "$tmp/log" || fail "$program does not say what is missing"
done

# As a folder of another project it is the runtime, and changes nothing there. A project may also fetch an archive of it.
tar -C "$source_dir" -czf "$tmp/sources.tar.gz" --exclude='./build*' --exclude=./.git --exclude=./tests .
for way in add_subdirectory FetchContent; do
  # shellcheck disable=SC2046
  configure $way -S "$source_dir/tests/install/embedder" -DWAY=$way -DQCODEGEN="$source_dir" \
    -DARCHIVE="$tmp/sources.tar.gz" -DEXAMPLES="$source_dir/examples" $(without doctest CLI11 fmt libzip)
done
quietly "$cmake" --build "$tmp/FetchContent"
if "$tmp/FetchContent/run_cpp" "$tmp/nowhere" 2>"$tmp/log"; then fail "the fetched runtime loads nothing"; fi
grep -q nowhere "$tmp/log" || fail "the fetched runtime does not say what is missing"

# Of the whole build: the programs, where there are any.
if [ -x "$build_dir/cli/qcodegen" ]; then
  quietly "$cmake" --install "$build_dir" --component cli --prefix "$tmp/cli"
  "$tmp/cli/bin/qcodegen" --version >/dev/null || fail "the installed qcodegen does not run"
  [ -f "$tmp/cli/share/qcodegen/schemas/compile.json" ] || fail "the schemas were not installed: $(installed cli)"
  [ -z "$(find "$tmp/cli" -name 'libqcodegen_runtime*')" ] || fail "component cli holds the runtime"
fi
echo "configured, built and installed in every way"
