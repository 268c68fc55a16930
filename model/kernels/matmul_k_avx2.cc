// Matmul of the formats with 256 weights a block.
#include "model/kernels/dot_avx2.h"
#include "model/kernels/levels.h"
#include "model/kernels/panel_k_avx2.h"

namespace llmd {

void fill_avx2_k(KernelTable& table) {
  set_matmul<panel::Q2_K>(table);
  set_matmul<panel::Q3_K>(table);
  set_matmul<panel::Q4_K>(table);
  set_matmul<panel::Q5_K>(table);
  set_matmul<panel::Q6_K>(table);
  set_matmul<panel::IQ4_XS>(table);
}

}  // namespace llmd
