// Small pictures for reports and previews: point clouds and fields to RGB pixels, pixels to PNG and
// base64.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace slift {

using Rgb = std::array<std::uint8_t, 3>;

// Row-major pixels; (0, 0) is the upper left corner.
class Image {
 public:
  Image(int width, int height, Rgb colour = {255, 255, 255});

  int width() const { return width_; }
  int height() const { return height_; }
  Rgb& at(int x, int y) { return pixels_[index(x, y)]; }
  const Rgb& at(int x, int y) const { return pixels_[index(x, y)]; }

 private:
  std::size_t index(int x, int y) const {
    return static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
           static_cast<std::size_t>(x);
  }

  int width_, height_;
  std::vector<Rgb> pixels_;
};

struct Range {
  double low = 0, high = 1;

  double size() const { return high - low; }
};

// The smallest range around all finite values; {0, 1} if there are none.
Range range_of(std::span<const float> values);
// The same range, wider by `margin` of its size on both sides, and never empty.
Range widened(Range range, double margin);

// The range in which colour pictures with values in `values` are meant: the smallest of [0, 1],
// [-1, 1] and [0, 255] that holds them (give or take 5 %), otherwise their own.
Range rgb_range(Range values);

// Colours for values in [0, 1]; what lies outside, and NaN, is drawn as the nearest end.
enum class ColourMap {
  kSequential,  // light to dark, lightness falls evenly: densities, saturations
  kDiverging,   // blue, white, vermilion: signed fields, 0.5 is zero
};
Rgb colour_of(ColourMap map, double value);

// The map for fields with values in `values`: diverging if some lie clearly below zero.
ColourMap colour_map_for(Range values);
// The range over which `map` is spread for such fields: as far on both sides of zero for a
// diverging map, otherwise `values` itself. Never empty.
Range colour_range(Range values, ColourMap map);

struct Point {
  float x = 0, y = 0;
};

// What part of the plane a cloud shows, and how finely.
struct Frame {
  Range x, y;
  int bins = 72;  // per side
};

// How many points fall in each bin: row-major, first row at the top (large y). A point on the upper
// limit belongs to the last bin. Points outside the frame, or not finite, only count as `outside`.
struct Histogram {
  int bins = 0;
  std::vector<std::int64_t> counts;
  std::int64_t outside = 0;

  std::int64_t max_count() const;
};
Histogram histogram_of(std::span<const Point> points, const Frame& frame);

// Draws counts on a logarithmic colour scale that ends at `full_count` (>= 1). Every bin is a
// square of `scale` pixels. Empty bins are white, with grey lines where x or y is zero.
Image draw_cloud(const Histogram& histogram, const Frame& frame, std::int64_t full_count,
                 int scale);

// Draws one channel [height, width], row 0 at the top, colours spread over `range`.
Image draw_field(std::span<const float> field, int height, int width, Range range, ColourMap map,
                 int scale);
// Draws three channels [3, height, width] as red, green and blue; `range` maps to 0..255.
Image draw_rgb_field(std::span<const float> field, int height, int width, Range range, int scale);

// Copies `part` into `image` with its upper left corner at (x, y); it must fit.
void paste(Image& image, const Image& part, int x, int y);
// Every `factor` x `factor` block becomes one pixel of its mean colour; blocks at the right and
// lower edge may be smaller.
Image shrunk(const Image& image, int factor);

// A horizontal colour bar, low end on the left.
Image draw_colour_bar(ColourMap map, int width, int height);

// The bytes of a PNG file, 8 bits RGB. Throws std::runtime_error if libpng fails.
std::string encode_png(const Image& image);

// RFC 4648, section 4, with padding.
std::string encode_base64(std::string_view bytes);

}  // namespace slift
