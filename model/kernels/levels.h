// The parts of each kernel table, private to this folder: one function per file, which fills its entries.
//
// table.cc calls them once, under the guard of a function-local static; a level starts as a copy of the level below, so
// an operation without a faster form keeps the plain one. The *_avx2.cc files are the only ones compiled with AVX2, FMA
// and F16C, *_vnni.cc with AVX-VNNI as well, and the only ones with intrinsics; nothing in them may run before the
// processor was asked.
#pragma once

#include "model/kernels/kernels.h"

namespace llmd {

void fill_scalar_matmul(KernelTable& table);
void fill_scalar_ops(KernelTable& table);

void fill_avx2_legacy(KernelTable& table);
void fill_avx2_k(KernelTable& table);
void fill_avx2_convert(KernelTable& table);
void fill_avx2_ops(KernelTable& table);
void fill_avx2_gemm(KernelTable& table);
void fill_avx2_float(KernelTable& table);

void fill_vnni(KernelTable& table);

void kv_store_scalar(KvType type, const float* in, int64_t n, std::byte* out);
void kv_load_scalar(KvType type, const std::byte* in, int64_t n, float* out);

}  // namespace llmd
