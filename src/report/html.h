// The few tools that writing safe HTML needs.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace slift {

// Text for use between tags and in quoted attributes.
std::string escape_html(std::string_view text);

// JSON for a <script> block: no '<' occurs in it, so nothing in it can end the block.
std::string json_for_script(const nlohmann::json& data);

// JavaScript for a <script> block: "</script" in its strings is written so that it cannot end it.
std::string code_for_script(std::string_view code);

// Replaces each {{name}} of `page` by values.at(name), once: values are not searched again. Throws
// std::logic_error for a name without a value (a mistake in the page, not the user's).
std::string fill_template(std::string_view page, const std::map<std::string, std::string>& values);

}  // namespace slift
