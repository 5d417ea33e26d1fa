#include "report/picture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "report/testing.h"

namespace slift {
namespace {

TEST(Png, DecodesToTheSamePixels) {
  Image image(37, 11);
  for (int y = 0; y < 11; ++y) {
    for (int x = 0; x < 37; ++x) {
      image.at(x, y) = {static_cast<std::uint8_t>(7 * x), static_cast<std::uint8_t>(23 * y),
                        static_cast<std::uint8_t>(x * y)};
    }
  }
  EXPECT_EQ(differing_pixels(decode_png(encode_png(image)), image), 0);
}

TEST(Base64, KnownAnswersOfRfc4648) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("f"), "Zg==");
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  EXPECT_EQ(encode_base64("foo"), "Zm9v");
  EXPECT_EQ(encode_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(encode_base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(encode_base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(encode_base64("\xff\xfe\xfb"), "//77");
}

TEST(Cloud, PointFallsInItsPixel) {
  const Frame frame{{1, 11}, {-6, -1}, 10};  // zero is outside: no grey lines
  const std::vector<Point> points = {{3.5F, -1.75F}};
  const Histogram histogram = histogram_of(points, frame);
  EXPECT_EQ(histogram.outside, 0);
  EXPECT_EQ(histogram.max_count(), 1);
  const Image image = draw_cloud(histogram, frame, 8, 3);
  ASSERT_EQ(image.width(), 30);
  const Rgb white = {255, 255, 255};
  for (int y = 0; y < 30; ++y) {
    for (int x = 0; x < 30; ++x) {
      const bool inside = x / 3 == 2 && y / 3 == 1;  // third bin from the left, second from the top
      EXPECT_EQ(image.at(x, y), inside ? colour_of(ColourMap::kSequential, 0) : white);
    }
  }
}

TEST(Cloud, LimitsBelongToTheFrameAndTheRestIsCounted) {
  const Frame frame{{0, 1}, {0, 1}, 4};
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<Point> points = {{0, 0},         {1, 1},      {1.01F, 0.5F},
                                     {0.5F, -0.01F}, {nan, 0.5F}, {0.5F, inf}};
  const Histogram histogram = histogram_of(points, frame);
  EXPECT_EQ(histogram.outside, 4);
  EXPECT_EQ(histogram.counts[12], 1);  // lower left
  EXPECT_EQ(histogram.counts[3], 1);   // upper right
}

TEST(Cloud, ColourGrowsWithTheLogarithmOfTheCount) {
  const Frame frame{{1, 3}, {1, 3}, 2};
  std::vector<Point> points(100, {1.5F, 1.5F});
  points.insert(points.end(), 10, {2.5F, 1.5F});
  const Image image = draw_cloud(histogram_of(points, frame), frame, 100, 1);
  EXPECT_EQ(image.at(0, 1), colour_of(ColourMap::kSequential, 1));
  EXPECT_EQ(image.at(1, 1), colour_of(ColourMap::kSequential, 0.5));
}

TEST(ColourMaps, SequentialDarkensEvenlyAndClamps) {
  const auto lightness = [](Rgb c) {  // CIE L*
    double y = 0;
    const double weights[] = {0.2126, 0.7152, 0.0722};
    for (std::size_t i = 0; i < 3; ++i) {
      const double u = c[i] / 255.0;
      y += weights[i] * (u <= 0.04045 ? u / 12.92 : std::pow((u + 0.055) / 1.055, 2.4));
    }
    return 116 * std::cbrt(y) - 16;
  };
  for (int i = 0; i < 12; ++i) {
    const double step = lightness(colour_of(ColourMap::kSequential, i / 12.0)) -
                        lightness(colour_of(ColourMap::kSequential, (i + 1) / 12.0));
    EXPECT_GT(step, 4) << i;
    EXPECT_LT(step, 9) << i;
  }
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(colour_of(ColourMap::kSequential, -3), colour_of(ColourMap::kSequential, 0));
  EXPECT_EQ(colour_of(ColourMap::kSequential, 3), colour_of(ColourMap::kSequential, 1));
  EXPECT_EQ(colour_of(ColourMap::kDiverging, nan), colour_of(ColourMap::kDiverging, 0));
}

TEST(Field, RowZeroIsAtTheTop) {
  const std::vector<float> field = {0, 1, 2, 3, 4, 5};  // 2 rows of 3
  const Image image = draw_field(field, 2, 3, {0, 5}, ColourMap::kSequential, 2);
  ASSERT_EQ(image.width(), 6);
  ASSERT_EQ(image.height(), 4);
  EXPECT_EQ(image.at(0, 0), colour_of(ColourMap::kSequential, 0));
  EXPECT_EQ(image.at(5, 1), colour_of(ColourMap::kSequential, 0.4));
  EXPECT_EQ(image.at(4, 3), colour_of(ColourMap::kSequential, 1));
}

TEST(Field, ThreeChannelsAreRedGreenBlue) {
  const std::vector<float> field = {1, 0, 0.2F, 0, -1, 2};  // two pixels
  const Image image = draw_rgb_field(field, 1, 2, {0, 1}, 1);
  EXPECT_EQ(image.at(0, 0), (Rgb{255, 51, 0}));
  EXPECT_EQ(image.at(1, 0), (Rgb{0, 0, 255}));
}

TEST(Field, ColourPicturesKeepTheirUsualRange) {
  const auto ends = [](Range range) { return std::pair(range.low, range.high); };
  EXPECT_EQ(ends(rgb_range({0.2, 0.8})), std::pair(0.0, 1.0));
  EXPECT_EQ(ends(rgb_range({-0.02, 1.03})), std::pair(0.0, 1.0));
  EXPECT_EQ(ends(rgb_range({-0.9, 0.5})), std::pair(-1.0, 1.0));
  EXPECT_EQ(ends(rgb_range({3, 250})), std::pair(0.0, 255.0));
  EXPECT_EQ(ends(rgb_range({-40, 7})), std::pair(-40.0, 7.0));
}

TEST(Field, ScaleIsSymmetricOnlyWhereValuesAreSigned) {
  EXPECT_EQ(colour_map_for({0, 2}), ColourMap::kSequential);
  EXPECT_EQ(colour_map_for({-0.05, 2}), ColourMap::kSequential);  // rounding of a saturation
  EXPECT_EQ(colour_map_for({-0.2, 2}), ColourMap::kDiverging);
  EXPECT_EQ(colour_map_for({-3, -1}), ColourMap::kDiverging);
  const Range sequential = colour_range({0.5, 2}, ColourMap::kSequential);
  EXPECT_EQ(std::pair(sequential.low, sequential.high), std::pair(0.5, 2.0));
  const Range diverging = colour_range({-3, 2}, ColourMap::kDiverging);
  EXPECT_EQ(std::pair(diverging.low, diverging.high), std::pair(-3.0, 3.0));
  EXPECT_GT(colour_range({0, 0}, ColourMap::kSequential).size(), 0);
}

TEST(Image, PastesAndShrinks) {
  Image image(5, 4, {0, 0, 0});
  paste(image, Image(2, 1, {200, 100, 40}), 3, 2);
  for (int y = 0; y < 4; ++y) {
    for (int x = 0; x < 5; ++x) {
      const bool inside = x >= 3 && y == 2;
      EXPECT_EQ(image.at(x, y), inside ? (Rgb{200, 100, 40}) : (Rgb{0, 0, 0})) << x << ", " << y;
    }
  }
  const Image small = shrunk(image, 3);  // blocks of 3 x 3, 2 x 3; below 3 x 1, 2 x 1
  ASSERT_EQ(small.width(), 2);
  ASSERT_EQ(small.height(), 2);
  EXPECT_EQ(small.at(0, 0), (Rgb{0, 0, 0}));
  EXPECT_EQ(small.at(1, 0), (Rgb{67, 33, 13}));  // a third
  EXPECT_EQ(small.at(1, 1), (Rgb{0, 0, 0}));
}

TEST(Range, SkipsNonFiniteAndIsNeverEmptyWhenWidened) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> values = {2, nan, -1};
  EXPECT_EQ(range_of(values).low, -1);
  EXPECT_EQ(range_of(values).high, 2);
  EXPECT_EQ(range_of(std::vector<float>{nan}).size(), 1);
  for (const double constant : {0.0, 5.0, -1e-3}) {
    const Range range = widened({constant, constant}, 0.1);
    EXPECT_LT(range.low, constant);
    EXPECT_GT(range.high, constant);
  }
}

}  // namespace
}  // namespace slift
