#include "report/text.h"

#include <gtest/gtest.h>

#include <set>

namespace slift {
namespace {

constexpr Rgb kWhite = {255, 255, 255}, kBlack = {0, 0, 0};

std::string picture_of(std::string_view text, int scale = 1) {
  Image image(text_width(text, scale), kTextHeight * scale);
  draw_text(image, 0, 0, text, scale, kBlack);
  std::string picture;
  for (int y = 0; y < image.height(); ++y) {
    for (int x = 0; x < image.width(); ++x) picture += image.at(x, y) == kBlack ? '#' : ' ';
    picture += '\n';
  }
  return picture;
}

TEST(Text, DrawsGlyphsSideBySide) {
  EXPECT_EQ(picture_of("t=4"),
            " #             # \n"
            " #            ## \n"
            "####  #####  # # \n"
            " #          #  # \n"
            " #    ##### #####\n"
            " #  #          # \n"
            "  ##           # \n");
}

TEST(Text, EveryCharacterOfALabelHasAGlyphOfItsOwn) {
  std::set<std::string> pictures;
  const std::string_view characters = " 0123456789.-+=tedium";
  for (const char c : characters) pictures.insert(picture_of(std::string(1, c)));
  EXPECT_EQ(pictures.size(), characters.size());
  EXPECT_EQ(picture_of("%"), picture_of(" "));
}

TEST(Text, ScalesAndIsCutOffAtTheEdge) {
  EXPECT_EQ(text_width("", 2), 0);
  EXPECT_EQ(text_width("10", 2), 22);
  Image image(4, 4, kWhite);
  draw_text(image, 2, 2, "5", 2, kBlack);       // its upper left pixel is inked
  draw_text(image, -20, -20, "88", 1, kBlack);  // nothing to see
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 4; ++x) EXPECT_EQ(image.at(x, y), x >= 2 && y >= 2 ? kBlack : kWhite);
  }
}

}  // namespace
}  // namespace slift
