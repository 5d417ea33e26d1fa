#include "report/picture.h"

#include <png.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace slift {

namespace {

constexpr Rgb kZeroLine = {214, 214, 214};

// Anchors are evenly spaced; between them colours are mixed linearly. CIE lightness of the
// sequential map falls in nearly equal steps (93, 82, 69, 55, 42, 28, 13).
constexpr std::array<Rgb, 7> kSequentialAnchors = {{{0xe8, 0xed, 0xc8},
                                                    {0xac, 0xd7, 0xb0},
                                                    {0x5f, 0xb8, 0xaf},
                                                    {0x2f, 0x90, 0xa9},
                                                    {0x2d, 0x66, 0x96},
                                                    {0x33, 0x3d, 0x73},
                                                    {0x26, 0x1c, 0x3e}}};
constexpr std::array<Rgb, 7> kDivergingAnchors = {{{0x08, 0x3c, 0x70},
                                                   {0x2a, 0x78, 0xb5},
                                                   {0x9c, 0xc6, 0xe0},
                                                   {0xf7, 0xf7, 0xf5},
                                                   {0xf4, 0xb7, 0x8c},
                                                   {0xcf, 0x5a, 0x1c},
                                                   {0x7a, 0x25, 0x04}}};

double magnitude(Range range) { return std::max(std::abs(range.low), std::abs(range.high)); }

double position_in(Range range, double value) { return (value - range.low) / range.size(); }

std::uint8_t to_byte(double unit) {
  const double clamped = unit > 0 ? std::min(unit, 1.0) : 0.0;  // NaN becomes 0
  return static_cast<std::uint8_t>(std::lround(255 * clamped));
}

void fill_square(Image& image, int column, int row, int scale, Rgb colour) {
  for (int y = row * scale; y < (row + 1) * scale; ++y) {
    for (int x = column * scale; x < (column + 1) * scale; ++x) image.at(x, y) = colour;
  }
}

std::size_t cell(int row, int column, int width) {
  return static_cast<std::size_t>(row) * static_cast<std::size_t>(width) +
         static_cast<std::size_t>(column);
}

// The bin of a value, or -1 outside.
int bin_of(Range range, int bins, double value) {
  const double position = position_in(range, value);
  if (!(position >= 0 && position <= 1)) return -1;
  return std::min(static_cast<int>(position * bins), bins - 1);
}

// Lines of two pixels, which survive being scaled down by a browser.
void draw_zero_lines(Image& image, const Frame& frame) {
  const int x = bin_of(frame.x, image.width(), 0);
  const int y = bin_of(frame.y, image.height(), 0);
  for (int column = std::max(x - 1, 0); column <= x; ++column) {
    for (int i = 0; i < image.height(); ++i) image.at(column, i) = kZeroLine;
  }
  for (int up = std::max(y - 1, 0); up <= y; ++up) {
    for (int i = 0; i < image.width(); ++i) image.at(i, image.height() - 1 - up) = kZeroLine;
  }
}

void append_png_bytes(png_structp png, png_bytep data, png_size_t size) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<const char*>(data), size);
}

// Throwing through libpng's C frames is undefined behaviour on some platforms, its setjmp skips
// destructors: so the only objects alive across the jump are owned by the caller.
bool write_png(png_structp png, png_infop info, const Image& image, std::string& out) {
  if (setjmp(png_jmpbuf(png)) != 0) return false;
  png_set_write_fn(png, &out, append_png_bytes, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width()),
               static_cast<png_uint_32>(image.height()), 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_set_compression_level(png, 6);  // level 9 takes seven times as long to save 3 % on fields
  png_write_info(png, info);
  for (int y = 0; y < image.height(); ++y) png_write_row(png, image.at(0, y).data());
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

Image::Image(int width, int height, Rgb colour) : width_(width), height_(height) {
  if (width < 1 || height < 1) throw std::invalid_argument("Image: size must be positive");
  pixels_.assign(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), colour);
}

Range range_of(std::span<const float> values) {
  Range range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  for (const float v : values) {
    if (!std::isfinite(v)) continue;
    range.low = std::min<double>(range.low, v);
    range.high = std::max<double>(range.high, v);
  }
  return range.low <= range.high ? range : Range{0, 1};
}

Range widened(Range range, double margin) {
  double reach = margin * range.size();
  // A constant gets a frame of its own magnitude, so that it is drawn in the middle.
  const double smallest = 1e-6 * magnitude(range);
  if (range.size() <= smallest) reach = std::max({0.5 * std::abs(range.low), smallest, 1e-12});
  return {range.low - reach, range.high + reach};
}

Range rgb_range(Range values) {
  for (const Range usual : {Range{0, 1}, Range{-1, 1}, Range{0, 255}}) {
    const double slack = 0.05 * usual.size();
    if (values.low >= usual.low - slack && values.high <= usual.high + slack) return usual;
  }
  return widened(values, 0);
}

Rgb colour_of(ColourMap map, double value) {
  const auto& anchors = map == ColourMap::kSequential ? kSequentialAnchors : kDivergingAnchors;
  const double clamped = value > 0 ? std::min(value, 1.0) : 0.0;
  const double position = clamped * static_cast<double>(anchors.size() - 1);
  const auto i = std::min(static_cast<std::size_t>(position), anchors.size() - 2);
  const double part = position - static_cast<double>(i);
  Rgb colour{};
  for (std::size_t c = 0; c < 3; ++c) {
    colour[c] = static_cast<std::uint8_t>(
        std::lround((1 - part) * anchors[i][c] + part * anchors[i + 1][c]));
  }
  return colour;
}

ColourMap colour_map_for(Range values) {
  return values.low < -0.05 * magnitude(values) ? ColourMap::kDiverging : ColourMap::kSequential;
}

Range colour_range(Range values, ColourMap map) {
  const double reach = magnitude(values);
  return widened(map == ColourMap::kDiverging ? Range{-reach, reach} : values, 0);
}

std::int64_t Histogram::max_count() const {
  return counts.empty() ? 0 : *std::max_element(counts.begin(), counts.end());
}

Histogram histogram_of(std::span<const Point> points, const Frame& frame) {
  Histogram h;
  h.bins = frame.bins;
  h.counts.assign(cell(frame.bins, 0, frame.bins), 0);
  for (const Point& p : points) {
    const int column = bin_of(frame.x, frame.bins, p.x);
    const int up = bin_of(frame.y, frame.bins, p.y);
    if (column < 0 || up < 0) {
      ++h.outside;
    } else {
      ++h.counts[cell(frame.bins - 1 - up, column, frame.bins)];
    }
  }
  return h;
}

Image draw_cloud(const Histogram& histogram, const Frame& frame, std::int64_t full_count,
                 int scale) {
  Image image(histogram.bins * scale, histogram.bins * scale);
  draw_zero_lines(image, frame);
  const double full = std::log(static_cast<double>(std::max<std::int64_t>(full_count, 2)));
  for (int row = 0; row < histogram.bins; ++row) {
    for (int column = 0; column < histogram.bins; ++column) {
      const std::int64_t count = histogram.counts[cell(row, column, histogram.bins)];
      if (count == 0) continue;
      const double value = std::log(static_cast<double>(count)) / full;
      fill_square(image, column, row, scale, colour_of(ColourMap::kSequential, value));
    }
  }
  return image;
}

Image draw_field(std::span<const float> field, int height, int width, Range range, ColourMap map,
                 int scale) {
  Image image(width * scale, height * scale);
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      const double value = position_in(range, field[cell(row, column, width)]);
      fill_square(image, column, row, scale, colour_of(map, value));
    }
  }
  return image;
}

Image draw_rgb_field(std::span<const float> field, int height, int width, Range range, int scale) {
  Image image(width * scale, height * scale);
  const std::size_t cells = cell(height, 0, width);
  for (int row = 0; row < height; ++row) {
    for (int column = 0; column < width; ++column) {
      Rgb colour{};
      for (std::size_t c = 0; c < 3; ++c) {
        colour[c] = to_byte(position_in(range, field[c * cells + cell(row, column, width)]));
      }
      fill_square(image, column, row, scale, colour);
    }
  }
  return image;
}

void paste(Image& image, const Image& part, int x, int y) {
  for (int row = 0; row < part.height(); ++row) {
    for (int column = 0; column < part.width(); ++column) {
      image.at(x + column, y + row) = part.at(column, row);
    }
  }
}

Image shrunk(const Image& image, int factor) {
  Image small((image.width() + factor - 1) / factor, (image.height() + factor - 1) / factor);
  for (int y = 0; y < small.height(); ++y) {
    for (int x = 0; x < small.width(); ++x) {
      const int right = std::min((x + 1) * factor, image.width());
      const int bottom = std::min((y + 1) * factor, image.height());
      std::array<int, 3> sum{};
      int count = 0;
      for (int row = y * factor; row < bottom; ++row) {
        for (int column = x * factor; column < right; ++column, ++count) {
          for (std::size_t c = 0; c < 3; ++c) sum[c] += image.at(column, row)[c];
        }
      }
      for (std::size_t c = 0; c < 3; ++c) {
        small.at(x, y)[c] = static_cast<std::uint8_t>((sum[c] + count / 2) / count);
      }
    }
  }
  return small;
}

Image draw_colour_bar(ColourMap map, int width, int height) {
  Image image(width, height);
  for (int x = 0; x < width; ++x) {
    const Rgb colour = colour_of(map, width > 1 ? static_cast<double>(x) / (width - 1) : 0);
    for (int y = 0; y < height; ++y) image.at(x, y) = colour;
  }
  return image;
}

std::string encode_png(const Image& image) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  std::string bytes;
  const bool written = info != nullptr && write_png(png, info, image, bytes);
  png_destroy_write_struct(&png, &info);
  if (!written) throw std::runtime_error("libpng could not encode a picture");
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[group >> (18 - 6 * k) & 63U] : '=';
    }
  }
  return text;
}

}  // namespace slift
