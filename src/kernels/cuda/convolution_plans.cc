// Finds the fastest plan of a convolution, and remembers it in a file:
//   $XDG_CACHE_HOME/slift/convolutions-GENERATION-GPU-cudnnVERSION.json, by default below ~/.cache.
// An entry per problem: {"engine": index, "knobs": [[type, value], ...], "ms": time} of cuDNN, or
// {"tiling": [rows, outputs, split], "ms": time} of our own.
#include "kernels/cuda/convolution_plans.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <variant>

#include "core/log.h"
#include "kernels/choice_file.h"
#include "kernels/cuda/tile_convolution.h"

namespace slift::kernels::cuda {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kGeneration = 3;  // of our kernels: a new one makes the old times worthless
constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 30;
constexpr std::size_t kMostCandidates = 64;  // cuDNN proposes the likely ones first
constexpr std::int64_t kMostProposals = 256;
constexpr int kFinalists = 3;
// Plans whose first run takes so many ms have no other; the first loads the kernel as well.
constexpr float kPatience = 10;
constexpr float kShort = 0.03f;  // ms; cuDNN proposes less well for problems that take so little
// Our own kernel may take so much longer and is still chosen: it moves fewer bytes, and what limits
// a long row of steps is the power they take.
constexpr float kPreference = 1.05f;

void check_cuda(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

std::string gpu_name() {
  int device = 0;
  cudaDeviceProp properties{};
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::string name = properties.name;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

fs::path plan_file() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const fs::path folder = cache && *cache ? fs::path(cache)
                          : home && *home ? fs::path(home) / ".cache"
                                          : fs::temp_directory_path();
  return folder / "slift" /
         fmt::format("convolutions-{}-{}-cudnn{}.json", kGeneration, gpu_name(), cudnnGetVersion());
}

using ConvChoice = std::variant<Tiling, CudnnChoice>;

json to_json(const ConvChoice& choice, float ms) {
  if (const auto* tiling = std::get_if<Tiling>(&choice)) {
    return {{"tiling", {tiling->rows, tiling->outputs, tiling->split}}, {"ms", ms}};
  }
  const auto& cudnn = std::get<CudnnChoice>(choice);
  return {{"engine", cudnn.engine}, {"knobs", cudnn.knobs}, {"ms", ms}};
}

ConvChoice choice_from(const json& entry) {
  if (entry.contains("tiling")) {
    const auto numbers = entry["tiling"].get<std::vector<int>>();
    return Tiling{numbers.at(0), numbers.at(1), numbers.at(2)};
  }
  return CudnnChoice{entry.at("engine").get<std::int64_t>(),
                     entry.at("knobs").get<std::vector<std::pair<std::int64_t, std::int64_t>>>()};
}

class TilePlan : public ConvPlan {
 public:
  TilePlan(const ConvProblem& problem, const Tiling& tiling) : problem_(problem), tiling_(tiling) {}
  void run(const ConvOperands& operands, void*, void* stream) const override {
    convolve_tiles(problem_, tiling_, operands, stream);
  }

 private:
  ConvProblem problem_;
  Tiling tiling_;
};

// Makes plans of one problem.
class Planner {
 public:
  explicit Planner(const ConvProblem& problem) : problem_(problem) {}

  bool for_cudnn() const {
    return problem_.mixed_a + problem_.mixed_b == 0 && !problem_.periodic && !problem_.grows;
  }

  const std::shared_ptr<const ConvGraph>& graph() {
    if (!graph_) graph_ = std::make_shared<const ConvGraph>(problem_);
    return graph_;
  }

  std::unique_ptr<ConvPlan> plan(const ConvChoice& choice) {
    if (const auto* tiling = std::get_if<Tiling>(&choice)) {
      const std::vector<Tiling> known = tilings(problem_);
      if (!gpu_runs_tiles() || std::find(known.begin(), known.end(), *tiling) == known.end()) {
        throw std::runtime_error("there is no such tiling");
      }
      return std::make_unique<TilePlan>(problem_, *tiling);
    }
    return make_plan(graph(), std::get<CudnnChoice>(choice));
  }

 private:
  ConvProblem problem_;
  std::shared_ptr<const ConvGraph> graph_;  // once it is needed
};

// Those that give the same bits every time, the likely ones first.
std::vector<ConvChoice> proposals(const ConvGraph& graph) {
  std::vector<ConvChoice> found;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    try {
      heuristics.set_descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.descriptor())
          .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
          .finalize();
    } catch (const std::runtime_error&) {
      continue;  // nothing to propose in this mode
    }
    for (const Descriptor& config : heuristics.get_descriptors(
             CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostProposals)) {
      const std::vector<Descriptor> engine =
          config.get_descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
      const auto notes = engine.at(0).get_all<cudnnBackendNumericalNote_t>(
          CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
      if (std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) !=
          notes.end()) {
        continue;
      }
      CudnnChoice choice{engine[0].get<std::int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX), {}};
      for (const Descriptor& knob :
           config.get_descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                  CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
        choice.knobs.emplace_back(
            knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE),
            knob.get<std::int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
      }
      found.emplace_back(std::move(choice));
    }
  }
  if (found.size() > kMostCandidates) found.resize(kMostCandidates);
  return found;
}

class Timer {
 public:
  Timer() {
    check_cuda(cudaEventCreate(&begin_), "cudaEventCreate");
    check_cuda(cudaEventCreate(&end_), "cudaEventCreate");
    // LibTorch may hold most of the GPU's memory: plans that need more than is left are not tried.
    for (bytes_ = kMostWorkspace; bytes_ > 0; bytes_ /= 4) {
      if (cudaMalloc(&workspace_, static_cast<std::size_t>(bytes_)) == cudaSuccess) return;
      cudaGetLastError();  // or the next launch would be blamed
    }
  }
  ~Timer() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
    cudaFree(workspace_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  std::int64_t workspace_bytes() const { return bytes_; }

  // Milliseconds of one run, the least of `repeats` after a first one, or the first's if that was
  // long and longer than `best`.
  float time(const ConvPlan& plan, const ConvOperands& operands, int repeats, float best,
             void* stream) {
    const auto queue = static_cast<cudaStream_t>(stream);
    float least = std::numeric_limits<float>::max();
    for (int i = 0; i <= repeats; ++i) {
      check_cuda(cudaEventRecord(begin_, queue), "cudaEventRecord");
      plan.run(operands, workspace_, stream);
      check_cuda(cudaEventRecord(end_, queue), "cudaEventRecord");
      check_cuda(cudaEventSynchronize(end_), "convolution");
      float ms = 0;
      check_cuda(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
      if (i == 0 && ms > std::max(kPatience, 3 * best)) return ms;
      if (i > 0) least = std::min(least, ms);
    }
    return least;
  }

 private:
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  void* workspace_ = nullptr;
  std::int64_t bytes_ = 0;
};

struct Timed {
  float ms;
  ConvChoice choice;
  std::unique_ptr<ConvPlan> plan;

  bool operator<(const Timed& other) const { return cost() < other.cost(); }
  float cost() const { return std::holds_alternative<Tiling>(choice) ? ms / kPreference : ms; }
};

// `choice` with other tiles, in clusters of few blocks; nothing if its engine has no such knobs.
std::vector<ConvChoice> variations(const CudnnChoice& choice) {
  constexpr int kTiles = 12;  // beyond the largest number of one
  std::vector<ConvChoice> found;
  for (std::int64_t tile = 0; tile < kTiles; ++tile) {
    for (const auto& [rows, columns] : {std::pair{1, 1}, {1, 2}, {2, 1}, {1, 4}, {2, 4}}) {
      const std::map<std::int64_t, std::int64_t> wanted = {{CUDNN_KNOB_TYPE_TILE_SIZE, tile},
                                                           {CUDNN_KNOB_TYPE_TILE_CGA_M, rows},
                                                           {CUDNN_KNOB_TYPE_TILE_CGA_N, columns}};
      CudnnChoice other = choice;
      std::size_t changed = 0;
      for (auto& [type, value] : other.knobs) {
        if (const auto knob = wanted.find(type); knob != wanted.end()) {
          value = knob->second;
          ++changed;
        }
      }
      if (changed == wanted.size()) found.emplace_back(std::move(other));
    }
  }
  return found;
}

Timed tune(const ConvProblem& problem, const ConvOperands& operands, void* stream) {
  check_cuda(cudaDeviceSynchronize(), "before tuning a convolution");  // work of other streams
  Planner planner(problem);
  Timer timer;
  std::vector<Timed> timed;
  float best = std::numeric_limits<float>::max();
  const auto try_all = [&](const std::vector<ConvChoice>& choices) {
    for (const ConvChoice& choice : choices) {
      try {
        std::unique_ptr<ConvPlan> plan = planner.plan(choice);
        if (plan->workspace_bytes() > timer.workspace_bytes()) continue;
        const float ms = timer.time(*plan, operands, 2, best, stream);
        best = std::min(best, ms);
        timed.push_back({ms, choice, std::move(plan)});
      } catch (const std::runtime_error&) {
        cudaGetLastError();  // not supported on this GPU after all
      }
    }
    std::sort(timed.begin(), timed.end());
  };
  if (gpu_runs_tiles()) {
    const std::vector<Tiling> own = tilings(problem);
    try_all({own.begin(), own.end()});
  }
  if (planner.for_cudnn()) try_all(proposals(*planner.graph()));
  if (timed.empty()) throw std::runtime_error("there is no plan for " + problem.key());
  const auto* cudnn = std::get_if<CudnnChoice>(&timed.front().choice);
  if (cudnn != nullptr && timed.front().ms < kShort) try_all(variations(CudnnChoice(*cudnn)));
  if (timed.size() > kFinalists) timed.erase(timed.begin() + kFinalists, timed.end());
  for (Timed& t : timed) t.ms = timer.time(*t.plan, operands, 10, best, stream);
  return std::move(*std::min_element(timed.begin(), timed.end()));
}

// Of one GPU: the plans in use, made of the choices its file holds.
class PlanStore {
 public:
  PlanStore() : file_(plan_file()) {}

  const ConvPlan& plan(const ConvProblem& problem, const ConvOperands& operands, void* stream) {
    const std::string key = problem.key();
    std::unique_ptr<ConvPlan>& plan = plans_[key];
    if (plan) return *plan;
    Planner planner(problem);
    const std::optional<json> found = file_.find(key);
    if (found) {
      try {
        plan = planner.plan(choice_from(*found));
        return *plan;
      } catch (const std::exception& error) {
        spdlog::warn("{}: {} is of no use and tuned anew: {}", file_.path().string(), key,
                     error.what());
      }
    }
    Timed best = tune(problem, operands, stream);
    const json own = to_json(best.choice, best.ms), kept = file_.keep(key, own, found);
    spdlog::debug("convolution {}: {}", key, kept.dump());
    plan = kept == own ? std::move(best.plan) : planner.plan(choice_from(kept));
    return *plan;
  }

 private:
  ChoiceFile file_;
  std::map<std::string, std::unique_ptr<ConvPlan>> plans_;
};

}  // namespace

const ConvPlan& tuned_plan(const ConvProblem& problem, const ConvOperands& operands, void* stream) {
  static std::mutex mutex;
  // By GPU. Never destroyed: cuDNN may be gone by then.
  static auto& stores = *new std::map<int, PlanStore>;
  const std::lock_guard lock(mutex);
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return stores[device].plan(problem, operands, stream);
}

}  // namespace slift::kernels::cuda
