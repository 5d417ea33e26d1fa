// Shape checks for public functions. A mismatch here is a bug of the caller, not of the user.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "tensor/torch_compat.h"

namespace slift {

inline constexpr std::int64_t kAny = -1;

// Throws c10::Error unless `tensor` has exactly this shape; kAny accepts every extent.
void expect_shape(const Tensor& tensor, std::initializer_list<std::int64_t> shape,
                  std::string_view name);

}  // namespace slift
