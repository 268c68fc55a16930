// Matmul of the formats with 32 weights a block.
#include "model/kernels/dot_avx2.h"
#include "model/kernels/levels.h"
#include "model/kernels/panel_legacy_avx2.h"

namespace llmd {

void fill_avx2_legacy(KernelTable& table) {
  set_matmul<panel::Q8_0>(table);
  set_matmul<panel::Q4_0>(table);
  set_matmul<panel::Q4_1>(table);
  set_matmul<panel::Q5_0>(table);
  set_matmul<panel::Q5_1>(table);
  set_matmul<panel::IQ4_NL>(table);
  set_matmul<panel::MXFP4>(table);
}

}  // namespace llmd
