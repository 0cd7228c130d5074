#!/bin/sh
# Installs the runtime to a temporary prefix, builds the examples outside the tree against it with pkg-config and with
# find_package, and runs them on a small program made here.
#   run.sh SOURCE_DIR BUILD_DIR CMAKE CC CXX
set -eu
source_dir=$1 build_dir=$2 cmake=$3 cc=$4 cxx=$5
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

components='runtime dev'
# Where nvcc is installed.
[ ! -e "$build_dir/runtime/int4pack/libqcodegen_int4pack.so" ] || components="$components int4pack"
for component in $components; do
  "$cmake" --install "$build_dir" --component $component --prefix "$tmp/prefix" >/dev/null
done
library=$(find "$tmp/prefix" -name 'libqcodegen_runtime.so.*.*')
libdir=$(dirname "$library")

# The C API is all that is visible, and the whole is small.
nm -D --defined-only "$library" | awk '$3 !~ /^qcg_/ {print; bad = 1} END {exit bad}' || fail "other symbols are visible"
strip -o "$tmp/stripped.so" "$library"
size=$(stat -c %s "$tmp/stripped.so")
echo "stripped runtime: $size bytes"
[ "$size" -lt 1048576 ] || fail "the stripped runtime has $size bytes, more than 1 MiB"

# What it needs of a system is what the package and the guide say, beside the C library.
needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^libc\.so\|^libm\.so\|^ld-linux')
stated=$(sed -n 's/^set(qcodegen_RUNTIME_NEEDS \(.*\))/\1/p' "$(find "$tmp/prefix" -name qcodegen-config.cmake)")
for name in $needed; do
  case " $stated " in *" $name "*) ;; *) fail "the runtime needs $name, the package states: $stated" ;; esac
  grep -q "\`${name%%.so*}\`" "$source_dir/docs/guide.md" || fail "docs/guide.md does not say that the runtime needs $name"
done

# A program: y = x + [0, 1, 2, 3] with x [s0, 4].
program=$tmp/add.qcg
mkdir -p "$program/kernels"
"$cc" -O2 -shared -fPIC -I"$source_dir" "$source_dir/tests/install/kernel.c" -o "$program/kernels/add.so"
printf '\000\000\000\000\000\000\200\077\000\000\000\100\000\000\100\100' >"$program/weights.bin"
entry() { printf '"%s": {"bytes": %s, "sha256": "%s"}' "$1" "$(stat -c %s "$program/$1")" "$(sha256sum <"$program/$1" | cut -c1-64)"; }
cat >"$program/manifest.json" <<JSON
{"format": "qcodegen-program", "version": 1, "generator": "test", "kernel_abi": 1, "target": "cpu:portable", "isa": "portable",
 "files": {$(entry kernels/add.so), $(entry weights.bin)},
 "symbols": [{"name": "s0", "min": 0, "max": 100}],
 "inputs": [{"name": "x", "dtype": "f32", "shape": [[[1, 0]], 4]}], "outputs": [{"name": "y", "dtype": "f32", "shape": [[[1, 0]], 4]}],
 "buffers": [{"kind": "input", "index": 0}, {"kind": "weights", "offset": 0, "bytes": 16}, {"kind": "output", "index": 0}],
 "steps": [{"name": "add", "kernels": [{"m_max": -1, "module": "kernels/add.so", "symbol": "add_row"}], "params": [[[1, 0]], 4],
            "args": [{"buffer": 0, "offset": 0, "stride": null}, {"buffer": 1, "offset": 0, "stride": 0}, {"buffer": 2, "offset": 0, "stride": null}]}]}
JSON
(cd "$program" && sha256sum manifest.json >manifest.sha256)
expected='y [3, 4]: -1 0.125 1.25 2.375 -0.5 0.625 1.75 2.875'

check_run() {
  output=$("$@" "$program" 3) || fail "$* exits with $?"
  [ "$output" = "$expected" ] || fail "$* prints: $output"
  if "$@" "$tmp/nowhere" 2>"$tmp/error"; then fail "$* loads nothing"; fi
  grep -q nowhere "$tmp/error" || fail "$* does not say what is missing"
}

# With pkg-config, from another place: the package may be moved.
mv "$tmp/prefix" "$tmp/moved"
libdir=$tmp/moved${libdir#"$tmp/prefix"}
PKG_CONFIG_PATH=$libdir/pkgconfig
export PKG_CONFIG_PATH
flags=$(pkg-config --cflags --libs qcodegen)
# shellcheck disable=SC2086
"$cc" -std=c99 -Wall -Wextra -Werror "$source_dir/examples/c/run_program.c" $flags -Wl,-rpath,"$libdir" -o "$tmp/by_pkg_config"
check_run "$tmp/by_pkg_config"

# With find_package.
"$cmake" -G Ninja -S "$source_dir/tests/install/consumer" -B "$tmp/consumer" -DCMAKE_PREFIX_PATH="$tmp/moved" -DEXAMPLES="$source_dir/examples" \
  -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_CXX_FLAGS='-Wall -Wextra -Werror' >/dev/null
"$cmake" --build "$tmp/consumer" >/dev/null
check_run "$tmp/consumer/run_c"
check_run "$tmp/consumer/run_cpp"
case $components in *int4pack*)
  "$tmp/consumer/int4pack" | grep -qi null || fail "the installed int4pack does not refuse null" ;;
esac
echo "installed package works"
