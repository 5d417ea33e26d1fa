// Pictures of spheres and boxes on a grey floor, by ray casting, for the CPU and for CUDA.
//
// World: x to the right, y away from the camera, z up, the floor at z = 0. A pixel is the mean of
// kSamples rays, each towards another point of the pixel and lit from another point of a round
// lamp at infinity, which gives smooth edges and soft shadows. Radiance is
//   albedo (lamp max(0, n.l) visible + (fill + ambient) (1 - occlusion)) + highlight,
// metal reflects a simple studio instead; a pixel stores its square root (display gamma 2).
//
// The functions use only IEEE operations in a fixed order: built without contraction (-fmad=false,
// -ffp-contract=off) they give the same bits on both devices. Trigonometry stays in
// scene_render.cc.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

#include "core/philox.h"

namespace slift {

inline constexpr int kSampleGrid = 4;
inline constexpr int kSamples = kSampleGrid * kSampleGrid;
inline constexpr int kMaxObjects = 32;

struct Vec3 {
  float x, y, z;
};
SLIFT_HD Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
SLIFT_HD Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
SLIFT_HD Vec3 operator*(float s, Vec3 a) { return {s * a.x, s * a.y, s * a.z}; }
SLIFT_HD Vec3 operator*(Vec3 a, Vec3 b) { return {a.x * b.x, a.y * b.y, a.z * b.z}; }
SLIFT_HD float dot(Vec3 a, Vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
SLIFT_HD Vec3 unit(Vec3 a) { return (1.0f / std::sqrt(dot(a, a))) * a; }

// Pixels left <= column < right, top <= row < bottom.
struct PixelRect {
  int left, top, right, bottom;
};
SLIFT_HD bool contains(const PixelRect& r, int row, int column) {
  return column >= r.left && column < r.right && row >= r.top && row < r.bottom;
}

// A sphere or an upright cube standing on the floor.
struct SceneObject {
  Vec3 centre;
  float radius;        // of the sphere
  float half;          // half the side of the cube; 0 for a sphere
  float cosine, sine;  // of the cube's turn about the vertical
  Vec3 colour;         // linear, in [0, 1]
  bool metal;
  PixelRect outline;  // holds all pixels that can show it
  PixelRect reach;    // and all that it can shade
};

struct SceneFrame {
  int count;
  SceneObject objects[kMaxObjects];
};

// The camera, the lamp and the sampling pattern.
struct SceneView {
  int size;           // pixels along a side
  Vec3 eye, forward;  // a pixel's ray is forward + u right + v up, u and v in [-1, 1]
  Vec3 right, up;
  Vec3 lamp;                                     // direction of the lamp's centre
  Vec3 lamp_points[kSamples];                    // directions of points spread over it
  float offset_x[kSamples], offset_y[kSamples];  // points of a pixel, in (0, 1)
};

namespace scene {

inline constexpr float kFloorAlbedo = 0.42f;
inline constexpr float kLamp = 0.85f, kFill = 0.16f, kAmbient = 0.34f;
inline constexpr float kOcclusionRadii = 2.0f;  // how far ambient occlusion reaches
inline constexpr float kBevel = 0.14f;          // width of a cube's soft edges, in half sides
inline constexpr float kFar = 1e30f;

SLIFT_HD Vec3 fill_direction() { return {0.62f, -0.62f, 0.48f}; }

SLIFT_HD float least(float a, float b) { return a < b ? a : b; }
SLIFT_HD float most(float a, float b) { return a > b ? a : b; }
SLIFT_HD float clamp01(float x) { return least(most(x, 0.0f), 1.0f); }

// 0 below a, 1 above b, smooth between.
SLIFT_HD float ramp(float a, float b, float x) {
  const float t = clamp01((x - a) / (b - a));
  return t * t * (3.0f - 2.0f * t);
}

// x^(2^doublings)
SLIFT_HD float sharpen(float x, int doublings) {
  for (int i = 0; i < doublings; ++i) x *= x;
  return x;
}

// Into the frame of a cube, and back.
SLIFT_HD Vec3 turned(const SceneObject& o, Vec3 a) {
  return {o.cosine * a.x + o.sine * a.y, o.cosine * a.y - o.sine * a.x, a.z};
}
SLIFT_HD Vec3 turned_back(const SceneObject& o, Vec3 a) {
  return {o.cosine * a.x - o.sine * a.y, o.cosine * a.y + o.sine * a.x, a.z};
}

SLIFT_HD float inverse(float x) { return 1.0f / (std::fabs(x) < 1e-9f ? 1e-9f : x); }

// Where a ray (unit direction) first meets an object: the distance, or kFar. Rays start outside.
SLIFT_HD float hit(const SceneObject& o, Vec3 from, Vec3 direction) {
  const Vec3 to_centre = o.centre - from;
  if (o.half == 0.0f) {
    const float along = dot(to_centre, direction);
    const Vec3 across = to_centre - along * direction;
    const float inside = o.radius * o.radius - dot(across, across);
    if (inside <= 0.0f) return kFar;
    const float t = along - std::sqrt(inside);
    return t > 0.0f ? t : kFar;
  }
  const Vec3 c = turned(o, to_centre), d = turned(o, direction);
  const Vec3 slope = {inverse(d.x), inverse(d.y), inverse(d.z)};
  const float x0 = (c.x - o.half) * slope.x, x1 = (c.x + o.half) * slope.x;
  const float y0 = (c.y - o.half) * slope.y, y1 = (c.y + o.half) * slope.y;
  const float z0 = (c.z - o.half) * slope.z, z1 = (c.z + o.half) * slope.z;
  const float enter = most(most(least(x0, x1), least(y0, y1)), least(z0, z1));
  const float leave = least(least(most(x0, x1), most(y0, y1)), most(z0, z1));
  return enter < leave && enter > 0.0f ? enter : kFar;
}

// How far a coordinate of a cube of half side 1 lies within the bevel next to its face.
SLIFT_HD float into_bevel(float x) {
  const float depth = most(std::fabs(x) - (1.0f - kBevel), 0.0f);
  return x < 0.0f ? -depth : depth;
}

// The normal at a point of the surface. Near the upper and the upright edges of a cube it leans
// over to the next face.
SLIFT_HD Vec3 normal_at(const SceneObject& o, Vec3 point) {
  if (o.half == 0.0f) return unit(point - o.centre);
  const Vec3 q = (1.0f / o.half) * turned(o, point - o.centre);
  return unit(turned_back(o, {into_bevel(q.x), into_bevel(q.y), most(into_bevel(q.z), 0.0f)}));
}

// The share of the ambient light at a point that an object takes away: the solid angle of a ball
// of its size weighted by the cosine, fading to 0 at kOcclusionRadii.
SLIFT_HD float occlusion(const SceneObject& o, Vec3 point, Vec3 normal) {
  const Vec3 to = o.centre - point;
  const float r2 = o.radius * o.radius, d2 = dot(to, to);
  if (d2 > kOcclusionRadii * kOcclusionRadii * r2) return 0.0f;
  const float cosine = dot(to, normal) / std::sqrt(d2);
  const float fade = 1.0f - d2 / (kOcclusionRadii * kOcclusionRadii * r2);
  return clamp01(cosine * fade * r2 / d2);
}

// The lamp is a little nearer to one side of the floor.
SLIFT_HD float falloff(Vec3 p) {
  const float x = p.x + 1.2f, y = p.y + 2.0f;
  return 1.0f / (1.0f + 0.009f * (x * x + y * y));
}

struct Light {
  float lamp, fill, ambient;
};

// What arrives at a point from lamp point `sample`. `self` is the object it lies on, -1: the floor.
SLIFT_HD Light light_at(const SceneView& view, const SceneFrame& frame, std::uint32_t reaching,
                        int self, Vec3 point, Vec3 normal, int sample) {
  const float facing = dot(normal, view.lamp_points[sample]);
  float visible = facing > 0.0f ? 1.0f : 0.0f, open = 1.0f;
  for (int i = 0; i < frame.count; ++i) {
    if (i == self || (reaching >> i & 1u) == 0) continue;
    const SceneObject& o = frame.objects[i];
    open *= 1.0f - occlusion(o, point, normal);
    if (visible > 0.0f && hit(o, point, view.lamp_points[sample]) < kFar) visible = 0.0f;
  }
  const float near = falloff(point);
  const float sky = 0.65f + 0.35f * normal.z;
  return {kLamp * near * visible * most(facing, 0.0f),
          kFill * near * open * most(dot(normal, fill_direction()), 0.0f),
          kAmbient * near * open * sky};
}

// What a polished surface of height `point.z` sees in direction r: the floor below, darker close to
// its foot, fading at a blurred horizon into a dark room with two soft boxes.
SLIFT_HD float studio(const SceneView& view, Vec3 point, Vec3 r, float radius) {
  const float distance = point.z / most(-r.z, 0.05f);
  const float ground = 0.45f * distance / (distance + 0.5f * radius);
  const float lamp = ramp(0.86f, 0.95f, dot(r, view.lamp));
  const float fill = ramp(0.90f, 0.97f, dot(r, fill_direction()));
  const float room = 0.07f + 0.16f * most(r.z, 0.0f) + 1.5f * lamp + 0.45f * fill;
  return ground + (room - ground) * ramp(-0.35f, 0.15f, r.z);
}

SLIFT_HD Vec3 floor_colour(const SceneView& view, const SceneFrame& frame, std::uint32_t reaching,
                           Vec3 point, int sample) {
  const Light light = light_at(view, frame, reaching, -1, point, {0.0f, 0.0f, 1.0f}, sample);
  const float grey = kFloorAlbedo * (light.lamp + light.fill + light.ambient);
  return {grey, 0.99f * grey, 0.975f * grey};
}

SLIFT_HD Vec3 object_colour(const SceneView& view, const SceneFrame& frame, std::uint32_t reaching,
                            int self, Vec3 point, Vec3 direction, int sample) {
  const SceneObject& o = frame.objects[self];
  const Vec3 normal = normal_at(o, point);
  Light light = light_at(view, frame, reaching, self, point, normal, sample);
  // The floor takes light from what stands close above it.
  light.ambient *= 0.35f + 0.65f * clamp01(point.z / o.radius);
  const Vec3 half_way = unit(view.lamp_points[sample] - direction);
  const float gloss = most(dot(normal, half_way), 0.0f);
  const float lit = light.lamp > 0.0f ? 1.0f : 0.0f;
  if (!o.metal) {
    const float highlight = 0.10f * lit * sharpen(gloss, 5);
    const float diffuse = light.lamp + light.fill + light.ambient;
    return diffuse * o.colour + Vec3{highlight, highlight, highlight};
  }
  const Vec3 mirrored = direction - 2.0f * dot(direction, normal) * normal;
  const float polish = 1.1f * studio(view, point, mirrored, o.radius);
  const float diffuse = 0.28f * (light.lamp + light.fill + light.ambient);
  const float highlight = 0.9f * lit * sharpen(gloss, 7);
  return (diffuse + polish) * o.colour + Vec3{highlight, highlight, highlight};
}

}  // namespace scene

// Which objects can show in a pixel (bit i: object i), and which can change it at all.
struct PixelObjects {
  std::uint32_t showing, reaching;
};
SLIFT_HD PixelObjects pixel_objects(const SceneFrame& frame, int row, int column) {
  PixelObjects result = {0, 0};
  for (int i = 0; i < frame.count; ++i) {
    const std::uint32_t bit = 1u << i;
    if (contains(frame.objects[i].outline, row, column)) result.showing |= bit;
    if (contains(frame.objects[i].reach, row, column)) result.reaching |= bit;
  }
  return result;
}

// Red, green and blue of one pixel, in [0, 1].
SLIFT_HD Vec3 render_pixel(const SceneView& view, const SceneFrame& frame, PixelObjects objects,
                           int row, int column) {
  Vec3 sum = {0.0f, 0.0f, 0.0f};
  const float scale = 2.0f / static_cast<float>(view.size);
  for (int sample = 0; sample < kSamples; ++sample) {
    const float u = scale * (static_cast<float>(column) + view.offset_x[sample]) - 1.0f;
    const float v = 1.0f - scale * (static_cast<float>(row) + view.offset_y[sample]);
    const Vec3 direction = unit(view.forward + u * view.right + v * view.up);
    float nearest = -view.eye.z / direction.z;  // the floor
    int self = -1;
    for (int i = 0; i < frame.count; ++i) {
      if ((objects.showing >> i & 1u) == 0) continue;
      const float distance = scene::hit(frame.objects[i], view.eye, direction);
      if (distance < nearest) nearest = distance, self = i;
    }
    const Vec3 point = view.eye + nearest * direction;
    sum = sum + (self < 0 ? scene::floor_colour(view, frame, objects.reaching, point, sample)
                          : scene::object_colour(view, frame, objects.reaching, self, point,
                                                 direction, sample));
  }
  const float weight = 1.0f / kSamples;
  return {std::sqrt(scene::least(weight * sum.x, 1.0f)),
          std::sqrt(scene::least(weight * sum.y, 1.0f)),
          std::sqrt(scene::least(weight * sum.z, 1.0f))};
}

// The fixed camera and lamp, for pictures of size x size pixels.
SceneView make_scene_view(int size);

struct SceneLook {
  bool box = false, metal = false;
  Vec3 colour = {0.5f, 0.5f, 0.5f};
};

// A sphere of radius `extent` or a cube of half side `extent` that stands at (x, y).
SceneObject place_object(const SceneView& view, const SceneLook& look, double x, double y,
                         double extent, double angle);

// Whether the object, its shadow or its occlusion can change any pixel.
bool in_sight(const SceneView& view, const SceneObject& object);

// The picture of the empty floor, [3, size, size].
void render_background(const SceneView& view, std::span<float> picture);

// A frame, [3, size, size]; pixels that no object reaches are taken from the background.
void render_frame(const SceneView& view, const SceneFrame& frame, std::span<const float> background,
                  std::span<float> picture);

}  // namespace slift
