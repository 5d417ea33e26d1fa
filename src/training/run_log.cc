#include "training/run_log.h"

#include "core/atomic_file.h"
#include "core/errors.h"

namespace slift {

using nlohmann::json;

namespace {

void collect_numbers(const json& object, const std::string& prefix,
                     std::vector<std::pair<std::string, double>>& out) {
  for (const auto& [key, value] : object.items()) {
    if (value.is_object()) collect_numbers(value, prefix + key + "/", out);
    if (value.is_number()) out.emplace_back(prefix + key, value.get<double>());
    // Takes the parts of a list that name their step of a trajectory: gauge/t3/spread.
    if (!value.is_array()) continue;
    for (json part : value) {
      if (!part.contains("t")) continue;
      const std::string name = fmt::format("{}t{}/", prefix, part["t"].get<std::int64_t>());
      part.erase("t");
      collect_numbers(part, name, out);
    }
  }
}

}  // namespace

RunLog::RunLog(const std::filesystem::path& run, std::uint64_t bytes)
    : path_(run / "metrics.jsonl"), events_(run) {
  namespace fs = std::filesystem;
  if (!fs::exists(path_)) std::ofstream(path_).flush();
  require(fs::exists(path_), "{}: cannot write", path_.string());
  require(fs::file_size(path_) >= bytes, "{}: is shorter than its checkpoint says", path_.string());
  fs::resize_file(path_, bytes);
  lines_.open(path_, std::ios::app);
  require(lines_.good(), "{}: cannot write", path_.string());
  sync_to_disk(run);  // the name of a new file is content of its folder
}

void RunLog::sync() { sync_to_disk(path_); }

void RunLog::write(const json& line) {
  lines_ << line.dump() << '\n';
  lines_.flush();
  require(lines_.good(), "{}: cannot write", path_.string());
  std::vector<std::pair<std::string, double>> numbers;
  collect_numbers(line, "", numbers);
  std::erase_if(numbers, [](const auto& n) { return n.first == "step"; });
  events_.write(line.at("step").get<std::int64_t>(), numbers);
}

}  // namespace slift
