#include "training/same_data.h"

#include "core/errors.h"

namespace slift {

using nlohmann::json;

namespace {

// The scales come last: where the shape differs, that is the better reason.
std::vector<std::pair<std::string, json>> identity_of(const ModelSpec& spec) {
  std::vector<std::pair<std::string, json>> parts = {{"state_shape", spec.state_shape},
                                                     {"system", spec.system},
                                                     {"boundary", spec.boundary},
                                                     {"dt", spec.dt},
                                                     {"fields", spec.fields}};
  for (const char* key : {"members", "steps", "seed"}) {
    parts.emplace_back(key, spec.data.value(key, json()));
  }
  parts.emplace_back("mean", spec.normaliser.mean);
  parts.emplace_back("std", spec.normaliser.std);
  parts.emplace_back("delta_std", spec.normaliser.delta_std);
  return parts;
}

// States may have thousands of components.
std::string brief(const json& value) {
  constexpr std::size_t kLongest = 60;
  const std::string text = value.dump();
  return text.size() <= kLongest ? text : fmt::format("{}...", text.substr(0, kLongest));
}

}  // namespace

void require_same_data(const ModelSpec& started, const ModelSpec& now, const std::string& run) {
  const auto before = identity_of(started), after = identity_of(now);
  for (std::size_t i = 0; i < before.size(); ++i) {
    require(before[i].second == after[i].second,
            "{}: the data are not those this run was trained on: {} was {}, now it is {}", run,
            before[i].first, brief(before[i].second), brief(after[i].second));
  }
}

}  // namespace slift
