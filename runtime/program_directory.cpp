#include "runtime/program_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "runtime/piece_digests.h"

namespace qcg {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{16} << 20;
constexpr const char* kDamaged = "the program is damaged or was changed: copy or compile it again";

}  // namespace

Result<ProgramDirectory> ProgramDirectory::open(const std::string& path) {
  QCG_TRY(fd, open_program_directory(path));
  return ProgramDirectory(std::move(fd), path);
}

Result<OpenedFile> ProgramDirectory::open_file(const std::string& name) const {
  return open_program_file(fd_.get(), name, path_of(name));
}

Result<OpenedFile> ProgramDirectory::open_file(const std::string& name, int64_t bytes) const {
  QCG_TRY(file, open_file(name));
  if (file.bytes != bytes)
    return Error::bad_input(path_of(name),
                            "has " + std::to_string(file.bytes) + " bytes, the manifest says " + std::to_string(bytes),
                            kDamaged);
  return file;
}

std::string weights_mark(const std::string& content) { return "qcodegen weights " + content + "\n"; }

Result<OpenedFile> ProgramDirectory::open_weights(const ProgramManifest::File& file) const {
  const std::string name = "weights.bin", mark = weights_mark(file.content);
  QCG_TRY(opened, open_file(name, file.bytes));
  if (file.content.empty()) return opened;  // older programs have no mark
  std::string found(mark.size(), '\0');
  const int64_t at = file.bytes - std::ssize(mark);
  if (at >= 0) QCG_CHECK(read_file_range(opened.fd.get(), at, std::as_writable_bytes(std::span(found)), path_of(name)));
  if (found != mark)
    return Error::bad_input(path_of(name), "has the weights of another program",
                            "copy all files of a program together, or compile it again");
  return opened;
}

Result<std::string> ProgramDirectory::read_manifest() const {
  const std::string path = path_of("manifest.json");
  QCG_TRY(file, open_file("manifest.json"));
  if (file.bytes > kMaxManifestBytes)
    return Error::bad_input(path, "is larger than 16 MiB", "this is not a program directory");
  QCG_TRY(text, read_program_file(file, path));
  QCG_TRY(digest_file, open_file("manifest.sha256"));
  digest_file.bytes =
      std::min<int64_t>(digest_file.bytes, 64);  // what follows may be a file name, as sha256sum writes it
  QCG_TRY(digest, read_program_file(digest_file, path_of("manifest.sha256")));
  if (digest != digest_hex(std::as_bytes(std::span(text))))
    return Error::bad_input(path, "does not have the checksum in manifest.sha256", kDamaged);
  return text;
}

Status ProgramDirectory::verify(const ProgramManifest& manifest) const {
  for (const auto& [name, expected] : manifest.files) {
    QCG_TRY(file, open_file(name, expected.bytes));
    bool good;
    if (expected.pieces.empty()) {
      QCG_TRY(bytes, read_program_file(file, path_of(name)));
      good = digest_hex(std::as_bytes(std::span(bytes))) == expected.sha256;
    } else {
      QCG_TRY(pieces, piece_digests(file.fd.get(), file.bytes, path_of(name)));
      good = pieces == expected.pieces;
    }
    if (!good) return Error::bad_input(path_of(name), "does not have the checksum in the manifest", kDamaged);
  }
  return {};
}

bool ProgramDirectory::is_replaced() const {
  struct stat opened, named;
  return ::fstat(fd_.get(), &opened) != 0 || ::stat(path_.c_str(), &named) != 0 || opened.st_ino != named.st_ino ||
         opened.st_dev != named.st_dev;
}

}  // namespace qcg
