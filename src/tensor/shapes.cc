#include "tensor/shapes.h"

#include <algorithm>
#include <vector>

namespace slift {

void expect_shape(const Tensor& tensor, std::initializer_list<std::int64_t> shape,
                  std::string_view name) {
  const auto sizes = tensor.sizes();
  const bool same =
      std::equal(sizes.begin(), sizes.end(), shape.begin(), shape.end(),
                 [](std::int64_t got, std::int64_t want) { return want == kAny || got == want; });
  TORCH_CHECK(same, name, ": expected shape ", std::vector<std::int64_t>(shape), ", got ", sizes);
}

}  // namespace slift
