// The dtype table: one row for each element type of qcodegen.
//
// Why here: graph/ (readers, oracle) and runtime/ (buffers, C API) both need it and must not depend on each other.
// Sources of the numbers: the ScalarType of torch.export's schema, DLPack 1.0 type codes, safetensors dtype names.
//
//   dtype_info(DType::bf16).bytes == 2
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace qcg {

// clang-format off
enum class DType : uint8_t {
  f32, f16, bf16, f64, u8, i8, i16, i32, i64, boolean, u16, u32, u64, f8e4m3, f8e5m2, f8e8m0
};
// clang-format on

enum class DTypeKind : uint8_t { floating, signed_int, unsigned_int, boolean };

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // in the IR text, kernel names, logs
  DTypeKind kind;
  uint8_t bytes;                 // per element
  uint8_t export_number;         // in torch.export JSON
  std::string_view safetensors;  // in safetensors headers
  uint8_t dlpack_code;           // DLDataTypeCode
  std::string_view cpp;          // the type generated C++ stores it as
};

inline constexpr std::array<DTypeInfo, 16> kDTypes = {{
    {DType::f32, "f32", DTypeKind::floating, 4, 7, "F32", 2, "float"},
    {DType::f16, "f16", DTypeKind::floating, 2, 6, "F16", 2, "qcg_f16"},
    {DType::bf16, "bf16", DTypeKind::floating, 2, 13, "BF16", 4, "qcg_bf16"},
    {DType::f64, "f64", DTypeKind::floating, 8, 8, "F64", 2, "double"},
    {DType::u8, "u8", DTypeKind::unsigned_int, 1, 1, "U8", 1, "uint8_t"},
    {DType::i8, "i8", DTypeKind::signed_int, 1, 2, "I8", 0, "int8_t"},
    {DType::i16, "i16", DTypeKind::signed_int, 2, 3, "I16", 0, "int16_t"},
    {DType::i32, "i32", DTypeKind::signed_int, 4, 4, "I32", 0, "int32_t"},
    {DType::i64, "i64", DTypeKind::signed_int, 8, 5, "I64", 0, "int64_t"},
    {DType::boolean, "bool", DTypeKind::boolean, 1, 12, "BOOL", 6, "uint8_t"},
    {DType::u16, "u16", DTypeKind::unsigned_int, 2, 28, "U16", 1, "uint16_t"},
    {DType::u32, "u32", DTypeKind::unsigned_int, 4, 34, "U32", 1, "uint32_t"},
    {DType::u64, "u64", DTypeKind::unsigned_int, 8, 35, "U64", 1, "uint64_t"},
    {DType::f8e4m3, "f8e4m3", DTypeKind::floating, 1, 29, "F8_E4M3", 10, "uint8_t"},
    {DType::f8e5m2, "f8e5m2", DTypeKind::floating, 1, 30, "F8_E5M2", 12, "uint8_t"},
    {DType::f8e8m0, "f8e8m0", DTypeKind::floating, 1, 33, "F8_E8M0", 14, "uint8_t"},
}};

// The most axes of a program's input or output. The readers refuse graphs with more.
inline constexpr size_t kMaxAxes = 16;

constexpr const DTypeInfo& dtype_info(DType d) { return kDTypes[static_cast<size_t>(d)]; }
constexpr std::string_view dtype_name(DType d) { return dtype_info(d).name; }
constexpr size_t dtype_bytes(DType d) { return dtype_info(d).bytes; }
constexpr bool is_floating(DType d) { return dtype_info(d).kind == DTypeKind::floating; }
// Storing a number as an 8-bit float is a quantization, not just a loss of precision: no pass may omit this rounding.
constexpr bool is_float8(DType d) { return is_floating(d) && dtype_bytes(d) == 1; }

constexpr bool is_half(DType d) { return d == DType::f16 || d == DType::bf16; }
// The float dtypes of a linear's activations.
constexpr bool is_compute_float(DType d) { return d == DType::f32 || is_half(d); }
constexpr bool is_byte(DType d) { return d == DType::i8 || d == DType::u8; }

struct IntegerRange {
  int64_t low, high;
  friend bool operator==(const IntegerRange&, const IntegerRange&) = default;
};
// The least and the greatest value of an integer dtype of at most four bytes.
constexpr IntegerRange integer_range(DType d) {
  const int64_t count = int64_t{1} << (8 * dtype_bytes(d));
  const int64_t low = dtype_info(d).kind == DTypeKind::signed_int ? -count / 2 : 0;
  return {low, low + count - 1};
}

constexpr std::optional<DType> dtype_from_name(std::string_view name) {
  for (const auto& row : kDTypes)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}
constexpr std::optional<DType> dtype_from_export_number(int64_t number) {
  for (const auto& row : kDTypes)
    if (row.export_number == number) return row.dtype;
  return std::nullopt;
}
constexpr std::optional<DType> dtype_from_safetensors(std::string_view name) {
  for (const auto& row : kDTypes)
    if (row.safetensors == name) return row.dtype;
  return std::nullopt;
}

}  // namespace qcg
