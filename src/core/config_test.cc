#include "core/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/errors.h"
#include "core/testing.h"

namespace slift {
namespace {

struct Example {
  std::int64_t width = 64;
  double rate = 1e-3;
  bool wide = false;
  std::string kind = "gelu";
  std::vector<std::int64_t> widths = {8, 16};

  ConfigSchema schema() {
    ConfigSchema s;
    s.field("wide", &wide, Effect::kResults, "is wide");
    s.section("net", "The network");
    s.field("width", &width, Effect::kResults, "units", at_least(1));
    s.field("rate", &rate, Effect::kResults, "rate", above(0));
    s.field("kind", &kind, Effect::kSpeed, "activation", one_of({"gelu", "silu"}));
    s.field("widths", &widths, Effect::kResults, "channels", within(1, 99));
    return s;
  }
};

std::string error_of_text(const std::string& toml) {
  Example e;
  return error_of([&] { e.schema().apply_text(toml, "file.toml"); });
}

TEST(Config, ReadsWhatItWrote) {
  Example a;
  a.width = 7, a.rate = 2, a.wide = true, a.kind = "silu", a.widths = {4, 5, 6};
  Example b;
  b.schema().apply_text(a.schema().to_toml(), "round trip");
  EXPECT_EQ(b.width, 7);
  EXPECT_EQ(b.rate, 2.0);
  EXPECT_TRUE(b.wide);
  EXPECT_EQ(b.kind, "silu");
  EXPECT_EQ(b.widths, (std::vector<std::int64_t>{4, 5, 6}));
  Example c;
  c.schema().apply_json(a.schema().to_json(), "json");
  EXPECT_EQ(c.schema().to_toml(), a.schema().to_toml());
}

TEST(Config, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(error_of_text("[net]\nwidht = 3"),
            "file.toml: unknown key net.widht; the nearest valid key is net.width");
}

TEST(Config, RulesNameFieldRuleAndValue) {
  EXPECT_EQ(error_of_text("[net]\nwidth = 0"), "file.toml: net.width must be at least 1, got 0");
  Example large;
  for (const std::string setting :
       {"net.width=18446744073709551615", "net.width=1e3", "net.widths=[18446744073709551615]"}) {
    EXPECT_NE(error_of([&] { large.schema().apply_setting(setting); }).find("whole number"),
              std::string::npos)
        << setting;
  }
  EXPECT_EQ(error_of_text("[net]\nrate = -1.5"), "file.toml: net.rate must be above 0, got -1.5");
  EXPECT_EQ(error_of_text("[net]\nwidth = 1.5"),
            "file.toml: net.width must be a whole number, got 1.5");
  EXPECT_EQ(error_of_text("[net]\nkind = 'relu'"),
            "file.toml: net.kind must be one of gelu, silu, got \"relu\"");
  EXPECT_EQ(error_of_text("[net]\nwidths = [3, 100]"),
            "file.toml: net.widths must be numbers between 1 and 99, got [3,100]");
  for (const std::string bad : {"3", "[3, 1.5]", "[[3]]", "['a']"}) {
    EXPECT_NE(
        error_of_text("[net]\nwidths = " + bad).find("net.widths must be a list of whole numbers"),
        std::string::npos)
        << bad;
  }
  EXPECT_EQ(error_of_text("[net]\nwidth = [3]"),
            "file.toml: net.width must be a whole number, got [3]");
  EXPECT_NE(error_of_text("[net]\nrate = nan"), "");
  EXPECT_NE(error_of_text("wide = 1"), "");
}

TEST(Config, BrokenTomlNamesTheLine) {
  EXPECT_EQ(error_of_text("wide = true\n[net\n").rfind("file.toml:2: not valid TOML", 0), 0u);
}

TEST(Config, SettingsOverride) {
  Example e;
  auto s = e.schema();
  s.apply_setting("net.kind=silu");
  s.apply_setting("net.rate=0.5");
  EXPECT_EQ(e.kind, "silu");
  EXPECT_EQ(e.rate, 0.5);
  s.apply_setting("net.widths=[32, 64]");
  EXPECT_EQ(e.widths, (std::vector<std::int64_t>{32, 64}));
  s.apply_setting("net.widths=[]");
  EXPECT_TRUE(e.widths.empty());
  EXPECT_THROW(s.apply_setting("net.widths=32,64"), UserError);
  EXPECT_THROW(s.apply_setting("net.rate=fast"), UserError);
  EXPECT_THROW(s.apply_setting("net.rate"), UserError);
  EXPECT_THROW(s.apply_setting("net.speed=1"), UserError);
}

TEST(Config, OnlyFieldsThatChangeResultsMustAgree) {
  Example a, b;
  b.kind = "silu";  // speed only
  EXPECT_NO_THROW(a.schema().require_same_results(b.schema(), "x"));
  b.width = 65;
  EXPECT_EQ(error_of([&] { a.schema().require_same_results(b.schema(), "x"); }),
            "x: net.width was 65 when the run was started, now it is 64");
  b.width = a.width, b.widths = {8};
  EXPECT_EQ(error_of([&] { a.schema().require_same_results(b.schema(), "x"); }),
            "x: net.widths was [8] when the run was started, now it is [8,16]");
}

TEST(Config, MarkdownListsEveryField) {
  Example e;
  const std::string text = e.schema().to_markdown();
  for (const char* key :
       {"`width`", "`rate`", "`kind`", "`wide`", "| `widths` | `[8,16]` | numbers between"}) {
    EXPECT_NE(text.find(key), std::string::npos) << key;
  }
}

}  // namespace
}  // namespace slift
