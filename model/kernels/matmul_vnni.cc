// Matmul of every quantised type with AVX-VNNI: the same panels and chains, fewer instructions.
#include "model/kernels/dot_avx2.h"
#include "model/kernels/levels.h"
#include "model/kernels/panel_k_avx2.h"

namespace llmd {

void fill_vnni(KernelTable& table) {
  static_assert(kVnni);
  set_matmul<panel::Q8_0>(table);
  set_matmul<panel::Q4_0>(table);
  set_matmul<panel::Q4_1>(table);
  set_matmul<panel::Q5_0>(table);
  set_matmul<panel::Q5_1>(table);
  set_matmul<panel::IQ4_NL>(table);
  set_matmul<panel::MXFP4>(table);
  set_matmul<panel::Q2_K>(table);
  set_matmul<panel::Q3_K>(table);
  set_matmul<panel::Q4_K>(table);
  set_matmul<panel::Q5_K>(table);
  set_matmul<panel::Q6_K>(table);
  set_matmul<panel::IQ4_XS>(table);
}

}  // namespace llmd
