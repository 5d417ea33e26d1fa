// What the CUDA side of the systems shares: device memory, uploads, error checks.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace slift::cuda {

// Usable devices; 0 if there is no driver.
int device_count();

// Throws std::runtime_error naming `what` if the last CUDA call or launch failed.
void check(const char* what);

// Waits for the device, then checks.
void synchronise(const char* what);

void* allocate(std::size_t bytes);
void release(void* memory) noexcept;
void copy_to_device(void* to, const void* from, std::size_t bytes);
void copy_to_host(void* to, const void* from, std::size_t bytes);  // waits

// Owns `size` elements of device memory.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size)
      : data_(static_cast<T*>(allocate(size * sizeof(T)))), size_(size) {}
  explicit DeviceArray(std::span<const T> host) : DeviceArray(host.size()) {
    copy_to_device(data_, host.data(), host.size_bytes());
  }
  ~DeviceArray() { release(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  void upload(std::span<const T> host) { copy_to_device(data_, host.data(), host.size_bytes()); }
  void download(std::span<T> host) const { copy_to_host(host.data(), data_, host.size_bytes()); }

 private:
  T* data_;
  std::size_t size_;
};

}  // namespace slift::cuda
