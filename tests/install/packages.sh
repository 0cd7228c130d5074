#!/bin/sh
# The Debian packages of this build: their names, what they depend on, what is in them. With a third argument they are
# installed and used in a clean Debian.
#   packages.sh BUILD_DIR CPACK [SOURCE_DIR]      exit status 77: something that this needs is missing
set -eu
build_dir=$1 cpack=$2 source_dir=${3:-}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
skip() { echo "skipped: $*"; exit 77; }
for tool in dpkg-deb dpkg-shlibdeps; do
  command -v $tool >/dev/null || skip "$tool is missing (apt-get install dpkg-dev)"
done
for built in cli/qcodegen cli/qcodegen.1 runtime/libqcodegen_runtime.so; do
  [ -e "$build_dir/$built" ] || skip "$built is not built"
done

(cd "$build_dir" && "$cpack" -G DEB -B "$tmp/packages" >"$tmp/log" 2>&1) || { cat "$tmp/log" >&2; fail cpack; }
rm -rf "$tmp/packages/_CPack_Packages"
packages='qcodegen libqcodegen-runtime0 libqcodegen-dev'
# Where nvcc is installed there is a fourth.
[ ! -e "$build_dir/runtime/int4pack/libqcodegen_int4pack.so" ] || packages="$packages libqcodegen-int4pack0"
for package in $packages; do
  file=$(find "$tmp/packages" -name "${package}_*.deb")
  [ -f "$file" ] || fail "there is no package $package: $(ls "$tmp/packages")"
  mkdir -p "$tmp/$package"
  dpkg-deb -x "$file" "$tmp/$package"
  dpkg-deb -f "$file" Depends >"$tmp/$package.depends"
  echo "$package: $(du -k "$file" | cut -f1) kB, depends on $(cat "$tmp/$package.depends")"
  [ -f "$tmp/$package/usr/share/doc/$package/copyright" ] || fail "$package has no copyright"
done
[ "$(find "$tmp/packages" -name '*.deb' | wc -l)" = "$(echo "$packages" | wc -w)" ] || fail "other packages were made: $(ls "$tmp/packages")"

needs() { grep -q "$2" "$tmp/$1.depends" || fail "$1 does not depend on $2"; }
needs qcodegen 'g++ .*| clang '
needs qcodegen 'libfmt'
needs qcodegen 'libzip'
needs libqcodegen-runtime0 'libssl'
needs libqcodegen-dev 'libqcodegen-runtime0 (= '
if grep -q 'libfmt\|libzip\|g++' "$tmp/libqcodegen-runtime0.depends"; then fail "the runtime depends on what it does not need"; fi

holds() { [ -n "$(find "$tmp/$1" -path "$tmp/$1/usr/$2")" ] || fail "$1 has no $2"; }
for file in bin/qcodegen share/man/man1/qcodegen.1 share/bash-completion/completions/qcodegen \
  share/zsh/vendor-completions/_qcodegen share/fish/vendor_completions.d/qcodegen.fish share/qcodegen/schemas/compile.json; do
  holds qcodegen "$file"
done
holds libqcodegen-runtime0 'lib*/libqcodegen_runtime.so.0'
for file in 'lib*/libqcodegen_runtime.so' include/qcodegen.h include/qcodegen.hpp 'lib*/pkgconfig/qcodegen.pc' \
  'lib*/cmake/qcodegen/qcodegen-config.cmake'; do
  holds libqcodegen-dev "$file"
done
if [ -d "$tmp/libqcodegen-int4pack0" ]; then
  for file in 'lib*/libqcodegen_int4pack.so.0' include/qcg_int4pack.h 'lib*/cmake/qcodegen/qcodegen_int4pack_targets.cmake'; do
    holds libqcodegen-int4pack0 "$file"
  done
fi
if readelf -S "$tmp/qcodegen/usr/bin/qcodegen" | grep -q '\.symtab'; then fail "qcodegen is not stripped"; fi
"$tmp/qcodegen/usr/bin/qcodegen" --version >/dev/null || fail "the packaged qcodegen does not run"
[ -n "$source_dir" ] || { echo "the packages are as they should be"; exit 0; }

# A clean Debian: compile there, build a program against the library, and run it where only the runtime is left.
[ "$(id -u)" = 0 ] || skip "only root may chroot"
command -v debootstrap >/dev/null || skip "debootstrap is missing (apt-get install debootstrap)"
root=$tmp/root
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
# Programs look at themselves in /proc.
trap 'umount "$root/proc" 2>/dev/null; rm -rf --one-file-system "$tmp"' EXIT
debootstrap --variant=minbase "$release" "$root" >"$tmp/log" 2>&1 || { tail -5 "$tmp/log"; skip "debootstrap fails here"; }
mount -t proc proc "$root/proc" 2>/dev/null || skip "/proc cannot be mounted here"
cp "$tmp"/packages/*.deb "$root/root"
cp /etc/resolv.conf "$root/etc/resolv.conf"
cp -r "$source_dir/examples" "$root/root/examples"
inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/bin:/usr/sbin:/bin:/sbin DEBIAN_FRONTEND=noninteractive sh -euc "cd /root; $1" >"$tmp/log" 2>&1 || { tail -30 "$tmp/log" >&2; fail "in the chroot: $1"; }; }
inside 'apt-get update'
inside 'apt-get install -y --no-install-recommends ./*.deb'
inside 'qcodegen doctor'
inside 'qcodegen compile examples/llama_mlp_int8/graph.pt2 --tune=off -o mlp.qcg'
inside 'qcodegen check mlp.qcg --inputs examples/llama_mlp_int8/m5.inputs.safetensors --expected examples/llama_mlp_int8/m5.expected.safetensors'
inside 'c++ -std=c++17 examples/cpp/run_program.cpp -lqcodegen_runtime -o run_program && ./run_program mlp.qcg 4'
inside 'apt-get purge -y --autoremove qcodegen libqcodegen-dev && apt-get install -y libqcodegen-runtime0 && apt-get autoremove -y'
inside '! command -v g++ && ! command -v qcodegen && ./run_program mlp.qcg 4'
echo "installed and used in a clean $release"
