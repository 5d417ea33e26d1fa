// Which tensors our CPU kernels take; shared by the sources of ops.h.
#pragma once

#include "tensor/torch_compat.h"

namespace slift::ops {

inline bool has_cpu_kernel(const Tensor& x) { return x.is_cpu() && x.scalar_type() == at::kFloat; }

}  // namespace slift::ops
