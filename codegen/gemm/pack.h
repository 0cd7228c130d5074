// Packing: the constant tensors of a problem, written as its kernels read them.
//
// Why here: layout.h says where every byte goes; this is its only writer.
//
//   const PackedLayout layout = layout_for(problem, target);
//   std::vector<std::byte> packed(packed_bytes(problem, layout));
//   QCG_CHECK(pack_weights(problem, layout, tensors, packed));
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codegen/gemm/microkernels.h"
#include "codegen/gemm/problem.h"

namespace qcg {

int64_t packed_bytes(const Problem& problem, const PackedLayout& layout);
// Writes exactly packed_bytes() bytes. Errors: a value outside the scheme's range names segment, row and column.
Status pack_weights(const Problem& problem, const PackedLayout& layout, const std::vector<SegmentTensors>& tensors,
                    std::span<std::byte> out);
// The same for a problem that has one segment of `whole`, whose packed weights are there already: copied out of them
// where the layouts agree, packed from `tensors` otherwise. Precondition: one output of `whole` reads the segment.
Status pack_segment(const Problem& problem, const PackedLayout& layout, const SegmentTensors& tensors,
                    const Problem& whole, const PackedLayout& whole_layout, std::span<const std::byte> packed,
                    int segment, std::span<std::byte> out);

}  // namespace qcg
