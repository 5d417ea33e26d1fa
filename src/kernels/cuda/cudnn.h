// cuDNN's backend descriptors with owners and types.
#pragma once

#include <cudnn_graph.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace slift::kernels::cuda {

inline void check_cudnn(cudnnStatus_t status, const char* what) {
  if (status != CUDNN_STATUS_SUCCESS) {
    throw std::runtime_error(std::string("cuDNN: ") + what + ": " + cudnnGetErrorString(status));
  }
}

template <typename T>
constexpr cudnnBackendAttributeType_t attribute_type() {
  if constexpr (std::is_same_v<T, std::int64_t>) return CUDNN_TYPE_INT64;
  if constexpr (std::is_same_v<T, bool>) return CUDNN_TYPE_BOOLEAN;
  if constexpr (std::is_same_v<T, float>) return CUDNN_TYPE_FLOAT;
  if constexpr (std::is_same_v<T, cudnnHandle_t>) return CUDNN_TYPE_HANDLE;
  if constexpr (std::is_same_v<T, cudnnDataType_t>) return CUDNN_TYPE_DATA_TYPE;
  if constexpr (std::is_same_v<T, cudnnConvolutionMode_t>) return CUDNN_TYPE_CONVOLUTION_MODE;
  if constexpr (std::is_same_v<T, cudnnPointwiseMode_t>) return CUDNN_TYPE_POINTWISE_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendHeurMode_t>) return CUDNN_TYPE_HEUR_MODE;
  if constexpr (std::is_same_v<T, cudnnBackendKnobType_t>) return CUDNN_TYPE_KNOB_TYPE;
  if constexpr (std::is_same_v<T, cudnnBackendNumericalNote_t>) return CUDNN_TYPE_NUMERICAL_NOTE;
}

class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t raw = nullptr;
    check_cudnn(cudnnBackendCreateDescriptor(type, &raw), "create descriptor");
    raw_.reset(raw);
  }

  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<T>& values) {
    check_cudnn(cudnnBackendSetAttribute(raw_.get(), name, attribute_type<T>(),
                                         static_cast<std::int64_t>(values.size()), values.data()),
                "set attribute");
    return *this;
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, T value) {
    check_cudnn(cudnnBackendSetAttribute(raw_.get(), name, attribute_type<T>(), 1, &value),
                "set attribute");
    return *this;
  }
  // To cuDNN descriptors and device pointers are the same type.
  Descriptor& set_descriptors(cudnnBackendAttributeName_t name, const std::vector<void*>& raw) {
    return set_raw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
  }
  Descriptor& set_descriptor(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set_descriptors(name, {value.raw()});
  }
  Descriptor& set_pointers(cudnnBackendAttributeName_t name, const std::vector<void*>& pointers) {
    return set_raw(name, CUDNN_TYPE_VOID_PTR, pointers);
  }

  Descriptor& finalize() {
    check_cudnn(cudnnBackendFinalize(raw_.get()), "finalize");
    return *this;
  }

  template <typename T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(raw_.get(), name, attribute_type<T>(), 1, &count, &value),
                "get attribute");
    return value;
  }
  // At most `limit` values.
  template <typename T>
  std::vector<T> get_all(cudnnBackendAttributeName_t name, std::int64_t limit) const {
    std::vector<T> values(static_cast<std::size_t>(limit));
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(raw_.get(), name, attribute_type<T>(), limit, &count,
                                         values.data()),
                "get attribute");
    values.resize(static_cast<std::size_t>(std::min(count, limit)));
    return values;
  }
  // Descriptors of kind `type` that this one holds, at most `limit`.
  std::vector<Descriptor> get_descriptors(cudnnBackendAttributeName_t name,
                                          cudnnBackendDescriptorType_t type,
                                          std::int64_t limit) const {
    std::vector<Descriptor> found;
    std::vector<void*> raw;
    for (std::int64_t i = 0; i < limit; ++i) raw.push_back(found.emplace_back(type).raw());
    std::int64_t count = 0;
    check_cudnn(cudnnBackendGetAttribute(raw_.get(), name, CUDNN_TYPE_BACKEND_DESCRIPTOR, limit,
                                         &count, raw.data()),
                "get descriptors");
    found.erase(found.begin() + std::min(count, limit), found.end());
    return found;
  }

  void* raw() const { return raw_.get(); }

 private:
  Descriptor& set_raw(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                      const std::vector<void*>& values) {
    check_cudnn(cudnnBackendSetAttribute(raw_.get(), name, type,
                                         static_cast<std::int64_t>(values.size()), values.data()),
                "set attribute");
    return *this;
  }

  struct Destroy {
    void operator()(void* raw) const { cudnnBackendDestroyDescriptor(raw); }
  };
  std::unique_ptr<void, Destroy> raw_;
};

}  // namespace slift::kernels::cuda
