#include "tensor/kernel_profile.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/errors.h"

#ifdef SLIFT_WITH_CUPTI
#include <cupti.h>
#include <torch/cuda.h>

#include <map>
#include <mutex>
#include <new>
#endif

namespace slift {
namespace {

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

void erase_all(std::string& text, const std::string& part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

// Cuts at the bracket that opens the parameters: the first one outside of all template arguments.
std::string without_parameters(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (text[i] == '(' && depth == 0) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::string shorten_kernel_name(const std::string& name) {
  std::string text = demangled(name);
  if (text == name) return name;
  for (const char* noise : {"(anonymous namespace)::", "at::native::", "slift::kernels::cuda::"}) {
    erase_all(text, noise);
  }
  text = without_parameters(text);
  if (text.starts_with("void ")) text.erase(0, 5);
  return text;
}

#ifdef SLIFT_WITH_CUPTI

namespace {

// What CUPTI's callbacks write to, from a thread of CUPTI's own.
struct Recorded {
  std::mutex mutex;
  std::map<std::string, KernelTime> by_name;
  bool lost = false;
};

Recorded& recorded() {
  static Recorded records;
  return records;
}

constexpr std::size_t kBufferBytes = 8 << 20, kBufferAlignment = 8;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t valid) {
  Recorded& records = recorded();
  const std::lock_guard lock(records.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    // Later versions of the record only append fields.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    KernelTime& sum = records.by_name[kernel->name];
    ++sum.calls;
    sum.ms += static_cast<double>(kernel->end - kernel->start) * 1e-6;
  }
  std::size_t dropped = 0;
  cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped);
  records.lost = records.lost || dropped > 0;
  std::free(buffer);
}

void check(CUptiResult result, const char* action) {
  if (result == CUPTI_SUCCESS) return;
  const char* reason = "unknown error";
  cuptiGetResultString(result, &reason);
  throw std::runtime_error(fmt::format("CUPTI cannot {}: {}", action, reason));
}

// Kernels are recorded as long as it lives.
class Recording {
 public:
  Recording() {
    check(cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "register its callbacks");
    check(cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL), "record kernels");
  }
  ~Recording() { cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Has all records of finished kernels delivered.
  void deliver() {
    check(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "deliver its records");
  }
};

}  // namespace

std::vector<KernelTime> profile_kernels(const std::function<void()>& work) {
  torch::cuda::synchronize();  // kernels of earlier work are not this work's
  Recorded& records = recorded();
  Recording recording;
  {
    const std::lock_guard lock(records.mutex);
    records.by_name.clear();
    records.lost = false;
  }
  work();
  torch::cuda::synchronize();
  recording.deliver();
  const std::lock_guard lock(records.mutex);
  if (records.lost) throw std::runtime_error("CUPTI lost records of kernels");
  std::vector<KernelTime> kernels;
  for (const auto& [name, sum] : records.by_name) {
    kernels.push_back({shorten_kernel_name(name), sum.calls, sum.ms});
  }
  std::sort(kernels.begin(), kernels.end(),
            [](const KernelTime& a, const KernelTime& b) { return a.ms > b.ms; });
  return kernels;
}

#else

std::vector<KernelTime> profile_kernels(const std::function<void()>&) {
  fail("a table of kernels needs a GPU and a slift that was built with CUPTI");
}

#endif

}  // namespace slift
