// Two-phase flow on the GPU: one thread block for each trajectory runs the templates of flow_step.h
// and flow_multigrid.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "systems/flow_step.h"

namespace slift::cuda {

struct FlowRun {
  flow::Reservoir reservoir;
  int crop = 0;  // first rows and columns that are not stored
  std::int64_t store_every = 1, stored = 2;
};

// Simulates one trajectory for each permeability field [count, cells] from connate water on and
// stores its saturations [count, stored, window]. Returns for each the outer step, from 1 on, at
// which its pressure could not be found, or -1; the states of such a trajectory are useless.
std::vector<std::int64_t> simulate_flow(const FlowRun& run, std::span<const double> permeability,
                                        std::span<float> states);

}  // namespace slift::cuda
