// What the tests of labels share; for *_test.cc only.
#pragma once

#include "tensor/torch_compat.h"

namespace slift {

// A step as LabelSource::for_members() takes it, on the CPU.
inline Tensor at_step(std::int64_t step) { return at::full({1}, step, at::kLong); }

}  // namespace slift
