// Store::export_to and import_from: all entries in one file. Precompiled headers are left out: they are many times
// larger than everything else, and are made again within seconds.
//
//   qcg-cache 1
//   entry 412          length of the following manifest; after it, the bytes of its files in the manifest's order
//   …
//   end 3 9f…          number of entries, SHA-256 of everything before this line
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/output_file.h"
#include "cache/store/store_state.h"

namespace qcg {

namespace {

constexpr std::string_view kArchiveLine = "qcg-cache 1\n";

class ArchiveWriter {
 public:
  ArchiveWriter(FileSystem& fs, int fd) : fs_(fs), fd_(fd) {}
  int put(std::string_view bytes) {
    hash_.update(bytes);
    return fs_.write_all(fd_, bytes);
  }
  int finish(uint64_t entries) {
    return fs_.write_all(fd_, "end " + std::to_string(entries) + " " + hash_.finish() + "\n");
  }

 private:
  FileSystem& fs_;
  int fd_;
  Sha256 hash_;
};

class ArchiveReader {
 public:
  ArchiveReader(FileSystem& fs, int fd) : fs_(fs), fd_(fd), buffer_(1 << 18) {}

  // Reads up to and including the newline; nullopt if there is none within `limit` bytes.
  std::optional<std::string> line(size_t limit) {
    std::string text;
    while (text.size() < limit) {
      if (begin_ == end_ && !fill()) return std::nullopt;
      text += buffer_[begin_++];
      if (text.back() == '\n') return text;
    }
    return std::nullopt;
  }

  // Passes the next `size` bytes to `sink` in pieces; false if the file ends early or `sink` fails.
  template <class Sink>
  bool bytes(uint64_t size, Sink sink) {
    while (size) {
      if (begin_ == end_ && !fill()) return false;
      size_t n = std::min<uint64_t>(size, end_ - begin_);
      std::string_view piece(buffer_.data() + begin_, n);
      hash_.update(piece);
      if (!sink(piece)) return false;
      begin_ += n;
      size -= n;
    }
    return true;
  }

  void count(std::string_view text) { hash_.update(text); }
  std::string digest() { return hash_.finish(); }
  bool at_end() { return begin_ == end_ && !fill(); }

 private:
  bool fill() {
    ssize_t n = fs_.read(fd_, buffer_.data(), buffer_.size());
    begin_ = 0;
    end_ = n > 0 ? static_cast<size_t>(n) : 0;
    return n > 0;
  }

  FileSystem& fs_;
  int fd_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  Sha256 hash_;
};

Error damaged(const std::string& file, const std::string& what) {
  return Error::bad_input(file, "not a whole cache export: " + what, "export it again with `qcodegen cache export`");
}

// Unpacks the files of one entry into `scratch` and checks them against its manifest.
Status unpack(ArchiveReader& in, const std::string& file, const Manifest& manifest, const std::string& scratch,
              FileSystem& fs, std::vector<EntryFile>& files, std::string& key_dump) {
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const FileRecord& record = manifest.files[i];
    const std::string path = scratch + "/" + std::to_string(i);
    OwnedFd out(fs.open_at(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!out) return io_error(path, "cannot be made", errno);
    Sha256 hash;
    int error = 0;
    const bool is_dump = record.name == kKeyDumpName;
    bool whole = in.bytes(record.size, [&](std::string_view piece) {
      hash.update(piece);
      if (is_dump) key_dump += piece;
      return (error = fs.write_all(out.get(), piece)) == 0;
    });
    if (error) return io_error(path, "cannot be written", error);
    if (!whole) return damaged(file, "it ends inside " + record.name);
    if (hash.finish() != record.sha256) return damaged(file, record.name + " does not match its SHA-256");
    if (!is_dump) files.push_back({record.name, {}, record.mode, path});
  }
  return {};
}

// A new file beside `path`, whose name `part` becomes. Several exports may write to one path at a time.
OwnedFd make_part(FileSystem& fs, const std::string& path, std::string& part) {
  constexpr int kAttempts = 100;  // processes of several machines may have one number
  for (int i = 0;; ++i) {
    part = temporary_name(path);
    OwnedFd out(fs.open_at(AT_FDCWD, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (out || errno != EEXIST || i == kAttempts) return out;
  }
}

}  // namespace

Status Store::export_to(const std::string& file) {
  QCG_TRY(entries, state_->scan());
  FileSystem& fs = *state_->fs;
  const OutputFile target = resolve_output(file);
  std::string part = target.path;
  OwnedFd out = target.in_place ? OwnedFd(fs.open_at(AT_FDCWD, part, O_WRONLY | O_CLOEXEC | O_TRUNC, 0600))
                                : make_part(fs, target.path, part);
  if (!out) return io_error(file, "cannot be made", errno);
  ArchiveWriter writer(fs, out.get());
  auto write_all = [&]() -> Status {
    uint64_t written = 0;
    int error = writer.put(kArchiveLine);
    for (const auto& info : entries) {
      if (info.title.starts_with(kPchTitle)) continue;
      Loaded loaded = state_->load(info.key, state_->entry_dir(info.key));
      if (loaded.outcome != Loaded::found) continue;  // damaged entries are not exported
      const std::string manifest = print_manifest({info.key, loaded.entry->files()});
      if (!error) error = writer.put("entry " + std::to_string(manifest.size()) + "\n");
      if (!error) error = writer.put(manifest);
      if (error) break;
      for (const auto& record : loaded.entry->files()) {
        Status copied =
            loaded.entry->stream(record.name, [&](std::string_view piece) { return error = writer.put(piece); });
        if (error) break;
        QCG_CHECK(std::move(copied));
      }
      ++written;
    }
    if (!error) error = writer.finish(written);
    if (!error && !target.in_place && fs.fsync(out.get())) error = errno;
    if (!error && !target.in_place && fs.rename(part, target.path)) error = errno;
    return error ? Status(io_error(file, "cannot be written", error)) : Status();
  };
  Status status = write_all();
  if (!status.ok() && !target.in_place) ::unlink(part.c_str());
  return status;
}

Result<uint64_t> Store::import_from(const std::string& file) {
  FileSystem& fs = *state_->fs;
  if (!state_->usable || state_->read_only)
    return Error::io(dir(), "the cache is read-only or disabled", "choose another with QCG_CACHE_DIR");
  OwnedFd fd(fs.open_at(AT_FDCWD, file, O_RDONLY | O_CLOEXEC));
  if (!fd) return io_error(file, "cannot be opened", errno);
  ArchiveReader in(fs, fd.get());
  auto line = in.line(64);
  if (!line || *line != kArchiveLine) return damaged(file, "its first line is not 'qcg-cache 1'");
  in.count(*line);
  for (uint64_t added = 0;; ++added) {
    line = in.line(128);
    if (!line) return damaged(file, "it ends before its last line");
    if (line->starts_with("end ")) {
      if (*line != "end " + std::to_string(added) + " " + in.digest() + "\n")
        return damaged(file, "its last line is wrong");
      if (!in.at_end()) return damaged(file, "something follows its last line");
      return added;
    }
    uint64_t size = line->starts_with("entry ") ? std::strtoull(line->c_str() + 6, nullptr, 10) : 0;
    if (*line != "entry " + std::to_string(size) + "\n" || size > kMaxManifestBytes)
      return damaged(file, "a bad entry line");
    in.count(*line);
    std::string text;
    if (!in.bytes(size, [&](std::string_view piece) { return text.append(piece), true; }))
      return damaged(file, "it ends inside a manifest");
    auto manifest = parse_manifest(text);
    if (!manifest) return damaged(file, "a manifest is damaged");
    QCG_TRY(scratch, ScratchDir::create(state_->temp_dir(), &fs));
    std::vector<EntryFile> files;
    std::string key_dump;
    QCG_CHECK(unpack(in, file, *manifest, scratch.path(), fs, files, key_dump));
    QCG_TRY(entry, publish(manifest->key, files, key_dump));
  }
}

}  // namespace qcg
