// A file of choices by name that programs share which run at the same time: the first to keep one
// decides for all of them, and for all later ones, so that the same work gives the same bits.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace slift::kernels {

class ChoiceFile {
 public:
  // The file and its folder need not exist. One that cannot be read is as one without choices.
  explicit ChoiceFile(std::filesystem::path path);

  // What this object has found or kept before, or what the file holds by now.
  std::optional<nlohmann::json> find(const std::string& name);

  // Keeps `choice` unless another program has kept one meanwhile, and returns the one that holds.
  // `useless` is the one that was found and is to be replaced, if any. Without a file that can be
  // written, `choice` holds for this object alone.
  nlohmann::json keep(const std::string& name, const nlohmann::json& choice,
                      const std::optional<nlohmann::json>& useless = {});

  const std::filesystem::path& path() const { return path_; }

 private:
  nlohmann::json read() const;  // an object

  std::filesystem::path path_;
  std::map<std::string, nlohmann::json> choices_;  // that were found or kept
  bool warned_ = false;                            // that they cannot be kept
};

}  // namespace slift::kernels
