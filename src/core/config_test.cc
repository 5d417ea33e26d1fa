#include "core/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/errors.h"

namespace slift {
namespace {

struct Example {
  std::int64_t width = 64;
  double rate = 1e-3;
  bool wide = false;
  std::string kind = "gelu";

  ConfigSchema schema() {
    ConfigSchema s;
    s.field("wide", &wide, Effect::kResults, "is wide");
    s.section("net", "The network");
    s.field("width", &width, Effect::kResults, "units", at_least(1));
    s.field("rate", &rate, Effect::kResults, "rate", above(0));
    s.field("kind", &kind, Effect::kSpeed, "activation", one_of({"gelu", "silu"}));
    return s;
  }
};

std::string error_of(const std::string& toml) {
  Example e;
  try {
    e.schema().apply_text(toml, "file.toml");
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(Config, ReadsWhatItWrote) {
  Example a;
  a.width = 7, a.rate = 2, a.wide = true, a.kind = "silu";
  Example b;
  b.schema().apply_text(a.schema().to_toml(), "round trip");
  EXPECT_EQ(b.width, 7);
  EXPECT_EQ(b.rate, 2.0);
  EXPECT_TRUE(b.wide);
  EXPECT_EQ(b.kind, "silu");
  Example c;
  c.schema().apply_json(a.schema().to_json(), "json");
  EXPECT_EQ(c.schema().to_toml(), a.schema().to_toml());
}

TEST(Config, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(error_of("[net]\nwidht = 3"),
            "file.toml: unknown key net.widht; the nearest valid key is net.width");
}

TEST(Config, RulesNameFieldRuleAndValue) {
  EXPECT_EQ(error_of("[net]\nwidth = 0"), "file.toml: net.width must be at least 1, got 0");
  EXPECT_EQ(error_of("[net]\nrate = -1.5"), "file.toml: net.rate must be above 0, got -1.5");
  EXPECT_EQ(error_of("[net]\nwidth = 1.5"), "file.toml: net.width must be a whole number, got 1.5");
  EXPECT_EQ(error_of("[net]\nkind = 'relu'"),
            "file.toml: net.kind must be one of gelu, silu, got \"relu\"");
  EXPECT_NE(error_of("[net]\nrate = nan"), "");
  EXPECT_NE(error_of("wide = 1"), "");
}

TEST(Config, BrokenTomlNamesTheLine) {
  EXPECT_EQ(error_of("wide = true\n[net\n").rfind("file.toml:2: not valid TOML", 0), 0u);
}

TEST(Config, SettingsOverride) {
  Example e;
  auto s = e.schema();
  s.apply_setting("net.kind=silu");
  s.apply_setting("net.rate=0.5");
  EXPECT_EQ(e.kind, "silu");
  EXPECT_EQ(e.rate, 0.5);
  EXPECT_THROW(s.apply_setting("net.rate=fast"), UserError);
  EXPECT_THROW(s.apply_setting("net.rate"), UserError);
  EXPECT_THROW(s.apply_setting("net.speed=1"), UserError);
}

TEST(Config, MarkdownListsEveryField) {
  Example e;
  const std::string text = e.schema().to_markdown();
  for (const char* key : {"`width`", "`rate`", "`kind`", "`wide`"}) {
    EXPECT_NE(text.find(key), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace slift
