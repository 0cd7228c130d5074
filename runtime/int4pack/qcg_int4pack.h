/* y = x . dequantize(weight)^T on a CUDA device, with int4 weights in tinygemm's layout, as
 * torch.ops.aten._convert_weight_to_int4pack writes it on CUDA and aten._weight_int4pack_mm reads it.
 *
 * Why here: exporters such as ExecuTorch call this operator through a C function of their runtime. This library is one
 * that needs neither torch nor a program of qcodegen. It links nothing of CUDA: the driver is opened when it is needed.
 *
 *   if (qcg_cuda_int4pack_mm(&x, &weight, 128, &scale_and_zero, &y, stream) != QCG_OK)
 *     return fail(qcg_cuda_int4pack_error());
 */
#ifndef QCG_INT4PACK_H
#define QCG_INT4PACK_H

#include <qcodegen.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All tensors are dense and row-major, on CUDA device 0 (DLPack device type 2):
 *
 *   x               bf16 [m, k]
 *   weight          i32 [n / 8, k / (16 t), 32, t / 2], with t = 2, 4 or 8 inner k tiles; at a multiple of 16 bytes
 *   group           32, 64, 128 or 256 of k that share a scale; divides k
 *   scale_and_zero  bf16 [k / group, n, 2]: weight = (code - 8) * scale + zero
 *   out             bf16 [m, n], which overlaps no other tensor
 *   stream          a CUstream of the device's primary context, or NULL for the default stream
 *
 * The product is queued on the stream, and the function returns before it has run. Sums are f32: codes are exact, and
 * scale and zero multiply the sums of a group. The first call loads the kernel. Any thread may call.
 *
 * QCG_ERROR_BAD_INPUT: a pointer is NULL, or a tensor has another dtype, rank, shape, layout, alignment or device.
 * QCG_ERROR_UNSUPPORTED: there is no driver or no device, or it is older than compute capability 8.0.
 * QCG_ERROR_IO: the driver refuses the launch. */
QCG_API qcg_status qcg_cuda_int4pack_mm(const qcg_dltensor* x, const qcg_dltensor* weight, int64_t group,
                                        const qcg_dltensor* scale_and_zero, const qcg_dltensor* out, void* stream);

/* The message of this thread's last call that did not return QCG_OK, or "". Valid until its next such call. */
QCG_API const char* qcg_cuda_int4pack_error(void);

#ifdef __cplusplus
}
#endif
#endif
