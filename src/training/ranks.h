// The processes of one data-parallel run. Each computes its share of every batch; gradients are
// averaged over all of them, so that each makes the same step and the result does not depend on
// their number beyond rounding.
//
// Processes are started by torchrun (RANK, WORLD_SIZE, LOCAL_RANK), mpirun (OMPI_COMM_WORLD_RANK,
// _SIZE, _LOCAL_RANK) or srun (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID) and meet at
// MASTER_ADDR:MASTER_PORT (127.0.0.1:29500 unless set). With none of these there is one process.
//
// On the CPU they speak through Gloo; on GPUs, one for each process of a machine, through NCCL.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tensor/torch_compat.h"

namespace slift {

// How this build lets several processes speak: "Gloo", "NCCL", both or nothing ("").
std::string rank_backends();

struct RankInfo {
  int rank = 0, size = 1, local_rank = 0;
  std::string size_from = {};  // the environment variable that says how many there are

  // From the environment. Throws UserError if what it says makes no sense.
  static RankInfo from_environment();
};

class Ranks {
 public:
  // Connects with the other processes, for tensors on `device`; waits a minute for them. Throws
  // UserError if they do not come, or if this build cannot do it. A single process connects only if
  // a launcher has set MASTER_PORT.
  Ranks(const RankInfo& info, const at::Device& device);
  ~Ranks();

  const at::Device& device() const { return device_; }
  bool connected() const { return connection_ != nullptr; }
  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  // Whether this is the process that writes files and speaks.
  bool leads() const { return info_.rank == 0; }

  // Replaces every tensor by its mean over all processes, which must call this together with
  // tensors of the same shapes on the device. Throws std::runtime_error if a process is gone; on
  // GPUs that shows only after 30 minutes, but launchers end the others at once.
  void average(const std::vector<Tensor>& tensors);

  // Waits for all processes.
  void wait_for_all();

 private:
  struct Connection;
  RankInfo info_;
  at::Device device_;
  std::unique_ptr<Connection> connection_;  // null if there is nobody to speak with
};

}  // namespace slift
