// Configuration: a plain struct with in-class defaults, bound once to key names.
//
// A ConfigSchema lists the fields of such a struct: key, storage, effect, comment, rule. The same
// list reads TOML files and `--set a.b=c`, rejects unknown keys, writes the resolved file and
// generates docs/config.md. It points into the struct, which must outlive it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>
#include <vector>

namespace slift {

// Whether changing a field can change the numbers that come out.
enum class Effect { kResults, kSpeed };

// What a value must satisfy. Numbers are bounded, strings are one of `choices` unless it is empty;
// of a list, every element.
struct Rule {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_excluded = false;
  std::vector<std::string> choices;

  std::string describe() const;  // "at least 1", "one of gelu, silu"; empty if there is no rule
};

Rule at_least(double min);
Rule above(double min);
Rule within(double min, double max);
Rule one_of(std::vector<std::string> choices);

class ConfigSchema {
 public:
  using Storage =
      std::variant<std::int64_t*, double*, bool*, std::string*, std::vector<std::int64_t>*>;

  // The fields that follow belong to `[name]`; call before them. Fields before any section are
  // top-level keys.
  void section(std::string name, std::string comment);
  void field(std::string key, Storage storage, Effect effect, std::string comment, Rule rule = {});

  // Each throws UserError naming source, key, rule and value, and may leave fields half-applied.
  void apply_file(const std::filesystem::path& toml_file);
  void apply_text(const std::string& toml, const std::string& source);
  void apply_setting(const std::string& assignment);  // "net.width=64", "net.widths=[32,64]"
  void apply_json(const nlohmann::json& object, const std::string& source);

  // Throws UserError naming the first field that changes results and whose value is not that of
  // `other`, a schema of the same struct.
  void require_same_results(const ConfigSchema& other, const std::string& source) const;

  std::string to_toml() const;      // every field, with comments
  nlohmann::json to_json() const;   // nested by section
  std::string to_markdown() const;  // tables, one per section

 private:
  struct Section {
    std::string name, comment;
  };
  struct Field {
    std::string section, key;
    Storage storage;
    Effect effect;
    std::string comment;
    Rule rule;

    std::string path() const { return section.empty() ? key : section + "." + key; }
    nlohmann::json value() const;
    std::string describe_rule() const;  // as Rule's, "numbers at least 1" for lists
    void assign(const nlohmann::json& value, const std::string& source) const;
  };
  const Field& find(const std::string& path, const std::string& source) const;

  std::vector<Section> sections_ = {{"", ""}};
  std::vector<Field> fields_;
};

// A TOML document as JSON. Throws UserError naming `source` and the line if it is not valid.
nlohmann::json parse_toml(const std::string& text, const std::string& source);

// The candidate with the smallest edit distance to `name`; candidates must not be empty.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace slift
