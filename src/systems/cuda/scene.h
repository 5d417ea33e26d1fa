// Pictures of the scene system on CUDA, one thread a pixel.
#pragma once

#include <span>

#include "systems/scene_render.h"

namespace slift::cuda {

// Renders all frames into `pictures` (host memory), [frames, 3, size, size]; the same bits as
// render_frame(). Throws std::runtime_error if CUDA fails.
void render_scene(const SceneView& view, std::span<const SceneFrame> frames,
                  std::span<float> pictures);

}  // namespace slift::cuda
