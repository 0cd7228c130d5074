#include "graph/read/files/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <cstring>

#include "graph/read/files/json.h"

namespace qcg {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kEndBytes = 22, kLocatorBytes = 20, kCentralBytes = 46, kLocalBytes = 30;
constexpr uint64_t kMaxEntries = 200'000;
// Deflate reaches 1032:1 on zeros; a model and its weights come nowhere near. What all entries unpack to is bounded by
// the file's size, and by something that small files may have whatever they hold.
constexpr uint64_t kFreeInflation = uint64_t{8} << 20;
constexpr uint64_t kMaxRatio = 20;
constexpr const char* kRewrite = "the file is damaged or was cut off: copy or export it again";

}  // namespace

bool ZipArchive::is_zip(std::string_view bytes) {
  return bytes.starts_with(std::string_view("PK\3\4", 4)) || bytes.starts_with(std::string_view("PK\5\6", 4));
}

Result<ZipArchive> ZipArchive::open(std::string_view bytes, std::shared_ptr<const void> owner, std::string name) {
  ZipArchive zip;
  zip.bytes_ = bytes;
  zip.owner_ = std::move(owner);
  zip.name_ = std::move(name);
  zip.inflation_left_ = kFreeInflation + kMaxRatio * bytes.size();
  QCG_CHECK(zip.read_directory());
  QCG_CHECK(zip.open_libzip());
  return zip;
}

template <class T>
bool ZipArchive::load(uint64_t at, T& value) const {
  if (at > bytes_.size() || bytes_.size() - at < sizeof(T)) return false;
  std::memcpy(&value, bytes_.data() + at, sizeof(T));
  return true;
}

Error ZipArchive::bad(std::string message) const { return Error::bad_input(name_, std::move(message), kRewrite); }

Error ZipArchive::bad(const ZipEntry& entry, std::string message, std::string help) const {
  return Error::bad_input(name_ + ":" + quote(entry.name), std::move(message), std::move(help));
}

// The end record is the last thing in the file but for a comment of up to 64 KiB, so it is searched from the back.
Status ZipArchive::find_directory(uint64_t& offset, uint64_t& count) const {
  uint32_t magic = 0;
  uint64_t lowest = bytes_.size() > kEndBytes + 0xFFFF ? bytes_.size() - kEndBytes - 0xFFFF : 0;
  uint64_t end = bytes_.size() < kEndBytes ? 0 : bytes_.size() - kEndBytes + 1;
  bool found = false;
  while (end > lowest && !found) found = load(--end, magic) && magic == kEnd;
  uint16_t entries = 0;
  uint32_t start = 0;
  if (!found || !load(end + 10, entries) || !load(end + 16, start)) return bad("the zip file has no end record");
  offset = start;
  count = entries;
  if (end < kLocatorBytes || !load(end - kLocatorBytes, magic) || magic != kEnd64Locator) return {};
  uint64_t end64 = 0;
  if (!load(end - kLocatorBytes + 8, end64) || !load(end64, magic) || magic != kEnd64 || !load(end64 + 32, count) ||
      !load(end64 + 48, offset)) {
    return bad("the zip64 end record is damaged");
  }
  return {};
}

Status ZipArchive::read_directory() {
  uint64_t at = 0, count = 0;
  QCG_CHECK(find_directory(at, count));
  if (count > kMaxEntries || count > bytes_.size() / kCentralBytes) {
    return bad("the zip directory claims " + std::to_string(count) + " entries");
  }
  for (uint64_t i = 0; i < count; ++i) {
    QCG_TRY(entry, read_entry(at));
    entry.index = i;
    if (!by_name_.emplace(entry.name, entries_.size()).second)
      return bad(entry, "the zip file holds this entry twice", kRewrite);
    entries_.push_back(std::move(entry));
  }
  return refuse_overlaps();
}

// Entries that share their data would let a small file unpack to any size.
Status ZipArchive::refuse_overlaps() const {
  struct Extent {
    uint64_t begin, end;
    const ZipEntry* entry;
  };
  std::vector<Extent> extents;
  for (const ZipEntry& entry : entries_) {
    uint16_t name = 0, extra = 0;
    load(entry.header_offset + 26, name);
    load(entry.header_offset + 28, extra);
    const uint64_t header = entry.header_offset + kLocalBytes + name + extra;
    if (header > bytes_.size() || entry.compressed_size > bytes_.size() - header) continue;  // refused where it is read
    extents.push_back({entry.header_offset, header + entry.compressed_size, &entry});
  }
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].begin < extents[i - 1].end)
      return bad(*extents[i].entry, "the entry overlaps " + quote(extents[i - 1].entry->name), kRewrite);
  return {};
}

Result<ZipEntry> ZipArchive::read_entry(uint64_t& at) const {
  uint32_t magic = 0, compressed = 0, size = 0, header = 0;
  uint16_t name = 0, extra = 0, comment = 0;
  ZipEntry entry;
  bool whole = load(at, magic) && magic == kCentralHeader && load(at + 8, entry.flags) && load(at + 10, entry.method) &&
               load(at + 16, entry.crc) && load(at + 20, compressed) && load(at + 24, size) && load(at + 28, name) &&
               load(at + 30, extra) && load(at + 32, comment) && load(at + 42, header);
  uint64_t tail = at + kCentralBytes;
  if (!whole || bytes_.size() - tail < uint64_t{name} + extra + comment) return bad("the zip directory is damaged");
  entry.name = bytes_.substr(tail, name);
  entry.compressed_size = compressed;
  entry.size = size;
  entry.header_offset = header;
  // zip64: the fields that do not fit are all ones, and follow in this order in the extra field 0x0001.
  uint64_t field = tail + name, extra_end = field + extra;
  while (field + 4 <= extra_end) {
    uint16_t id = 0, length = 0;
    load(field, id);
    load(field + 2, length);
    uint64_t value = field + 4;
    field = value + length;
    if (field > extra_end) return bad("the zip directory is damaged");
    if (id != 1) continue;
    for (auto [small, wide] :
         {std::pair{size, &entry.size}, {compressed, &entry.compressed_size}, {header, &entry.header_offset}}) {
      if (small != UINT32_MAX) continue;
      if (value + 8 > field || !load(value, *wide)) return bad("the zip directory is damaged");
      value += 8;
    }
  }
  at = extra_end + comment;
  return entry;
}

const ZipEntry* ZipArchive::find(const std::string& name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

Status ZipArchive::check_size(const ZipEntry& entry) const {
  if (entry.flags & 1) return bad(entry, "the entry is encrypted", "write the archive without a password");
  if (entry.method == 0) {
    if (entry.size != entry.compressed_size) return bad(entry, "a stored entry has two sizes", kRewrite);
  } else if (entry.method != 8) {
    return Error::unsupported(name_ + ":" + quote(entry.name),
                              "compression method " + std::to_string(entry.method) + " is not supported",
                              "store the entries, as torch.export.save does");
  }
  if (entry.compressed_size > bytes_.size()) return bad(entry, "the entry is longer than the file", kRewrite);
  if (entry.method == 8 && entry.size > inflation_left_)
    return bad(entry,
               "the entry unpacks to " + std::to_string(entry.size) + " bytes; all entries together may to " +
                   std::to_string(kMaxRatio) + " times the size of the file and " +
                   std::to_string(kFreeInflation >> 20) + " MiB",
               "store the entries uncompressed, as torch.export.save does");
  return {};
}

Result<std::string_view> ZipArchive::stored_bytes(const ZipEntry& entry) const {
  uint32_t magic = 0;
  uint16_t name = 0, extra = 0;
  uint64_t at = entry.header_offset;
  if (!load(at, magic) || magic != kLocalHeader || !load(at + 26, name) || !load(at + 28, extra)) {
    return bad(entry, "the entry's header is damaged", kRewrite);
  }
  uint64_t data = at + kLocalBytes + name + extra;
  if (data > bytes_.size() || bytes_.size() - data < entry.size)
    return bad(entry, "the entry runs past the end of the file", kRewrite);
  return bytes_.substr(data, entry.size);
}

Status ZipArchive::open_libzip() {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes_.data(), bytes_.size(), 0, &error);
  zip_t* zip = source ? zip_open_from_source(source, ZIP_RDONLY, &error) : nullptr;
  if (source && !zip) zip_source_free(source);
  std::string reason = zip ? "" : zip_error_strerror(&error);
  zip_error_fini(&error);
  if (!zip) return bad("not a readable zip file: " + reason);
  libzip_ = std::shared_ptr<void>(zip, [](void* z) { zip_discard(static_cast<zip_t*>(z)); });
  return {};
}

Status ZipArchive::unpack(const ZipEntry& entry, std::byte* out) const {
  std::vector<std::byte> scrap(out ? 0 : 1 << 16);
  zip_file_t* file = zip_fopen_index(static_cast<zip_t*>(libzip_.get()), entry.index, 0);
  uint64_t done = 0;
  bool good = file != nullptr;
  while (good && done < entry.size) {
    uint64_t wanted = std::min<uint64_t>(entry.size - done, out ? 1 << 20 : scrap.size());
    zip_int64_t step = zip_fread(file, out ? out + done : scrap.data(), wanted);
    good = step > 0;
    if (good) done += static_cast<uint64_t>(step);
  }
  char beyond;
  good = good && zip_fread(file, &beyond, 1) == 0;  // reading the end is what makes libzip compare the CRC
  if (file) zip_fclose(file);
  return good ? Status()
              : Status(bad(entry, "the entry's data is damaged (it does not unpack, or its CRC differs)", kRewrite));
}

Result<std::shared_ptr<const Storage>> ZipArchive::checked_storage(const ZipEntry& entry, size_t max_bytes) {
  if (entry.size > max_bytes) {
    return bad(
        entry,
        "the entry has " + std::to_string(entry.size) + " bytes, at most " + std::to_string(max_bytes) + " are read",
        "check that this is the right file");
  }
  QCG_TRY(bytes, storage(entry));
  if (entry.method == 0) QCG_CHECK(unpack(entry, nullptr));
  return bytes;
}

Result<std::shared_ptr<const Storage>> ZipArchive::storage(const ZipEntry& entry) {
  QCG_CHECK(check_size(entry));
  auto storage = std::make_shared<Storage>();
  if (entry.method == 0) {
    QCG_TRY(bytes, stored_bytes(entry));
    storage->bytes = {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
    storage->owner = owner_;
  } else {
    inflation_left_ -= entry.size;
    auto memory = map_anonymous(entry.size);
    if (!memory)
      return Error::io(name_, "no memory for " + std::to_string(entry.size) + " bytes",
                       "free memory, or store the entries uncompressed");
    QCG_CHECK(unpack(entry, memory.get()));
    storage->bytes = {memory.get(), entry.size};
    storage->owner = memory;
  }
  return std::shared_ptr<const Storage>(std::move(storage));
}

}  // namespace qcg
