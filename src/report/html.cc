#include "report/html.h"

#include <stdexcept>

namespace slift {

namespace {

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      case '\'':
        result += "&#39;";
        break;
      case '{':  // so that text is never taken for a placeholder
        result += "&#123;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

std::string json_for_script(const nlohmann::json& data) {
  using nlohmann::json;
  return replace_all(data.dump(-1, ' ', false, json::error_handler_t::replace), "<", "\\u003c");
}

std::string code_for_script(std::string_view code) {
  return replace_all(std::string(code), "</script", "<\\/script");
}

std::string fill_template(std::string_view page, const std::map<std::string, std::string>& values) {
  std::string result;
  for (std::size_t at = 0;;) {
    const std::size_t open = page.find("{{", at);
    result += page.substr(at, open - at);
    if (open == std::string_view::npos) return result;
    const std::size_t close = page.find("}}", open);
    if (close == std::string_view::npos) throw std::logic_error("report page: {{ without }}");
    const std::string name(page.substr(open + 2, close - open - 2));
    const auto value = values.find(name);
    if (value == values.end()) throw std::logic_error("report page: no value for {{" + name + "}}");
    result += value->second;
    at = close + 2;
  }
}

}  // namespace slift
