#include "systems/scene_render.h"

#include <algorithm>
#include <cstddef>
#include <numbers>

namespace slift {
namespace {

// The camera looks down at the floor from `kDistance` away.
constexpr double kDistance = 17, kElevation = 42 * std::numbers::pi / 180;
constexpr double kHalfWidth = 0.2309;  // of the picture, at distance 1: a field of 26 degrees
constexpr double kTargetY = -2.33;     // puts the visible floor's corners on a circle about 0
constexpr double kLampSpread = 0.09;   // radius of the lamp, at distance 1

Vec3 cross(Vec3 a, Vec3 b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

// Grows to hold the projections of points; points must lie in front of the camera.
class Bounds {
 public:
  explicit Bounds(const SceneView& view) : view_(view) {}

  void add(Vec3 point) {
    const Vec3 to = point - view_.eye;
    const float depth = dot(to, view_.forward);
    const float u = dot(to, view_.right) / (depth * dot(view_.right, view_.right));
    const float v = dot(to, view_.up) / (depth * dot(view_.up, view_.up));
    left_ = std::min(left_, u), right_ = std::max(right_, u);
    bottom_ = std::min(bottom_, v), top_ = std::max(top_, v);
  }

  void add_box(Vec3 low, Vec3 high) {
    for (const float x : {low.x, high.x}) {
      for (const float y : {low.y, high.y}) {
        for (const float z : {low.z, high.z}) add({x, y, z});
      }
    }
  }

  // One pixel wider, against rounding.
  PixelRect pixels() const {
    const float half = 0.5f * static_cast<float>(view_.size);
    const auto at = [&](float w) { return static_cast<int>(std::floor(half * (w + 1))); };
    return {at(left_) - 1, at(-top_) - 1, at(right_) + 2, at(-bottom_) + 2};
  }

 private:
  const SceneView& view_;
  float left_ = scene::kFar, right_ = -scene::kFar, bottom_ = scene::kFar, top_ = -scene::kFar;
};

void store(std::span<float> picture, int size, int row, int column, Vec3 colour) {
  const std::size_t plane = picture.size() / 3;
  float* pixel = picture.data() + static_cast<std::ptrdiff_t>(row) * size + column;
  pixel[0] = colour.x;
  pixel[plane] = colour.y;
  pixel[2 * plane] = colour.z;
}

}  // namespace

SceneView make_scene_view(int size) {
  SceneView view = {};
  view.size = size;
  const auto ahead = static_cast<float>(std::cos(kElevation));
  const auto down = static_cast<float>(std::sin(kElevation));
  const auto width = static_cast<float>(kHalfWidth);
  view.forward = {0, ahead, -down};
  view.right = {width, 0, 0};
  view.up = {0, width * down, width * ahead};
  view.eye =
      Vec3{0, static_cast<float>(kTargetY), 0} - static_cast<float>(kDistance) * view.forward;

  view.lamp = unit({-0.50f, -0.30f, 0.80f});
  const Vec3 side = unit(cross(view.lamp, {0, 0, 1})), other = cross(view.lamp, side);
  for (int i = 0; i < kSamples; ++i) {
    // Each sample has a column and a row of the pixel to itself, and one point of a sunflower
    // pattern on the lamp; 7 i takes neighbouring samples to distant points.
    const int a = i % kSampleGrid, b = i / kSampleGrid;
    const float cell = 1.0f / kSampleGrid;
    view.offset_x[i] = cell * (static_cast<float>(a) + cell * (static_cast<float>(b) + 0.5f));
    view.offset_y[i] = cell * (static_cast<float>(b) + cell * (static_cast<float>(a) + 0.5f));
    const int k = 7 * i % kSamples;
    const double radius = kLampSpread * std::sqrt((k + 0.5) / kSamples);
    const double angle = k * std::numbers::pi * (3 - std::sqrt(5.0));
    view.lamp_points[i] = unit(view.lamp + static_cast<float>(radius * std::cos(angle)) * side +
                               static_cast<float>(radius * std::sin(angle)) * other);
  }
  return view;
}

SceneObject place_object(const SceneView& view, const SceneLook& look, double x, double y,
                         double extent, double angle) {
  SceneObject o = {};
  const auto e = static_cast<float>(extent);
  o.centre = {static_cast<float>(x), static_cast<float>(y), e};
  o.radius = look.box ? 1.2f * e : e;  // of a cube: a ball that shades the floor alike
  o.half = look.box ? e : 0;
  o.cosine = static_cast<float>(std::cos(angle));
  o.sine = static_cast<float>(std::sin(angle));
  o.colour = look.colour;
  o.metal = look.metal;

  Bounds bounds(view);
  const float width = look.box ? static_cast<float>(std::numbers::sqrt2) * e : e;
  const Vec3 low = o.centre - Vec3{width, width, e}, high = o.centre + Vec3{width, width, e};
  bounds.add_box(low, high);
  o.outline = bounds.pixels();

  // The shadow volume ends on the floor, where the lamp throws the top.
  for (const Vec3& lamp : view.lamp_points) {
    const Vec3 thrown = (high.z / lamp.z) * lamp;
    bounds.add_box({low.x - thrown.x, low.y - thrown.y, 0},
                   {high.x - thrown.x, high.y - thrown.y, 0});
  }
  const float far = scene::kOcclusionRadii * o.radius;
  bounds.add_box({o.centre.x - far, o.centre.y - far, 0},
                 {o.centre.x + far, o.centre.y + far, o.centre.z + far});
  o.reach = bounds.pixels();
  return o;
}

bool in_sight(const SceneView& view, const SceneObject& object) {
  const PixelRect& r = object.reach;
  return r.left < view.size && r.right > 0 && r.top < view.size && r.bottom > 0;
}

void render_background(const SceneView& view, std::span<float> picture) {
  const SceneFrame empty = {};
  for (int row = 0; row < view.size; ++row) {
    for (int column = 0; column < view.size; ++column) {
      store(picture, view.size, row, column, render_pixel(view, empty, {0, 0}, row, column));
    }
  }
}

void render_frame(const SceneView& view, const SceneFrame& frame, std::span<const float> background,
                  std::span<float> picture) {
  std::copy(background.begin(), background.end(), picture.begin());
  for (int row = 0; row < view.size; ++row) {
    for (int column = 0; column < view.size; ++column) {
      const PixelObjects objects = pixel_objects(frame, row, column);
      if (objects.reaching == 0) continue;
      store(picture, view.size, row, column, render_pixel(view, frame, objects, row, column));
    }
  }
}

}  // namespace slift
