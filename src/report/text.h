// Small labels in pictures ("t = 2.8", "medium"): a font of 5 x 7 pixels, kept as a drawing.
#pragma once

#include <string_view>

#include "report/picture.h"

namespace slift {

inline constexpr int kTextHeight = 7;  // times the scale

// What draw_text() covers from the first to the last pixel column.
int text_width(std::string_view text, int scale);

// Draws `text` with its upper left corner at (x, y); every pixel of the font becomes a square of
// `scale` pixels. Characters the font lacks stay blank, what falls outside the image is cut off.
void draw_text(Image& image, int x, int y, std::string_view text, int scale, Rgb colour);

}  // namespace slift
