#!/bin/sh
# The commit that `qcodegen --version` names: of a checkout, of an archive that git made, and of a bare copy.
#   version.sh SOURCE_DIR CMAKE
set -eu
source_dir=$1 cmake=$2
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }
# The commit that the build of DIR would know.
commit_of() {
  "$cmake" -DSOURCE="$1" -DOUTPUT="$tmp/commit.cpp" -P "$source_dir/cmake/commit.cmake"
  sed -n 's/^const char\* const kCommit = "\(.*\)";$/\1/p' "$tmp/commit.cpp"
}

mkdir -p "$tmp/copy/cmake"
cp "$source_dir/cmake/commit.txt" "$tmp/copy/cmake"
if head=$(git -C "$source_dir" rev-parse --short=12 HEAD 2>/dev/null) && [ -e "$source_dir/.git" ]; then
  [ -z "$(commit_of "$tmp/copy")" ] || fail "a bare copy knows the commit $(commit_of "$tmp/copy")"
  case $(commit_of "$source_dir") in "$head" | "$head-dirty") ;; *) fail "the checkout at $head is $(commit_of "$source_dir")" ;; esac
  mkdir "$tmp/archive"
  git -C "$source_dir" archive HEAD cmake/commit.txt | tar -x -C "$tmp/archive"
  [ "$(commit_of "$tmp/archive")" = "$head" ] || fail "the archive of $head is $(commit_of "$tmp/archive")"
else
  echo "these sources are no checkout: $(commit_of "$tmp/copy")"
fi
commit_of "$tmp/copy" >/dev/null
touch -d 2001-01-01 "$tmp/commit.cpp"
commit_of "$tmp/copy" >/dev/null
[ "$(stat -c %Y "$tmp/commit.cpp")" = "$(date -d 2001-01-01 +%s)" ] || fail "an unchanged commit makes the file newer"
