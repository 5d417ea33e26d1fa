#include "systems/scene_render.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "core/random.h"
#include "systems/scene_physics.h"

namespace slift {
namespace {

constexpr SceneLook kBall = {false, false, {0.1f, 0.2f, 0.7f}};
constexpr SceneLook kMetalBall = {false, true, {0.1f, 0.2f, 0.7f}};
constexpr SceneLook kCube = {true, false, {0.7f, 0.2f, 0.1f}};
constexpr SceneLook kMetalCube = {true, true, {0.7f, 0.2f, 0.1f}};

using Picture = std::vector<float>;

SceneFrame frame_of(std::initializer_list<SceneObject> objects) {
  SceneFrame frame = {};
  for (const SceneObject& object : objects) frame.objects[frame.count++] = object;
  return frame;
}

Picture background(const SceneView& view) {
  Picture picture(static_cast<std::size_t>(3 * view.size * view.size));
  render_background(view, picture);
  return picture;
}

Picture render(const SceneView& view, const SceneFrame& frame) {
  Picture picture(static_cast<std::size_t>(3 * view.size * view.size));
  render_frame(view, frame, background(view), picture);
  return picture;
}

// The same without the rectangles that save work.
Picture render_in_full(const SceneView& view, SceneFrame frame) {
  for (int i = 0; i < frame.count; ++i) {
    frame.objects[i].outline = frame.objects[i].reach = {0, 0, view.size, view.size};
  }
  return render(view, frame);
}

// Where a point of the world appears, in pixels.
struct Spot {
  float row, column;
};
Spot project(const SceneView& view, Vec3 point) {
  const Vec3 to = point - view.eye;
  const float depth = dot(to, view.forward), half = 0.5f * static_cast<float>(view.size);
  return {half * (1 - dot(to, view.up) / (depth * dot(view.up, view.up))),
          half * (1 + dot(to, view.right) / (depth * dot(view.right, view.right)))};
}

float red_at(const SceneView& view, const Picture& picture, Vec3 point) {
  const Spot spot = project(view, point);
  return picture[static_cast<std::size_t>(static_cast<int>(spot.row) * view.size +
                                          static_cast<int>(spot.column))];
}

Vec3 floor_point(const SceneView& view, float u, float v) {
  const Vec3 direction = view.forward + u * view.right + v * view.up;
  return view.eye + (-view.eye.z / direction.z) * direction;
}

TEST(SceneRender, CameraSeesTheFloorWithinTheSightRadius) {
  const SceneView view = make_scene_view(128);
  float farthest = 0;
  for (const float u : {-1.0f, 1.0f}) {
    for (const float v : {-1.0f, 1.0f}) {
      EXPECT_LT((view.forward + u * view.right + v * view.up).z, 0);
      const Vec3 p = floor_point(view, u, v);
      farthest = std::max(farthest, std::hypot(p.x, p.y));
      EXPECT_NEAR(p.z, 0, 1e-5);
    }
  }
  EXPECT_LT(farthest, kSightRadius);
  EXPECT_GT(farthest, kSightRadius - 0.1);
  // Discs that collide overlap by less than half a pixel, even where pixels are smallest.
  const double pixel = 2.0 / 128 * std::sqrt(dot(view.right, view.right)) *
                       dot(floor_point(view, 0, -1) - view.eye, view.forward);
  EXPECT_LT(2 * kContactDepth, 0.5 * pixel);
}

TEST(SceneRender, SamplesCoverPixelAndLampEvenly) {
  const SceneView view = make_scene_view(128);
  std::vector<float> x(view.offset_x, view.offset_x + kSamples);
  std::vector<float> y(view.offset_y, view.offset_y + kSamples);
  std::sort(x.begin(), x.end());
  std::sort(y.begin(), y.end());
  Vec3 mean = {0, 0, 0};
  for (std::size_t i = 0; i < kSamples; ++i) {
    EXPECT_FLOAT_EQ(x[i], (static_cast<float>(i) + 0.5f) / kSamples);
    EXPECT_FLOAT_EQ(y[i], (static_cast<float>(i) + 0.5f) / kSamples);
    mean = mean + (1.0f / kSamples) * view.lamp_points[i];
    EXPECT_NEAR(dot(view.lamp_points[i], view.lamp_points[i]), 1, 1e-6);
    EXPECT_GT(view.lamp_points[i].z, 0.5f);
  }
  EXPECT_GT(dot(unit(mean), view.lamp), 0.9999f);
}

// Inside an object, by its definition.
bool inside(const SceneObject& o, Vec3 p) {
  const Vec3 q = p - o.centre;
  if (o.half == 0) return dot(q, q) < o.radius * o.radius;
  const float x = o.cosine * q.x + o.sine * q.y, y = -o.sine * q.x + o.cosine * q.y;
  return std::max({std::fabs(x), std::fabs(y), std::fabs(q.z)}) < o.half;
}

TEST(SceneRender, RaysMeetSurfaces) {
  const SceneView view = make_scene_view(64);
  for (const SceneLook& look : {kBall, kCube}) {
    const SceneObject o = place_object(view, look, 0.3, -0.8, 0.5, 0.4);
    int hits = 0;
    for (std::uint64_t ray = 0; ray < 400; ++ray) {
      float z[6];
      fill_normal({7, Purpose::kSystemNoise, ray, 0}, z);
      const Vec3 from = o.centre + 3.0f * unit({z[0], z[1], std::fabs(z[2])});  // no foot is seen
      const Vec3 direction = unit(o.centre + 0.4f * Vec3{z[3], z[4], z[5]} - from);
      const float distance = scene::hit(o, from, direction);
      // The first of many points along the ray that lies inside.
      float first = scene::kFar;
      for (float t = 0; t < 6 && first == scene::kFar; t += 0.002f) {
        if (inside(o, from + t * direction)) first = t;
      }
      if (first == scene::kFar) {
        // Rays that graze may meet it between two points.
        EXPECT_TRUE(distance == scene::kFar || !inside(o, from + (distance + 0.01f) * direction));
        continue;
      }
      ++hits;
      EXPECT_NEAR(distance, first - 0.001f, 0.0011f);
      const Vec3 point = from + distance * direction, normal = scene::normal_at(o, point);
      EXPECT_NEAR(dot(normal, normal), 1, 1e-5);
      EXPECT_FALSE(inside(o, point + 0.01f * normal));
      EXPECT_EQ(scene::hit(o, from, -1.0f * direction), scene::kFar);
    }
    EXPECT_GT(hits, 150);
    EXPECT_LT(hits, 350);
  }
}

TEST(SceneRender, CubeFacesAreFlatAndEdgesSoft) {
  const SceneView view = make_scene_view(64);
  const double angle = 0.3;
  const SceneObject o = place_object(view, kCube, 1, 2, 0.5, angle);
  const Vec3 face = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle)), 0};
  const Vec3 side = {-face.y, face.x, 0}, up = {0, 0, 1};
  const Vec3 middle = scene::normal_at(o, o.centre + 0.5f * face + 0.2f * side);
  EXPECT_NEAR(dot(middle, face), 1, 1e-5);
  const Vec3 upright_edge = scene::normal_at(o, o.centre + 0.5f * face + 0.5f * side);
  EXPECT_NEAR(dot(upright_edge, unit(face + side)), 1, 1e-5);
  const Vec3 upper_edge = scene::normal_at(o, o.centre + 0.5f * face + 0.5f * up);
  EXPECT_NEAR(dot(upper_edge, unit(face + up)), 1, 1e-5);
  const Vec3 foot = scene::normal_at(o, o.centre + 0.5f * face - 0.499f * up);
  EXPECT_NEAR(dot(foot, face), 1, 1e-5);
}

TEST(SceneRender, RectanglesOnlySaveWork) {
  // Every object's outline and reach hold all pixels it changes: near and far, at the borders, in
  // groups that shade each other.
  for (const int size : {33, 64}) {
    const SceneView view = make_scene_view(size);
    for (std::uint64_t trajectory = 0; trajectory < 12; ++trajectory) {
      ScenePhysicsParameters parameters;
      parameters.arrival_rate = 2, parameters.radius_max = 0.8;
      ScenePhysics motion(parameters, 5, trajectory);
      motion.advance(25);
      SceneFrame frame = {}, all = {};
      for (const Body& body : motion.bodies()) {
        const SceneLook& look = body.box ? (body.number % 2 ? kCube : kMetalCube)
                                         : (body.number % 2 ? kBall : kMetalBall);
        const SceneObject object = place_object(
            view, look, body.x, body.y, body.box ? box_half_side(body) : body.radius, body.angle);
        all.objects[all.count++] = object;
        if (in_sight(view, object)) frame.objects[frame.count++] = object;
      }
      EXPECT_GT(all.count, 5);
      EXPECT_EQ(render(view, frame), render_in_full(view, all));
    }
  }
}

TEST(SceneRender, RectanglesHoldTheWholeShadow) {
  const SceneView view = make_scene_view(256);
  for (const SceneLook& look : {kBall, kCube}) {
    const SceneFrame frame = frame_of({place_object(view, look, -2, -2, 0.8, 0.6)});
    EXPECT_EQ(render(view, frame), render_in_full(view, frame));
  }
}

TEST(SceneRender, NothingIsSeenAtTheRim) {
  const SceneView view = make_scene_view(48);
  const Picture empty = background(view);
  for (const double radius : {0.1, 0.4, 0.8}) {
    for (int k = 0; k < 48; ++k) {
      const double angle = k * std::numbers::pi / 24, rim = kSightRadius + kRimRadii * radius;
      for (const SceneLook& look : {kBall, kCube}) {
        const SceneObject object =
            place_object(view, look, rim * std::cos(angle), rim * std::sin(angle),
                         look.box ? radius / std::numbers::sqrt2 : radius, 0.7 * k);
        EXPECT_EQ(render_in_full(view, frame_of({object})), empty) << radius << ", " << k;
      }
    }
  }
}

TEST(SceneRender, FloorIsGreyAndSmooth) {
  const SceneView view = make_scene_view(64);
  const Picture picture = background(view);
  const std::size_t plane = picture.size() / 3;
  for (std::size_t i = 0; i < plane; ++i) {
    EXPECT_GT(picture[i], 0.4f);
    EXPECT_LT(picture[i], 0.75f);
    EXPECT_NEAR(picture[i], picture[plane + i], 0.02);
    EXPECT_NEAR(picture[i], picture[2 * plane + i], 0.02);
    EXPECT_NEAR(picture[i], picture[i % 64 == 0 ? i : i - 1], 0.01);
  }
}

TEST(SceneRender, ShadowsFallAwayFromTheLamp) {
  const SceneView view = make_scene_view(128);
  const Picture empty = background(view);
  for (const SceneLook& look : {kBall, kCube}) {
    const double half = look.box ? 0.35 : 0.5;
    const SceneObject object = place_object(view, look, 0, -2, half, 0.2);
    const Picture picture = render(view, frame_of({object}));
    const Vec3 foot = {object.centre.x, object.centre.y, 0};
    const Vec3 dark = foot + Vec3{0.62f, 0.15f, 0}, lit = foot + Vec3{-1.3f, -0.8f, 0};
    EXPECT_LT(red_at(view, picture, dark), 0.75f * red_at(view, empty, dark));
    EXPECT_EQ(red_at(view, picture, lit), red_at(view, empty, lit));
    // Soft: between full shadow and full light there are shades.
    int shades = 0;
    for (float x = 0.62f; x < 1.6f; x += 0.02f) {
      const Vec3 p = foot + Vec3{x, 0.15f, 0};
      const float share = red_at(view, picture, p) / red_at(view, empty, p);
      EXPECT_LE(share, 1);
      shades += share > 0.8f && share < 0.97f;
    }
    EXPECT_GE(shades, 3);
  }
}

TEST(SceneRender, ObjectsShadeEachOther) {
  const SceneView view = make_scene_view(128);
  const SceneObject ball = place_object(view, kBall, 1, -2, 0.5, 0);
  const Vec3 normal = view.lamp, point = ball.centre + 0.5f * normal;
  for (const SceneLook& look : {kBall, kCube}) {
    SceneObject other = place_object(view, look, 0, 0, 0.5, 0.3);
    other.centre = ball.centre + 1.4f * view.lamp;
    for (int sample = 0; sample < kSamples; ++sample) {
      const auto light = [&](const SceneFrame& frame) {
        return scene::light_at(view, frame, 0b11, 0, point, normal, sample);
      };
      const scene::Light alone = light(frame_of({ball})), shaded = light(frame_of({ball, other}));
      EXPECT_GT(alone.lamp, 0.5f * scene::kLamp);
      EXPECT_EQ(shaded.lamp, 0);
      EXPECT_LT(shaded.ambient, 0.95f * alone.ambient);
      // What lies on the other side of the lamp's rays takes nothing from the lamp.
      other.centre = ball.centre - 1.4f * view.lamp;
      EXPECT_EQ(light(frame_of({ball, other})).lamp, alone.lamp);
      other.centre = ball.centre + 1.4f * view.lamp;
    }
  }
}

TEST(SceneRender, ObjectsDoNotShadeThemselves) {
  // Where a cube's soft edge leans towards the lamp from a side that faces away from it, rays to
  // the lamp start into the cube.
  const SceneView view = make_scene_view(128);
  const SceneFrame frame = frame_of({place_object(view, kCube, 0.7, -1.3, 0.45, 0.3)});
  const SceneObject& cube = frame.objects[0];
  int leaning = 0;
  for (int k = 0; k < 200; ++k) {
    const float along = 0.004f * static_cast<float>(k - 100);
    const Vec3 point = cube.centre + scene::turned_back(cube, {0.45f, along, 0.449f});
    const Vec3 normal = scene::normal_at(cube, point);
    for (int sample = 0; sample < kSamples; ++sample) {
      const float facing = dot(normal, view.lamp_points[sample]);
      if (facing <= 0) continue;
      EXPECT_EQ(scene::light_at(view, frame, 1, 0, point, normal, sample).lamp,
                scene::kLamp * scene::falloff(point) * facing);
      ++leaning;
    }
  }
  EXPECT_GT(leaning, 1000);
}

TEST(SceneRender, NearerObjectsHideFartherOnes) {
  const SceneView view = make_scene_view(128);
  const SceneObject near = place_object(view, kBall, 0, -2.6, 0.5, 0);
  const SceneObject far = place_object(view, kCube, 0, -1.9, 0.4, 0);
  const Picture both = render(view, frame_of({far, near}));
  EXPECT_EQ(both, render(view, frame_of({near, far})));
  const Picture alone = render(view, frame_of({near}));
  const Spot centre = project(view, near.centre);
  const auto pixel = static_cast<std::size_t>(static_cast<int>(centre.row) * view.size +
                                              static_cast<int>(centre.column));
  const std::size_t plane = both.size() / 3;
  EXPECT_GT(both[2 * plane + pixel], 1.5f * both[pixel]);  // blue ball before a red cube
}

TEST(SceneRender, EdgesAreSmooth) {
  // Radiance averages over pixels: 2 x 2 pixels of a picture are one of the picture of half its
  // size, up to the error of 16 samples, which is largest at edges.
  const SceneView fine = make_scene_view(128), coarse = make_scene_view(64);
  const auto picture = [](const SceneView& view) {
    return render(view, frame_of({place_object(view, kBall, -0.6, -1.7, 0.6, 0),
                                  place_object(view, kCube, 1.1, -2.4, 0.5, 0.5)}));
  };
  const Picture a = picture(fine), b = picture(coarse);
  double sum = 0;
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t y = 0; y < 64; ++y) {
      for (std::size_t x = 0; x < 64; ++x) {
        const float* p = a.data() + c * 128 * 128 + 2 * y * 128 + 2 * x;
        const float pooled = (p[0] * p[0] + p[1] * p[1] + p[128] * p[128] + p[129] * p[129]) / 4;
        const float direct = b[(c * 64 + y) * 64 + x] * b[(c * 64 + y) * 64 + x];
        EXPECT_NEAR(pooled, direct, 0.06);
        sum += std::fabs(pooled - direct);
      }
    }
  }
  EXPECT_LT(sum / (3 * 64 * 64), 4e-4);
}

TEST(SceneRender, EdgePixelsFollowMotionByFractionsOfAPixel) {
  const SceneView view = make_scene_view(128);
  const double pixel = 2.0 / 128 * std::sqrt(dot(view.right, view.right)) * 17;
  const Picture before = render(view, frame_of({place_object(view, kBall, 0, -2.33, 0.5, 0)}));
  const Picture after =
      render(view, frame_of({place_object(view, kBall, pixel / 8, -2.33, 0.5, 0)}));
  float largest = 0;
  int changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    largest = std::max(largest, std::fabs(after[i] - before[i]));
    changed += std::fabs(after[i] - before[i]) > 0.01f;
  }
  EXPECT_GT(changed, 10);
  EXPECT_LT(largest, 0.2f);  // an eighth of the contrast, with room for the sampling
}

TEST(SceneRender, MetalHasTheBrighterHighlight) {
  const SceneView view = make_scene_view(128);
  const auto brightest = [&](const SceneLook& look) {
    const Picture picture = render(view, frame_of({place_object(view, look, 0, -2, 0.6, 0)}));
    EXPECT_GE(*std::min_element(picture.begin(), picture.end()), 0);
    return *std::max_element(picture.begin(), picture.end());
  };
  const Vec3 grey = {0.3f, 0.3f, 0.3f};
  EXPECT_GT(brightest({false, true, grey}), 0.95f);
  EXPECT_LE(brightest({false, true, grey}), 1.0f);
  EXPECT_LT(brightest({false, false, grey}), 0.8f);
}

}  // namespace
}  // namespace slift
