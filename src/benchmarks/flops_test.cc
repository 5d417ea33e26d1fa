#include "benchmarks/flops.h"

#include <gtest/gtest.h>

namespace slift {
namespace {

double flops(const NetConfig& net, const BackboneShape& shape) {
  return flops_per_evaluation(*make_backbone(net, shape));
}

NetConfig unet(std::vector<std::int64_t> widths) {
  NetConfig net;
  net.kind = "unet";
  net.widths = std::move(widths);
  return net;
}

TEST(Flops, OfAnMlp) {
  NetConfig net;
  net.width = 16;
  net.layers = 2;
  // Window 2 of 3 numbers and a label of 5 -> 16 -> 16 -> 3.
  EXPECT_EQ(flops(net, {{3}, 2, 5}), 2 * (11 * 16 + 16 * 16 + 16 * 3));
}

// Counted by hand: one level has no stride and no upsampling.
TEST(Flops, OfAUnetOfOneLevel) {
  NetConfig net = unet({8});
  net.label_width = 16;
  const double cells = 6 * 4, conv = 9 * 8 * 8;
  const double block = 2 * conv * cells, wide_block = (2 * conv + conv + 2 * 8 * 8) * cells;
  const double label = 5 * 16 + 16 * 16, films = 7 * 16 * 16;  // 7 blocks
  const double expected = label + films + 9 * 3 * 8 * cells + 4 * block + 3 * wide_block +
                          conv * cells + 9 * 8 * 1 * cells;
  EXPECT_EQ(flops(net, {{1, 6, 4}, 3, 5}), 2 * expected);
}

// A second level adds: blocks at a quarter of the cells, and what leads there and back.
TEST(Flops, LevelsHaveAQuarterOfTheCells) {
  const BackboneShape shape{{1, 8, 8}, 1, 0};
  const double conv = 9 * 8 * 8, fine = 64, coarse = 16;
  const double plain = 2 * conv, wide = 3 * conv + 2 * 8 * 8;
  // The middle moves down; two blocks on the way there and two on the way back are new.
  const double expected =
      2 * plain * (coarse - fine) + 2 * (plain + wide) * coarse + conv * coarse + conv * fine;
  EXPECT_EQ(flops(unet({8, 8}), shape) - flops(unet({8}), shape), 2 * expected);
}

// The numbers that published times are compared by.
TEST(Flops, OfThePapersNetworks) {
  EXPECT_NEAR(flops(unet({128, 256, 512}), {{1, 64, 64}, 3, 64}), 53.87e9, 0.005e9);
  EXPECT_NEAR(flops(unet({128, 256, 512}), {{3, 128, 128}, 3, 256}), 215.75e9, 0.005e9);
}

}  // namespace
}  // namespace slift
