#include <algorithm>
#include <cstddef>

#include "systems/cuda/device.h"
#include "systems/cuda/scene.h"

namespace slift::cuda {
namespace {

// blockIdx.y is the frame.
__global__ void scene_kernel(SceneView view, const SceneFrame* frames, float* pictures) {
  const int pixels = view.size * view.size;
  const int pixel = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (pixel >= pixels) return;
  const SceneFrame& frame = frames[blockIdx.y];
  const int row = pixel / view.size, column = pixel % view.size;
  const Vec3 colour = render_pixel(view, frame, pixel_objects(frame, row, column), row, column);
  float* to = pictures + static_cast<std::size_t>(blockIdx.y) * 3 * pixels + pixel;
  to[0] = colour.x;
  to[pixels] = colour.y;
  to[2 * pixels] = colour.z;
}

}  // namespace

void render_scene(const SceneView& view, std::span<const SceneFrame> frames,
                  std::span<float> pictures) {
  if (frames.empty()) return;
  constexpr unsigned kThreads = 128;
  constexpr std::size_t kDeviceFloats = std::size_t{1} << 26;  // 256 MiB of pictures at a time
  constexpr std::size_t kMaxGridY = 65535;
  const std::size_t picture = pictures.size() / frames.size();
  const std::size_t chunk =
      std::min(frames.size(), std::clamp<std::size_t>(kDeviceFloats / picture, 1, kMaxGridY));
  const auto blocks = static_cast<unsigned>((picture / 3 + kThreads - 1) / kThreads);
  DeviceArray<SceneFrame> device_frames(chunk);
  DeviceArray<float> device_pictures(chunk * picture);
  for (std::size_t first = 0; first < frames.size(); first += chunk) {
    const std::size_t count = std::min(chunk, frames.size() - first);
    device_frames.upload(frames.subspan(first, count));
    scene_kernel<<<dim3(blocks, static_cast<unsigned>(count)), kThreads>>>(
        view, device_frames.data(), device_pictures.data());
    check("scene");
    device_pictures.download(pictures.subspan(first * picture, count * picture));
  }
}

}  // namespace slift::cuda
