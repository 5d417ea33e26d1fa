// Bodies sliding on a floor: the motion behind the scene system.
//
// Bodies are discs on an unbounded plane. Between collisions each decelerates along its path,
//   dv/dt = -friction v/|v|   until it rests,
// and turns by a fixed angle per length of path. Discs that touch exchange momentum along the line
// of centres, without friction and without loss; mass is that of a sphere, or of the cube inscribed
// in the disc, of density 1. Body n enters at the n-th event of a Poisson process, at the rim of
// the arena, towards a point near its centre, and leaves for good when it crosses the rim outwards.
// A body at rest gets a push in a random direction after an exponential time, so that none stays
// for ever. Lengths are in arena units (the camera sees about 8), times in the same unit as 1/rate.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace slift {

// Every point of the floor that the camera sees is at most this far from the origin.
inline constexpr double kSightRadius = 7.7;
// A body whose centre is this many of its radii further out is unseen, with its shadow.
inline constexpr double kRimRadii = 3.0;
// Discs that collide overlap by about this at most: a fifth of the smallest pixel at 128^2.
inline constexpr double kContactDepth = 0.01;
// Arrivals that find the arena so full are turned away.
inline constexpr int kMaxBodies = 32;

struct ScenePhysicsParameters {
  double arrival_rate = 0.5;
  double friction = 0.4;  // deceleration
  double radius_min = 0.4, radius_max = 0.7;
  double speed_min = 1.5, speed_max = 3.5;  // of arrivals and of pushes
  double rest = 2.0;                        // mean time at rest before a push
};

struct Body {
  std::uint32_t number = 0;  // of the arrival; names the body
  bool box = false;
  double radius = 0, mass = 0;
  double x = 0, y = 0, vx = 0, vy = 0;
  double angle = 0, turn = 0;  // orientation; its change per unit of path
  double rest_left = 0;        // time at rest before the next push
  std::uint32_t pushes = 0;    // so far
};

// Half the side of a box, whose base is inscribed in its disc.
double box_half_side(const Body& body);

// Moves a body for a time without collisions.
void slide(Body& body, double friction, double time);

// The elastic exchange between two discs, along the line of centres.
void collide(Body& a, Body& b);

// Collides touching bodies until none approaches another.
void resolve_contacts(std::span<Body> bodies);

// One random history: a function of (parameters, seed, trajectory). It starts at time 0 with an
// empty arena.
class ScenePhysics {
 public:
  ScenePhysics(const ScenePhysicsParameters& parameters, std::uint64_t seed,
               std::uint64_t trajectory);

  void advance(double duration);
  std::span<const Body> bodies() const { return bodies_; }

 private:
  void admit_arrival();
  void push(Body& body) const;
  double safe_step() const;

  ScenePhysicsParameters parameters_;
  std::uint64_t seed_, trajectory_;
  double clock_ = 0, next_arrival_ = 0;
  std::uint32_t arrivals_ = 0;
  std::vector<Body> bodies_;
};

}  // namespace slift
