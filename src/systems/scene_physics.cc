#include "systems/scene_physics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/random.h"

namespace slift {
namespace {

constexpr double kLongestStep = 0.05;
constexpr double kFastestTurn = 0.5;  // radians per unit of path
// Bodies head for points of a disc of this share of the visible radius.
constexpr double kAimShare = 0.5;

// Plain, since std::hypot's care for overflow takes most of a step.
double length(double x, double y) { return std::sqrt(x * x + y * y); }

double between(double low, double high, float uniform) { return low + (high - low) * uniform; }

double exponential(double mean, float uniform) { return -mean * std::log(uniform); }

double full_turn(float uniform) { return 2 * std::numbers::pi * uniform; }

double rim(const Body& body) { return kSightRadius + kRimRadii * body.radius; }

double approach(const Body& a, const Body& b) {
  return -((b.x - a.x) * (b.vx - a.vx) + (b.y - a.y) * (b.vy - a.vy));
}

bool touching(const Body& a, const Body& b) {
  const double dx = b.x - a.x, dy = b.y - a.y, reach = a.radius + b.radius;
  return dx * dx + dy * dy < reach * reach;
}

// Numbers for the way in, and for every later push, come from streams of their own.
Stream arrival_stream(std::uint64_t seed, std::uint64_t trajectory, std::uint32_t number) {
  return {seed, Purpose::kSystemNoise, trajectory, 2 * number};
}

Stream push_stream(std::uint64_t seed, std::uint64_t trajectory, std::uint32_t number) {
  return {seed, Purpose::kSystemNoise, trajectory, 2 * number + 1};
}

}  // namespace

double box_half_side(const Body& body) { return body.radius / std::numbers::sqrt2; }

void slide(Body& body, double friction, double time) {
  const double speed = length(body.vx, body.vy);
  if (speed == 0) {
    body.rest_left -= time;
    return;
  }
  const bool stops = speed <= friction * time;
  const double path = stops ? speed * speed / (2 * friction) : (speed - friction * time / 2) * time;
  const double kept = stops ? 0 : 1 - friction * time / speed;
  body.x += body.vx / speed * path;
  body.y += body.vy / speed * path;
  body.angle += body.turn * path;
  body.vx *= kept;
  body.vy *= kept;
}

void collide(Body& a, Body& b) {
  const double dx = b.x - a.x, dy = b.y - a.y;
  const double impulse =
      2 * a.mass * b.mass / (a.mass + b.mass) * approach(a, b) / (dx * dx + dy * dy);
  a.vx -= impulse / a.mass * dx;
  a.vy -= impulse / a.mass * dy;
  b.vx += impulse / b.mass * dx;
  b.vy += impulse / b.mass * dy;
}

void resolve_contacts(std::span<Body> bodies) {
  // A cluster settles after a few passes; the bound only guards against rounding.
  constexpr int kPasses = 100;
  for (int pass = 0; pass < kPasses; ++pass) {
    bool settled = true;
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      for (std::size_t j = i + 1; j < bodies.size(); ++j) {
        if (!touching(bodies[i], bodies[j]) || approach(bodies[i], bodies[j]) <= 0) continue;
        collide(bodies[i], bodies[j]);
        settled = false;
      }
    }
    if (settled) return;
  }
}

ScenePhysics::ScenePhysics(const ScenePhysicsParameters& parameters, std::uint64_t seed,
                           std::uint64_t trajectory)
    : parameters_(parameters), seed_(seed), trajectory_(trajectory) {
  bodies_.reserve(kMaxBodies);
  float wait[1];
  fill_uniform(arrival_stream(seed_, trajectory_, 0), wait);
  next_arrival_ = exponential(1 / parameters_.arrival_rate, wait[0]);
}

void ScenePhysics::admit_arrival() {
  const ScenePhysicsParameters& p = parameters_;
  // 0: the wait before this arrival, used when the one before came.
  float u[10], wait[1];
  fill_uniform(arrival_stream(seed_, trajectory_, arrivals_), u);
  fill_uniform(arrival_stream(seed_, trajectory_, arrivals_ + 1), wait);
  next_arrival_ += exponential(1 / p.arrival_rate, wait[0]);

  Body body;
  body.number = arrivals_++;
  body.box = u[1] > 0.5f;
  body.radius = between(p.radius_min, p.radius_max, u[2]);
  const double side = 2 * box_half_side(body);
  body.mass = body.box ? side * side * side
                       : 4.0 / 3 * std::numbers::pi * body.radius * body.radius * body.radius;
  const double from = full_turn(u[3]), to = full_turn(u[4]);
  const double aim = kAimShare * kSightRadius * std::sqrt(u[5]);
  body.x = rim(body) * std::cos(from);
  body.y = rim(body) * std::sin(from);
  const double dx = aim * std::cos(to) - body.x, dy = aim * std::sin(to) - body.y;
  const double speed = between(p.speed_min, p.speed_max, u[6]);
  body.vx = speed * dx / length(dx, dy);
  body.vy = speed * dy / length(dx, dy);
  body.angle = full_turn(u[7]);
  body.turn = between(-kFastestTurn, kFastestTurn, u[8]);
  body.rest_left = exponential(p.rest, u[9]);

  const bool blocked = std::any_of(bodies_.begin(), bodies_.end(),
                                   [&](const Body& other) { return touching(body, other); });
  if (!blocked && bodies_.size() < kMaxBodies) bodies_.push_back(body);
}

void ScenePhysics::push(Body& body) const {
  const PhiloxBlock bits =
      stream_block(push_stream(seed_, trajectory_, body.number), body.pushes++);
  const double direction = full_turn(philox_uniform(bits.x0));
  const double speed =
      between(parameters_.speed_min, parameters_.speed_max, philox_uniform(bits.x1));
  body.vx = speed * std::cos(direction);
  body.vy = speed * std::sin(direction);
  body.turn = between(-kFastestTurn, kFastestTurn, philox_uniform(bits.x2));
  body.rest_left = exponential(parameters_.rest, philox_uniform(bits.x3));
}

// A step after which no two bodies overlap by more than kContactDepth: friction only slows them.
double ScenePhysics::safe_step() const {
  double step = kLongestStep;
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Body &a = bodies_[i], &b = bodies_[j];
      const double gap = length(b.x - a.x, b.y - a.y) - a.radius - b.radius;
      const double closing = length(a.vx, a.vy) + length(b.vx, b.vy);
      step = std::min(step, (std::max(gap, 0.0) + kContactDepth) / closing);
    }
  }
  return step;
}

void ScenePhysics::advance(double duration) {
  const double end = clock_ + duration;
  while (clock_ < end) {
    while (next_arrival_ <= clock_) admit_arrival();
    for (Body& body : bodies_) {
      if (body.rest_left <= 0) push(body);
    }
    resolve_contacts(bodies_);
    const double step = std::min({safe_step(), end - clock_, next_arrival_ - clock_});
    for (Body& body : bodies_) slide(body, parameters_.friction, step);
    clock_ += step;
    std::erase_if(bodies_, [](const Body& body) {
      return length(body.x, body.y) > rim(body) && body.x * body.vx + body.y * body.vy > 0;
    });
  }
}

}  // namespace slift
