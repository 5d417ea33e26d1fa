// A dense numeric array on disk that can be read slice by slice along one axis.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace slift {

class ArraySource {
 public:
  virtual ~ArraySource() = default;
  const std::vector<std::int64_t>& shape() const { return shape_; }
  // True if the first axis varies fastest (NumPy's Fortran order); shape() is then reversed.
  bool reversed() const { return reversed_; }
  // Indices begin .. begin+count-1 of `axis`, all of the others, in row-major order.
  virtual void read(std::size_t axis, std::int64_t begin, std::int64_t count,
                    std::span<double> out) = 0;

 protected:
  std::vector<std::int64_t> shape_;
  bool reversed_ = false;
};

// Both throw UserError naming the file and what is wrong with it.
std::unique_ptr<ArraySource> open_npy(const std::filesystem::path& path);
std::unique_ptr<ArraySource> open_hdf5_array(const std::filesystem::path& path,
                                             const std::string& dataset);

}  // namespace slift
