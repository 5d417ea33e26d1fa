#include "systems/scene_physics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numbers>
#include <set>

namespace slift {
namespace {

Body disc(double x, double y, double vx, double vy, double mass, double radius = 0.5) {
  Body body;
  body.radius = radius, body.mass = mass;
  body.x = x, body.y = y, body.vx = vx, body.vy = vy;
  return body;
}

struct Totals {
  double mass = 0, px = 0, py = 0, energy = 0;
};

Totals totals(std::span<const Body> bodies) {
  Totals t;
  for (const Body& b : bodies) {
    t.mass += b.mass;
    t.px += b.mass * b.vx, t.py += b.mass * b.vy;
    t.energy += b.mass * (b.vx * b.vx + b.vy * b.vy) / 2;
  }
  return t;
}

// Equal up to the rounding of a few sums.
void expect_conserved(const Totals& before, const Totals& after) {
  const double momentum = std::sqrt(2 * before.mass * before.energy);
  EXPECT_NEAR(after.px, before.px, 1e-14 * momentum);
  EXPECT_NEAR(after.py, before.py, 1e-14 * momentum);
  EXPECT_NEAR(after.energy, before.energy, 1e-14 * before.energy);
}

double overlap(const Body& a, const Body& b) {
  return a.radius + b.radius - std::hypot(b.x - a.x, b.y - a.y);
}

double deepest_overlap(std::span<const Body> bodies) {
  double deepest = 0;
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) deepest = std::max(deepest, overlap(bodies[i], bodies[j]));
  }
  return deepest;
}

bool moves(const Body& body) { return body.vx != 0 || body.vy != 0; }

TEST(ScenePhysics, CollisionConservesMomentumAndEnergy) {
  for (const double ratio : {1.0, 1.7, 8.0, 1000.0}) {
    for (int k = 0; k < 24; ++k) {
      SCOPED_TRACE(testing::Message() << "ratio " << ratio << ", angle " << k);
      const double angle = k * std::numbers::pi / 12;
      const double nx = std::cos(angle), ny = std::sin(angle);
      Body pair[2] = {disc(1, -2, 1.3, 0.4, 0.7),
                      disc(1 + 0.99 * nx, -2 + 0.99 * ny, -0.6, 1.1, 0.7 * ratio)};
      const auto along = [&] {
        return (pair[1].vx - pair[0].vx) * nx + (pair[1].vy - pair[0].vy) * ny;
      };
      const auto across = [&](const Body& b) { return b.vy * nx - b.vx * ny; };
      const Totals before = totals(pair);
      const double along_before = along();
      const double across_before[2] = {across(pair[0]), across(pair[1])};
      collide(pair[0], pair[1]);
      expect_conserved(before, totals(pair));
      // The approach is reversed, the motion along the common tangent is left alone: together with
      // the conservation laws this fixes the outcome.
      EXPECT_NEAR(along(), -along_before, 1e-14 * 4);
      EXPECT_NEAR(across(pair[0]), across_before[0], 1e-14 * 4);
      EXPECT_NEAR(across(pair[1]), across_before[1], 1e-14 * 4);
    }
  }
}

TEST(ScenePhysics, EqualDiscsInARowPassTheMotionOn) {
  std::vector<Body> row;
  for (int i = 0; i < 5; ++i) row.push_back(disc(0.999 * i, 0, i == 0 ? 2 : 0, 0, 1.5));
  resolve_contacts(row);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(row[i].vx, i == 4 ? 2 : 0, 1e-14);
    EXPECT_EQ(row[i].vy, 0);
  }
}

TEST(ScenePhysics, ClusterIsResolved) {
  // Six around one, all moving in: many contacts at once.
  std::vector<Body> cluster = {disc(0, 0, 0.1, 0.2, 2)};
  for (int k = 0; k < 6; ++k) {
    const double x = 0.995 * std::cos(k * std::numbers::pi / 3);
    const double y = 0.995 * std::sin(k * std::numbers::pi / 3);
    cluster.push_back(disc(x, y, -x * (1 + k), -y, 0.5 + k));
  }
  const Totals before = totals(cluster);
  resolve_contacts(cluster);
  expect_conserved(before, totals(cluster));
  for (const Body& a : cluster) {
    for (const Body& b : cluster) {
      if (overlap(a, b) <= 0) continue;
      EXPECT_GE((b.x - a.x) * (b.vx - a.vx) + (b.y - a.y) * (b.vy - a.vy), -1e-12);
    }
  }
}

TEST(ScenePhysics, DiscsThatPartOrDoNotTouchAreLeftAlone) {
  std::vector<Body> pair = {disc(0, 0, -1, 0, 1), disc(0.99, 0, 1, 0, 1)};
  resolve_contacts(pair);
  EXPECT_EQ(pair[0].vx, -1);
  pair = {disc(0, 0, 1, 0, 1), disc(1.01, 0, -1, 0, 1)};
  resolve_contacts(pair);
  EXPECT_EQ(pair[0].vx, 1);
}

TEST(ScenePhysics, FrictionStopsABodyAtItsBrakingDistance) {
  constexpr double friction = 0.5, speed = 2;  // stops after 4, at 4
  Body whole = disc(1, 1, 0.6 * speed, 0.8 * speed, 1);
  whole.turn = 0.25, whole.rest_left = 3;
  Body parts = whole;
  slide(whole, friction, 3);
  EXPECT_NEAR(std::hypot(whole.vx, whole.vy), speed - friction * 3, 1e-14);
  for (int i = 0; i < 300; ++i) slide(parts, friction, 0.01);
  EXPECT_NEAR(parts.x, whole.x, 1e-12);
  EXPECT_NEAR(parts.y, whole.y, 1e-12);
  EXPECT_NEAR(parts.angle, whole.angle, 1e-12);
  slide(whole, friction, 5);
  EXPECT_FALSE(moves(whole));
  EXPECT_NEAR(whole.x, 1 + 0.6 * 4, 1e-14);
  EXPECT_NEAR(whole.y, 1 + 0.8 * 4, 1e-14);
  EXPECT_NEAR(whole.angle, 0.25 * 4, 1e-14);
  EXPECT_EQ(whole.rest_left, 3);
  slide(whole, friction, 1);
  EXPECT_EQ(whole.rest_left, 2);

  Body free = disc(0, 0, 3, -4, 1);
  slide(free, 0, 10);
  EXPECT_DOUBLE_EQ(free.x, 30);
  EXPECT_DOUBLE_EQ(free.y, -40);
  EXPECT_EQ(free.vx, 3);
}

TEST(ScenePhysics, BodiesDoNotOverlap) {
  ScenePhysicsParameters crowded, fast;
  crowded.arrival_rate = 10, crowded.friction = 1;
  fast.speed_max = 30;
  for (const auto& parameters : {ScenePhysicsParameters(), crowded, fast}) {
    double deepest = 0;
    for (std::uint64_t trajectory = 0; trajectory < 5; ++trajectory) {
      ScenePhysics motion(parameters, 3, trajectory);
      for (int frame = 0; frame < 500; ++frame) {
        motion.advance(0.1);
        deepest = std::max(deepest, deepest_overlap(motion.bodies()));
      }
    }
    EXPECT_LT(deepest, 2 * kContactDepth);
    EXPECT_GT(deepest, 0);  // they do collide
  }
}

TEST(ScenePhysics, ArrivalsFollowTheParameters) {
  ScenePhysicsParameters parameters;
  parameters.arrival_rate = 2;
  parameters.speed_min = 2, parameters.speed_max = 5;
  constexpr double end = 400;
  ScenePhysics motion(parameters, 1, 0);
  std::uint32_t seen = 0;
  double boxes = 0, count = 0, x = 0, y = 0;
  for (int step = 0; step < 4 * end; ++step) {
    motion.advance(0.25);
    for (const Body& body : motion.bodies()) {
      if (body.number < seen) continue;
      seen = body.number + 1;
      count += 1;
      boxes += body.box;
      const double distance = std::hypot(body.x, body.y),
                   rim = kSightRadius + kRimRadii * body.radius;
      x += body.x / distance, y += body.y / distance;
      EXPECT_GT(body.radius, parameters.radius_min);
      EXPECT_LT(body.radius, parameters.radius_max);
      const double r = body.radius, side = 2 * box_half_side(body);
      EXPECT_NEAR(std::hypot(side, side), 2 * r, 1e-12);  // corners reach the rim of the disc
      EXPECT_NEAR(body.mass, body.box ? side * side * side : 4 * std::numbers::pi / 3 * r * r * r,
                  1e-12);
      EXPECT_LT(distance, rim + 1e-9);
      EXPECT_GT(distance, rim - 0.25 * 5);
    }
  }
  EXPECT_NEAR(seen, 2 * end, 4 * std::sqrt(2 * end));  // a Poisson count
  EXPECT_GT(count, 0.9 * seen);                        // few are turned away
  EXPECT_NEAR(boxes / count, 0.5, 2 / std::sqrt(count));
  EXPECT_NEAR(x / count, 0, 3 / std::sqrt(count));  // from all sides
  EXPECT_NEAR(y / count, 0, 3 / std::sqrt(count));
}

TEST(ScenePhysics, BodiesAtRestArePushedAfterAnExponentialTime) {
  ScenePhysicsParameters parameters;
  parameters.friction = 20, parameters.rest = 1.5;  // stops after 0.2, close to where it entered
  std::map<std::uint32_t, double> rested;
  double sum = 0, squares = 0, count = 0;
  constexpr double step = 0.02;
  ScenePhysics motion(parameters, 2, 0);
  for (int i = 0; i < 15000; ++i) {
    motion.advance(step);
    std::map<std::uint32_t, double> now;
    for (const Body& body : motion.bodies()) {
      const auto before = rested.find(body.number);
      const double so_far = before == rested.end() ? 0 : before->second;
      if (!moves(body)) {
        now[body.number] = so_far + step;
      } else if (so_far > 0) {
        sum += so_far, squares += so_far * so_far, count += 1;
      }
    }
    rested = now;
  }
  const double mean = sum / count;
  EXPECT_GT(count, 500);
  EXPECT_NEAR(mean, 1.5, 4 * 1.5 / std::sqrt(count) + 2 * step);
  EXPECT_NEAR(squares / count, 2 * mean * mean,
              0.35 * mean * mean);  // exponential: E t^2 = 2 mean^2
}

TEST(ScenePhysics, NobodyStaysForEver) {
  for (std::uint64_t trajectory = 0; trajectory < 5; ++trajectory) {
    ScenePhysics motion({}, 11, trajectory);
    motion.advance(100);
    std::set<std::uint32_t> residents;
    for (const Body& body : motion.bodies()) residents.insert(body.number);
    EXPECT_FALSE(residents.empty());
    EXPECT_LT(residents.size(), static_cast<std::size_t>(kMaxBodies));
    motion.advance(500);
    for (const Body& body : motion.bodies()) EXPECT_FALSE(residents.contains(body.number));
  }
}

TEST(ScenePhysics, ArenaIsNeverOverfull) {
  ScenePhysicsParameters parameters;
  parameters.arrival_rate = 50, parameters.friction = 5;
  ScenePhysics motion(parameters, 0, 0);
  for (int i = 0; i < 20; ++i) {
    motion.advance(1);
    EXPECT_LE(motion.bodies().size(), static_cast<std::size_t>(kMaxBodies));
  }
  EXPECT_GE(motion.bodies().size(), static_cast<std::size_t>(kMaxBodies - 2));
}

TEST(ScenePhysics, HistoryIsAFunctionOfSeedAndTrajectory) {
  const auto positions = [](std::uint64_t seed, std::uint64_t trajectory) {
    ScenePhysics motion({}, seed, trajectory);
    motion.advance(30);
    std::vector<double> result;
    for (const Body& body : motion.bodies()) result.insert(result.end(), {body.x, body.y});
    return result;
  };
  EXPECT_EQ(positions(1, 2), positions(1, 2));
  EXPECT_NE(positions(1, 2), positions(1, 3));
  EXPECT_NE(positions(1, 2), positions(2, 2));
}

}  // namespace
}  // namespace slift
