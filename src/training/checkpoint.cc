#include "training/checkpoint.h"

#include <algorithm>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "methods/transition_model.h"
#include "tensor/safetensors.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kKept = 2;
constexpr const char* kPrefix = "step-";
constexpr const char* kUnfinished = ".partial";

std::vector<fs::path> finished_checkpoints(const fs::path& folder) {
  std::vector<fs::path> found;
  if (!fs::exists(folder)) return found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(kPrefix) && !name.ends_with(kUnfinished)) found.push_back(entry.path());
  }
  // Eight digits at least, more from step 10^8 on.
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    const std::string x = a.filename().string(), y = b.filename().string();
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  });
  return found;
}

// Under another name first: half a checkpoint must never be taken for a whole one.
void remove_checkpoint(const fs::path& checkpoint) {
  const fs::path doomed = checkpoint.string() + kUnfinished;
  std::error_code error;
  fs::remove_all(doomed, error);
  fs::rename(checkpoint, doomed, error);
  if (!error) fs::remove_all(doomed, error);
}

}  // namespace

CheckpointFolder::CheckpointFolder(const fs::path& run) : folder_(run / "checkpoints") {}

void CheckpointFolder::clear() {
  const fs::path doomed = folder_.string() + kUnfinished;
  fs::remove_all(doomed);
  if (fs::exists(folder_)) fs::rename(folder_, doomed);
  fs::remove_all(doomed);
}

void CheckpointFolder::remove_unfinished() {
  fs::remove_all(folder_.string() + kUnfinished);
  if (!fs::exists(folder_)) return;
  std::vector<fs::path> stale;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.path().string().ends_with(kUnfinished)) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove_all(path);
}

void CheckpointFolder::save(std::int64_t step, const TransitionModel& model,
                            const TrainingState& state) {
  const fs::path final_path = folder_ / fmt::format("{}{:08}", kPrefix, step);
  if (fs::exists(final_path)) return;
  const fs::path partial = final_path.string() + kUnfinished;
  std::error_code error;
  fs::create_directories(partial, error);
  require(!error, "{}: cannot create folder: {}", partial.string(), error.message());
  try {
    save_model(partial / "model.safetensors", model);
    write_safetensors(partial / "state.safetensors",
                      {state.tensors, {{"counters", state.counters.dump()}}});
    sync_to_disk(partial);
    fs::rename(partial, final_path);
    sync_to_disk(folder_);
    sync_to_disk(folder_.parent_path());
  } catch (...) {
    fs::remove_all(partial, error);
    throw;
  }
  const auto all = finished_checkpoints(folder_);
  for (std::size_t i = 0; i + kKept < all.size(); ++i) remove_checkpoint(all[i]);
}

std::optional<fs::path> CheckpointFolder::newest() const {
  const auto all = finished_checkpoints(folder_);
  if (all.empty()) return std::nullopt;
  return all.back();
}

TrainingState CheckpointFolder::load(const fs::path& checkpoint) {
  const fs::path file = checkpoint / "state.safetensors";
  const SafeTensors content = read_safetensors(file);
  TrainingState state;
  state.tensors = content.tensors;
  const auto counters = content.metadata.find("counters");
  require(counters != content.metadata.end(), "{}: counters are missing", file.string());
  state.counters = nlohmann::json::parse(counters->second, nullptr, false);
  require(state.counters.is_object(), "{}: counters are broken", file.string());
  return state;
}

}  // namespace slift
