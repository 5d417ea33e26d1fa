#include "kernels/choice_file.h"

#include <utility>

#include "core/atomic_file.h"
#include "core/file_lock.h"
#include "core/log.h"

namespace slift::kernels {

namespace fs = std::filesystem;
using nlohmann::json;

ChoiceFile::ChoiceFile(fs::path path) : path_(std::move(path)) {}

json ChoiceFile::read() const {
  try {
    if (fs::exists(path_)) return json::parse(read_file(path_)).get<json::object_t>();
  } catch (const std::exception& error) {
    spdlog::warn("{}: not readable: {}", path_.string(), error.what());
  }
  return json::object();
}

std::optional<json> ChoiceFile::find(const std::string& name) {
  const auto known = choices_.find(name);
  if (known != choices_.end()) return known->second;
  const json held = read();
  if (!held.contains(name)) return std::nullopt;
  return choices_[name] = held[name];
}

json ChoiceFile::keep(const std::string& name, const json& choice,
                      const std::optional<json>& useless) {
  choices_[name] = choice;
  try {
    const FileLock lock(path_.string() + ".lock");
    json held = read();
    if (held.contains(name) && held[name] != useless) {
      choices_[name] = held[name];
    } else {
      held[name] = choice;
      write_file_atomically(path_, held.dump(1));
    }
  } catch (const std::exception& error) {
    if (!std::exchange(warned_, true)) {
      spdlog::warn("{}: not kept, other runs may choose others: {}", path_.string(), error.what());
    }
  }
  return choices_[name];
}

}  // namespace slift::kernels
