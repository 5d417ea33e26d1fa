#include "report/text.h"

#include <array>

namespace slift {

namespace {

constexpr int kAdvance = 6;  // five columns of a glyph and one between

// Glyphs side by side; the bars keep them apart for the eye and are never drawn.
struct GlyphBank {
  std::string_view characters;
  std::array<std::string_view, kTextHeight> rows;
};

constexpr std::array<GlyphBank, 2> kBanks = {{
    {"0123456789",
     {" ### |  #  | ### | ### |   # |#####| ### |#####| ### | ### |",
      "#   #| ##  |#   #|#   #|  ## |#    |#    |    #|#   #|#   #|",
      "#  ##|  #  |    #|    #| # # |#### |#    |   # |#   #|#   #|",
      "# # #|  #  |   # |  ## |#  # |    #|#### |  #  | ### | ####|",
      "##  #|  #  |  #  |    #|#####|    #|#   #| #   |#   #|    #|",
      "#   #|  #  | #   |#   #|   # |#   #|#   #| #   |#   #|    #|",
      " ### | ### |#####| ### |   # | ### | ### | #   | ### | ### |"}},
    {".-+=tedium",
     {"     |     |     |     | #   |     |    #|  #  |     |     |",
      "     |     |     |     | #   |     |    #|     |     |     |",
      "     |     |  #  |#####|#### | ### | ####| ##  |#   #|## # |",
      "     |#####|#####|     | #   |#   #|#   #|  #  |#   #|# # #|",
      "     |     |  #  |#####| #   |#####|#   #|  #  |#   #|# # #|",
      " ##  |     |     |     | #  #|#    |#   #|  #  |#   #|# # #|",
      " ##  |     |     |     |  ## | ####| ####| ### | ####|# # #|"}},
}};

bool is_inked(char character, int row, int column) {
  for (const GlyphBank& bank : kBanks) {
    const std::size_t glyph = bank.characters.find(character);
    if (glyph == std::string_view::npos) continue;
    return bank.rows[static_cast<std::size_t>(row)]
                    [glyph * kAdvance + static_cast<std::size_t>(column)] == '#';
  }
  return false;
}

}  // namespace

int text_width(std::string_view text, int scale) {
  return text.empty() ? 0 : (static_cast<int>(text.size()) * kAdvance - 1) * scale;
}

void draw_text(Image& image, int x, int y, std::string_view text, int scale, Rgb colour) {
  for (int dy = 0; dy < kTextHeight * scale; ++dy) {
    for (int dx = 0; dx < text_width(text, scale); ++dx) {
      const int px = x + dx, py = y + dy, column = dx / scale;
      if (px < 0 || px >= image.width() || py < 0 || py >= image.height()) continue;
      if (column % kAdvance == kAdvance - 1) continue;  // the gap between two glyphs
      const char character = text[static_cast<std::size_t>(column / kAdvance)];
      if (is_inked(character, dy / scale, column % kAdvance)) image.at(px, py) = colour;
    }
  }
}

}  // namespace slift
