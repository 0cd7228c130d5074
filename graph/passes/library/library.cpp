#include "graph/passes/library/library.h"

namespace qcg {

const LibraryOp* find_library_op(Op op) {
  for (const auto rows :
       {library_distances(), library_patches(), library_orders(), library_arrangements(), library_writes(),
        library_fourier(), library_losses(), library_products(), library_sums(), library_functions()})
    for (const LibraryOp& row : rows)
      if (row.op == op) return &row;
  return nullptr;
}

}  // namespace qcg
