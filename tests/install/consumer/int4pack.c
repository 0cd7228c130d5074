/* The installed library of int4pack and its header: a call without tensors is refused in words. */
#include <qcg_int4pack.h>
#include <stdio.h>

int main(void) {
  if (qcg_cuda_int4pack_mm(NULL, NULL, 128, NULL, NULL, NULL) == QCG_OK) return 1;
  puts(qcg_cuda_int4pack_error());
  return 0;
}
