#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <hdf5.h>
#include <torch/cuda.h>

#include <thread>

#include "cli/command.h"
#include "report/assets.h"
#include "tensor/runtime.h"
#include "training/ranks.h"

namespace slift::cli {

namespace {

void diagnose() {
  const BlasInfo blas = inspect_blas();
#ifdef SLIFT_WITH_CUDA
  const bool cuda_built = true;
#else
  const bool cuda_built = false;
#endif
  const bool cuda_usable = cuda_built && torch::cuda::is_available();
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  const std::string hdf5 = fmt::format("{}.{}.{}", major, minor, release);
  const bool charts = !assets::chart_js.empty();
  std::vector<std::string> warnings;
  if (blas.slow) {
    warnings.push_back(
        "the BLAS is slow: install libopenblas0-openmp beside LibTorch (tools/setup.sh does)");
  }
  if (!charts) warnings.push_back("reports have no charts: build with libjs-chart.js installed");
  const nlohmann::json result = {{"version", SLIFT_VERSION},
                                 {"libtorch", torch_version()},
                                 {"blas", blas.name},
                                 {"gemm_gflops", blas.gemm_gflops},
                                 {"threads", at::get_num_threads()},
                                 {"cores", std::thread::hardware_concurrency()},
                                 {"cuda_built", cuda_built},
                                 {"cuda_usable", cuda_usable},
                                 {"cuda_devices", cuda_usable ? torch::cuda::device_count() : 0},
                                 {"ranks", rank_backends()},
                                 {"hdf5", hdf5},
                                 {"report_charts", charts},
                                 {"warnings", warnings}};
  std::string text;
  const auto line = [&text](const char* name, const std::string& value) {
    text += fmt::format("{:<14} {}\n", name, value);
  };
  line("slift", SLIFT_VERSION);
  line("LibTorch", torch_version());
  line("BLAS", blas.name);
  line("GEMM", fmt::format("{:.0f} GFLOP/s (float32, 512^3)", blas.gemm_gflops));
  line("threads",
       fmt::format("{} of {} cores", at::get_num_threads(), std::thread::hardware_concurrency()));
  line("CUDA", !cuda_built   ? "not built in (cmake --preset cuda)"
               : cuda_usable ? fmt::format("{} device(s)", torch::cuda::device_count())
                             : "built in, but no usable GPU here");
  line("ranks", rank_backends().empty()
                    ? "one process: build with libgloo-dev or NCCL's header for more"
                    : "training can use several processes (" + rank_backends() + ")");
  line("HDF5", hdf5);
  line("report charts", charts ? "yes" : "no");
  for (const std::string& warning : warnings) line("warning", warning);
  print_result(result, text);
}

}  // namespace

void declare_doctor(CLI::App& app) { app.callback(diagnose); }

}  // namespace slift::cli
