#include "core/config.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <sstream>

#include "core/atomic_file.h"
#include "core/errors.h"

namespace slift {

using nlohmann::json;

namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

json from_toml(const toml::node& node, const std::string& key, const std::string& source) {
  if (const auto* v = node.as_integer()) return v->get();
  if (const auto* v = node.as_floating_point()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get();
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* array = node.as_array()) {
    json list = json::array();
    for (const toml::node& element : *array) list.push_back(from_toml(element, key, source));
    return list;
  }
  if (const auto* table = node.as_table()) {
    json object = json::object();
    for (const auto& [name, child] : *table) {
      object[std::string(name.str())] = from_toml(child, std::string(name.str()), source);
    }
    return object;
  }
  fail("{}: {}: must be a number, a string, a truth value, a list or a section", source, key);
}

// A whole number that fits std::int64_t.
bool is_whole(const json& value) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  return value.is_number_unsigned() ? value.get<std::uint64_t>() <= kMost
                                    : value.is_number_integer();
}

std::string toml_value(const json& value) {
  std::string text = value.dump();
  if (value.is_number_float() && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

json parse_toml(const std::string& text, const std::string& source) {
  try {
    return from_toml(toml::parse(text), "", source);
  } catch (const toml::parse_error& error) {
    fail("{}:{}: not valid TOML: {}", source, error.source().begin.line, error.description());
  }
}

std::string Rule::describe() const {
  if (!choices.empty()) return fmt::format("one of {}", fmt::join(choices, ", "));
  if (std::isfinite(min) && std::isfinite(max)) return fmt::format("between {} and {}", min, max);
  if (std::isfinite(min)) return fmt::format("{} {}", min_excluded ? "above" : "at least", min);
  return "";
}

Rule at_least(double min) { return {.min = min, .choices = {}}; }
Rule above(double min) { return {.min = min, .min_excluded = true, .choices = {}}; }
Rule within(double min, double max) { return {.min = min, .max = max, .choices = {}}; }
Rule one_of(std::vector<std::string> choices) { return {.choices = std::move(choices)}; }

std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates) {
  const auto distance = [&name](const std::string& other) {
    std::vector<std::size_t> row(other.size() + 1);
    std::iota(row.begin(), row.end(), 0);
    for (std::size_t i = 1; i <= name.size(); ++i) {
      std::size_t diagonal = row[0];
      row[0] = i;
      for (std::size_t j = 1; j <= other.size(); ++j) {
        const std::size_t replace = diagonal + (name[i - 1] == other[j - 1] ? 0 : 1);
        diagonal = row[j];
        row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
      }
    }
    return row.back();
  };
  return *std::min_element(
      candidates.begin(), candidates.end(),
      [&](const std::string& a, const std::string& b) { return distance(a) < distance(b); });
}

void ConfigSchema::section(std::string name, std::string comment) {
  sections_.push_back({std::move(name), std::move(comment)});
}

void ConfigSchema::field(std::string key, Storage storage, Effect effect, std::string comment,
                         Rule rule) {
  fields_.push_back({sections_.back().name, std::move(key), storage, effect, std::move(comment),
                     std::move(rule)});
}

json ConfigSchema::Field::value() const {
  return std::visit([](const auto* v) { return json(*v); }, storage);
}

std::string ConfigSchema::Field::describe_rule() const {
  const std::string text = rule.describe();
  const bool is_list = std::holds_alternative<std::vector<std::int64_t>*>(storage);
  return is_list && !text.empty() ? "numbers " + text : text;
}

void ConfigSchema::Field::assign(const json& value, const std::string& source) const {
  const auto check = [&](double number) {
    const bool inside = std::isfinite(number) && number <= rule.max &&
                        (rule.min_excluded ? number > rule.min : number >= rule.min);
    const std::string text = describe_rule();
    require(inside, "{}: {} must be {}, got {}", source, path(), text.empty() ? "finite" : text,
            value.dump());
  };
  std::visit(Overloaded{[&](std::int64_t* v) {
                          require(is_whole(value), "{}: {} must be a whole number, got {}", source,
                                  path(), value.dump());
                          check(value.get<double>());
                          *v = value.get<std::int64_t>();
                        },
                        [&](double* v) {
                          require(value.is_number(), "{}: {} must be a number, got {}", source,
                                  path(), value.dump());
                          check(value.get<double>());
                          *v = value.get<double>();
                        },
                        [&](bool* v) {
                          require(value.is_boolean(), "{}: {} must be true or false, got {}",
                                  source, path(), value.dump());
                          *v = value.get<bool>();
                        },
                        [&](std::string* v) {
                          require(value.is_string(), "{}: {} must be a string, got {}", source,
                                  path(), value.dump());
                          const auto text = value.get<std::string>();
                          require(rule.choices.empty() ||
                                      std::find(rule.choices.begin(), rule.choices.end(), text) !=
                                          rule.choices.end(),
                                  "{}: {} must be {}, got {}", source, path(), rule.describe(),
                                  value.dump());
                          *v = text;
                        },
                        [&](std::vector<std::int64_t>* v) {
                          const bool whole =
                              value.is_array() && std::all_of(value.begin(), value.end(), is_whole);
                          require(whole, "{}: {} must be a list of whole numbers, got {}", source,
                                  path(), value.dump());
                          for (const json& element : value) check(element.get<double>());
                          *v = value.get<std::vector<std::int64_t>>();
                        }},
             storage);
}

const ConfigSchema::Field& ConfigSchema::find(const std::string& path,
                                              const std::string& source) const {
  std::vector<std::string> known;
  for (const Field& field : fields_) {
    if (field.path() == path) return field;
    known.push_back(field.path());
  }
  fail("{}: unknown key {}; the nearest valid key is {}", source, path, nearest_name(path, known));
}

void ConfigSchema::apply_file(const std::filesystem::path& toml_file) {
  apply_text(read_file(toml_file), toml_file.string());
}

void ConfigSchema::apply_text(const std::string& toml, const std::string& source) {
  apply_json(parse_toml(toml, source), source);
}

void ConfigSchema::apply_json(const json& object, const std::string& source) {
  for (const auto& [key, value] : object.items()) {
    if (!value.is_object()) {
      find(key, source).assign(value, source);
      continue;
    }
    for (const auto& [inner, inner_value] : value.items()) {
      find(key + "." + inner, source).assign(inner_value, source);
    }
  }
}

void ConfigSchema::apply_setting(const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  require(equals != std::string::npos && equals > 0, "--set {}: must have the form key=value",
          assignment);
  const std::string key = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  const Field& field = find(key, "--set");
  if (std::holds_alternative<std::string*>(field.storage)) {
    field.assign(text, "--set");
    return;
  }
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  field.assign(value.is_discarded() ? json(text) : value, "--set");
}

void ConfigSchema::require_same_results(const ConfigSchema& other,
                                        const std::string& source) const {
  for (const Field& field : fields_) {
    if (field.effect == Effect::kSpeed) continue;
    const json theirs = other.find(field.path(), source).value();
    require(field.value() == theirs, "{}: {} was {} when the run was started, now it is {}", source,
            field.path(), theirs.dump(), field.value().dump());
  }
}

std::string ConfigSchema::to_toml() const {
  std::ostringstream out;
  for (const Section& section : sections_) {
    if (!section.name.empty()) out << "\n# " << section.comment << "\n[" << section.name << "]\n";
    for (const Field& field : fields_) {
      if (field.section != section.name) continue;
      out << field.key << " = " << toml_value(field.value()) << "  # " << field.comment << "\n";
    }
  }
  return out.str();
}

json ConfigSchema::to_json() const {
  json object = json::object();
  for (const Field& field : fields_) {
    (field.section.empty() ? object : object[field.section])[field.key] = field.value();
  }
  return object;
}

std::string ConfigSchema::to_markdown() const {
  std::ostringstream out;
  for (const Section& section : sections_) {
    if (section.name.empty()) {
      out << "## Top level\n\n";
    } else {
      out << "\n## [" << section.name << "]\n\n" << section.comment << ".\n\n";
    }
    out << "| key | default | rule | effect | meaning |\n|---|---|---|---|---|\n";
    for (const Field& field : fields_) {
      if (field.section != section.name) continue;
      out << "| `" << field.key << "` | `" << toml_value(field.value()) << "` | "
          << field.describe_rule() << " | "
          << (field.effect == Effect::kResults ? "results" : "speed only") << " | " << field.comment
          << " |\n";
    }
  }
  return out.str();
}

}  // namespace slift
