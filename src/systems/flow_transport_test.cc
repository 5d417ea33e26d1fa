#include "systems/flow_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace slift::flow {
namespace {

// A row of n cells of total length 1, through which flow goes at rate 1 from left to right.
struct Tube {
  explicit Tube(int n, double saturation)
      : grid{n, 1},
        west(static_cast<std::size_t>(n + 1)),
        north(static_cast<std::size_t>(2 * n)),
        s(static_cast<std::size_t>(3 * n), saturation),
        f(s.size()),
        f_next(s.size()) {
    set_wells(SerialTeam(), grid, 1, flux());
    std::fill(west.begin() + 1, west.end() - 1, 1.0);
  }
  Faces flux() { return {west.data(), north.data()}; }
  double* cells() { return s.data() + grid.nx; }
  double volume() const { return 1.0 / grid.nx; }
  int substeps(const Fluids& fluids, double dt) {
    return count_substeps(SerialTeam(), grid, flux(), fluids, dt, volume());
  }
  void advance(const Fluids& fluids, double dt, int substeps) {
    transport(SerialTeam(), grid, flux(), fluids, dt, volume(), substeps, cells(),
              f.data() + grid.nx, f_next.data() + grid.nx);
  }

  Grid grid;
  std::vector<double> west, north, s, f, f_next;
};

struct Case {
  double mu_w, mu_o, s_wc, s_or;
};
const Case kCases[] = {{1, 1, 0, 0}, {1, 5, 0, 0}, {2, 1, 0.2, 0.15}};

TEST(Fluids, SteepestFlowIsTheLargestSlope) {
  EXPECT_NEAR(Fluids(1, 1, 0, 0).steepest_flow(), 2, 1e-12);  // f' = 2 at s = 1/2
  for (const Case& c : kCases) {
    const Fluids fluids(c.mu_w, c.mu_o, c.s_wc, c.s_or);
    double steepest = 0;
    constexpr double h = 1e-5;
    for (double s = c.s_wc; s + h <= 1 - c.s_or; s += h) {
      steepest =
          std::max(steepest, (fluids.fractional_flow(s + h) - fluids.fractional_flow(s)) / h);
    }
    EXPECT_NEAR(fluids.steepest_flow(), steepest, 1e-6 * steepest);
  }
}

TEST(Fluids, EndPointsAreSingleFluids) {
  for (const Case& c : kCases) {
    const Fluids fluids(c.mu_w, c.mu_o, c.s_wc, c.s_or);
    EXPECT_NEAR(fluids.fractional_flow(c.s_wc), 0, 1e-15);
    EXPECT_NEAR(fluids.fractional_flow(1 - c.s_or), 1, 1e-15);
    EXPECT_NEAR(fluids.total_mobility(c.s_wc), 1 / c.mu_o, 1e-15);
    EXPECT_NEAR(fluids.total_mobility(1 - c.s_or), 1 / c.mu_w, 1e-15);
    EXPECT_EQ(fluids.connate_water(), c.s_wc);
  }
  // Half and half, by hand: (1/4)/2 and (1/4)/8.
  const Fluids fluids(2, 8, 0, 0);
  EXPECT_NEAR(fluids.total_mobility(0.5), 0.125 + 0.03125, 1e-15);
  EXPECT_NEAR(fluids.fractional_flow(0.5), 0.8, 1e-15);
}

// Buckley and Leverett (1942): with M = mu_w / mu_o the tangent to f from the initial state touches
// it at s* = sqrt(M / (1 + M)); behind the front that jumps there, saturation s lies at f'(s) t.
TEST(Transport, BuckleyLeverettFront) {
  constexpr int n = 400;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.mu_o);
    const Fluids fluids(c.mu_w, c.mu_o, c.s_wc, c.s_or);
    const double ratio = c.mu_w / c.mu_o, mobile = 1 - c.s_wc - c.s_or;
    const auto speed = [&](double s) {
      const double total = s * s + ratio * (1 - s) * (1 - s);
      return 2 * ratio * s * (1 - s) / (total * total) / mobile;
    };
    const double front = std::sqrt(ratio / (1 + ratio));
    const double end = 0.6 / speed(front);  // the front is at 0.6
    Tube tube(n, c.s_wc);
    tube.advance(fluids, end, tube.substeps(fluids, end));
    const double* s = tube.cells();
    const int at = static_cast<int>(
        std::find_if(s, s + n, [&](double x) { return x < c.s_wc + mobile * front / 2; }) - s);
    EXPECT_NEAR(at, 0.6 * n, 2.5);
    for (const double behind : {0.25, 0.5, 0.75}) {
      const double value = front + behind * (1 - front);
      const double x = speed(value) * end * n - 0.5;  // in cells, from the first one's middle
      const auto cell = static_cast<int>(x);
      const double got = std::lerp(s[cell], s[cell + 1], x - cell);
      EXPECT_NEAR((got - c.s_wc) / mobile, value, 0.01);
    }
    EXPECT_GE(*std::min_element(s, s + n), c.s_wc);
    EXPECT_LE(*std::max_element(s, s + n), 1 - c.s_or + 1e-14);
    EXPECT_NEAR((std::accumulate(s, s + n, 0.0) / n - c.s_wc) / end, 1, 1e-12);  // all water stays
  }
}

TEST(Transport, SubstepsAreAsFewAsMonotonyAllows) {
  const Fluids fluids(1, 1, 0, 0);
  Tube tube(100, 0);
  EXPECT_EQ(tube.substeps(fluids, 0.1), 21);  // 0.1 * 100 * 2, and the margin
  EXPECT_EQ(tube.substeps(fluids, 0.1049), 21);
  EXPECT_EQ(tube.substeps(fluids, 0.1051), 22);
  // Flow against the direction of the axes counts alike.
  for (double& v : tube.west) v = -3 * v;
  EXPECT_EQ(tube.substeps(fluids, 0.1), 81);  // 3 from the right and 1 from the well
  Tube stable(100, 0), unstable(100, 0);
  stable.advance(fluids, 0.4, stable.substeps(fluids, 0.4));
  unstable.advance(fluids, 0.4, stable.substeps(fluids, 0.4) * 2 / 5);
  EXPECT_TRUE(std::is_sorted(stable.cells(), stable.cells() + 100, std::greater<>()));
  EXPECT_FALSE(std::is_sorted(unstable.cells(), unstable.cells() + 100, std::greater<>()));
}

TEST(Transport, UpwindInAllFourDirections) {
  // Water in the middle of 3 x 3 cells, flow 1 out of it through one face: after one small step the
  // neighbour there has gained what the middle lost, and no other cell changed.
  const Fluids fluids(1, 1, 0, 0);
  const Grid grid = {3, 3};
  const int neighbours[] = {3, 5, 1, 7};
  for (int side = 0; side < 4; ++side) {
    std::vector<double> west(10), north(12), s(15), f(15), f_next(15);
    if (side == 0) west[4] = -1;
    if (side == 1) west[5] = 1;
    if (side == 2) north[4] = -1;
    if (side == 3) north[7] = 1;
    s[3 + 4] = 0.5;
    transport(SerialTeam(), grid, {west.data(), north.data()}, fluids, 0.01, 0.1, 1, s.data() + 3,
              f.data() + 3, f_next.data() + 3);
    for (int i = 0; i < 9; ++i) {
      const double expected = i == 4 ? 0.45 : i == neighbours[side] ? 0.05 : 0;
      EXPECT_NEAR(s[static_cast<std::size_t>(3 + i)], expected, 1e-15) << side << ", " << i;
    }
  }
}

}  // namespace
}  // namespace slift::flow
