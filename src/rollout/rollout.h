// Rolls a model out: initial states + fresh labels -> an ensemble of trajectories, streamed to
// disk by a thread of its own, so that the network never waits for it.
//
// Member i is a function of (model, seed, its initial states, i) and the batch to the last bit,
// whatever the chunk size and thread count (rollout/chunk.h).
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/state_map.h"
#include "data/trajectories.h"
#include "methods/transition_model.h"
#include "rollout/step_check.h"

namespace slift {

struct RolloutOptions {
  // Changes results.
  std::int64_t members = 1;
  std::int64_t steps = 1;  // states 0 .. steps
  std::uint64_t seed = 0;
  // Member i starts from start number first_initial + i / branches of the initial trajectories,
  // over again after the last; trajectories of that file that branch have one start together.
  std::int64_t first_initial = 0;
  std::int64_t branches = 1;
  std::int64_t first_member = 0;  // members first_member .. first_member + members - 1
  std::int64_t every = 1;         // stored are the states 0, every, 2 every, ... up to `steps`
  bool first_window = false;      // states 0 .. window-1 are the initial trajectory's, not 0 alone
  // Rows of one network evaluation; 0: default_batch(). Another number may change the last bits,
  // since products and convolutions may be summed in another order.
  std::int64_t batch = 0;
  // Changes speed and memory only.
  bool graph = true;       // a step on a GPU is recorded as one CUDA graph
  std::int64_t chunk = 0;  // members computed together, in whole blocks; 0: chosen
  std::int64_t memory =
      256 << 20;  // bytes of states in flight; more if a block per thread needs it
};

// What the file of a rollout that keeps all states says.
TrajectoryInfo rollout_info(const ModelSpec& spec, const RolloutOptions& options);

// Calibrates the model's backbone, as precision fp8 needs it, on eight steps from the first state
// of each of the first 16 starts of `initial`, or as many as there are, in the model's precision.
// Of `options` only the seed counts, so that members remain functions of what they were before.
// Throws UserError if `initial` does not fit or the numbers are not finite.
void calibrate_rollout(TransitionModel& model, const TrajectoryReader& initial,
                       const RolloutOptions& options);

// Runs the first members' block for a few steps, recorded and eagerly. Throws UserError if
// `initial` does not fit.
StepCheck check_rollout(const TransitionModel& model, const TrajectoryReader& initial,
                        const RolloutOptions& options);

// Rolls out from `initial`'s trajectories into the file `out`, which gets what `map` keeps of the
// states, with a progress line. If a GPU's memory is too small for the batch, it is halved, with a
// warning, before anything is written. Throws UserError if `initial` does not fit,
// Diverged naming member and step if a state is not finite; either leaves nothing behind.
//
// If the process is killed, or interrupted (then Interrupted is thrown), what has been finished
// stays at OUT.partial with a journal: the same call, with the same model, files and options that
// change results, goes on from there and ends with the same bytes.
TrajectoryInfo roll_out_to_file(const TransitionModel& model, const TrajectoryReader& initial,
                                const RolloutOptions& options, const StateMap& map,
                                const std::filesystem::path& out);
// The same, keeping all of every state.
TrajectoryInfo roll_out_to_file(const TransitionModel& model, const TrajectoryReader& initial,
                                const RolloutOptions& options, const std::filesystem::path& out);

}  // namespace slift
