// Result<T> and Error: how all modules report errors.
//
// Why here: graph/, cache/ and runtime/ do not depend on each other, but users see one kind of error. The header has no
// source file, so sharing it links nothing.
//
//   Result<int> parse_port(std::string_view s);
//   QCG_TRY(port, parse_port("80"));            // returns the error to the caller, or binds `port`
//   return Error::bad_input("$.port", "80x is not a number", "write digits only");
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace qcg {

enum class ErrorCode { BadInput, Unsupported, Toolchain, CacheCorrupt, Io, Usage, Interrupted, Internal };

// The name printed in `error[NAME]: …` and in the "code" field of JSON errors.
constexpr const char* error_code_name(ErrorCode c) {
  switch (c) {
    case ErrorCode::BadInput: return "BadInput";
    case ErrorCode::Unsupported: return "Unsupported";
    case ErrorCode::Toolchain: return "Toolchain";
    case ErrorCode::CacheCorrupt: return "CacheCorrupt";
    case ErrorCode::Io: return "Io";
    case ErrorCode::Usage: return "Usage";
    case ErrorCode::Interrupted: return "Interrupted";
    case ErrorCode::Internal: return "Internal";
  }
  return "Internal";
}

// The first `most` bytes of a text, and "…" if it is longer: messages may quote inputs of any length.
inline std::string shorten(std::string text, size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;  // within a character of UTF-8
  text.resize(most);
  return text + " …";
}

struct Error {
  ErrorCode code = ErrorCode::Internal;
  std::string where;    // JSON path, file:line:column, or the name of the thing; may be empty
  std::string message;  // what is wrong
  std::string help;     // what to do about it

  static constexpr size_t kMostWhere = 600, kMostMessage = 4000;  // bytes; limits of errors that may quote an input
  static Error bad_input(std::string where, std::string message, std::string help) {
    return {ErrorCode::BadInput, shorten(std::move(where), kMostWhere), shorten(std::move(message), kMostMessage),
            shorten(std::move(help), kMostMessage)};
  }
  static Error unsupported(std::string where, std::string message, std::string help) {
    return {ErrorCode::Unsupported, shorten(std::move(where), kMostWhere), shorten(std::move(message), kMostMessage),
            shorten(std::move(help), kMostMessage)};
  }
  static Error toolchain(std::string where, std::string message, std::string help) {
    return {ErrorCode::Toolchain, std::move(where), std::move(message), std::move(help)};
  }
  static Error cache_corrupt(std::string where, std::string message, std::string help) {
    return {ErrorCode::CacheCorrupt, std::move(where), std::move(message), std::move(help)};
  }
  static Error io(std::string where, std::string message, std::string help) {
    return {ErrorCode::Io, std::move(where), std::move(message), std::move(help)};
  }
  static Error interrupted() {
    return {ErrorCode::Interrupted, "", "stopped by a signal before it was done",
            "no result was written; what was built by then is in the cache, so that starting again is cheaper"};
  }
  static Error internal(std::string where, std::string message) {
    return {ErrorCode::Internal, std::move(where), std::move(message), "this is a bug in qcodegen: please report it"};
  }

  // `error[BadInput]: $.nodes[3]: message\nhelp: remedy`
  std::string to_string() const {
    std::string s = std::string("error[") + error_code_name(code) + "]: ";
    if (!where.empty()) s += where + ": ";
    s += message;
    if (!help.empty()) s += "\nhelp: " + help;
    return s;
  }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : v_(std::move(value)) {}
  Result(Error error) : v_(std::move(error)) {}
  // From the result of a type that T is made from.
  template <class U>
  requires(!std::is_same_v<U, T> && !std::is_arithmetic_v<T> && std::is_convertible_v<U, T>) Result(Result<U> other)
      : v_(Error()) {
    if (other.ok()) v_ = T(std::move(other).value());
    else v_ = std::move(other.error());
  }

  bool ok() const { return v_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(v_); }
  const T& value() const& { return std::get<0>(v_); }
  T&& value() && { return std::get<0>(std::move(v_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  Error& error() { return std::get<1>(v_); }
  const Error& error() const { return std::get<1>(v_); }

 private:
  std::variant<T, Error> v_;
};

// Success without a value, or an Error.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  Error& error() { return *error_; }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

}  // namespace qcg

#define QCG_CONCAT_(a, b) a##b
#define QCG_CONCAT(a, b) QCG_CONCAT_(a, b)
// Binds `var` to the value of a Result expression, or returns its error.
#define QCG_TRY(var, ...)                                                                                   \
  auto QCG_CONCAT(qcg_result_, __LINE__) = (__VA_ARGS__);                                                   \
  if (!QCG_CONCAT(qcg_result_, __LINE__).ok()) return std::move(QCG_CONCAT(qcg_result_, __LINE__).error()); \
  auto var = std::move(QCG_CONCAT(qcg_result_, __LINE__)).value()
// Returns the error of a Status expression, if it has one.
#define QCG_CHECK(...) \
  if (auto qcg_status = (__VA_ARGS__); !qcg_status.ok()) return std::move(qcg_status.error())
