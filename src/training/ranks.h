// The processes of one data-parallel run. Each computes its share of every batch; gradients are
// averaged over all of them, so that each makes the same step and the result does not depend on
// their number beyond rounding.
//
// Processes are started by torchrun (RANK, WORLD_SIZE, LOCAL_RANK), mpirun (OMPI_COMM_WORLD_RANK,
// _SIZE, _LOCAL_RANK) or srun (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID) and meet at
// MASTER_ADDR:MASTER_PORT (127.0.0.1:29500 unless set). With none of these there is one process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/torch_compat.h"

namespace slift {

// Whether this build can run on more than one process.
bool can_use_ranks();

struct RankInfo {
  int rank = 0, size = 1, local_rank = 0;

  // From the environment. Throws UserError if what it says makes no sense.
  static RankInfo from_environment();
};

class Ranks {
 public:
  // Connects with the other processes; waits a minute for them. Throws UserError if they do not
  // come, or if this build cannot do it.
  explicit Ranks(const RankInfo& info);
  ~Ranks();

  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  // Whether this is the process that writes files and speaks.
  bool leads() const { return info_.rank == 0; }

  // Replaces every tensor by its mean over all processes, which must call this together with
  // tensors of the same shapes on one device. Throws std::runtime_error if a process is gone.
  void average(const std::vector<Tensor>& tensors);

  // Waits for all processes.
  void wait_for_all();

 private:
  struct Connection;
  RankInfo info_;
  std::unique_ptr<Connection> connection_;  // null if there is one process
};

}  // namespace slift
