#include "training/ranks.h"

#include <cstdlib>
#include <optional>

#include "core/errors.h"

#ifdef SLIFT_WITH_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif

namespace slift {
namespace {

std::optional<int> read_integer(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  require(end != text && *end == '\0' && value >= 0 && value < 1 << 20,
          "environment variable {} must be a small whole number, got '{}'", name, text);
  return static_cast<int>(value);
}

struct Launcher {
  const char *rank, *size, *local_rank;
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
};

}  // namespace

RankInfo RankInfo::from_environment() {
  for (const Launcher& launcher : kLaunchers) {
    const auto rank = read_integer(launcher.rank), size = read_integer(launcher.size);
    if (!rank || !size) continue;
    require(*rank < *size, "environment variable {} = {} must be less than {} = {}", launcher.rank,
            *rank, launcher.size, *size);
    return {*rank, *size, read_integer(launcher.local_rank).value_or(*rank)};
  }
  return {};
}

#ifdef SLIFT_WITH_GLOO

bool can_use_ranks() { return true; }

struct Ranks::Connection {
  c10::intrusive_ptr<c10d::TCPStore> store;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
};

Ranks::Ranks(const RankInfo& info) : info_(info) {
  if (info.size == 1) return;
  const char* address = std::getenv("MASTER_ADDR");
  const std::string host = address != nullptr ? address : "127.0.0.1";
  const int port = read_integer("MASTER_PORT").value_or(29500);
  require(port > 0 && port < 65536, "environment variable MASTER_PORT must be a port, got {}",
          port);
  connection_ = std::make_unique<Connection>();
  try {
    c10d::TCPStoreOptions store;
    store.port = static_cast<std::uint16_t>(port);
    store.isServer = leads();
    store.numWorkers = info.size;
    store.timeout = std::chrono::seconds(60);
    connection_->store = c10::make_intrusive<c10d::TCPStore>(host, store);
    auto options = c10d::ProcessGroupGloo::Options::create();
    // A lost process closes its connections and is noticed at once; this long may the leader take
    // for a validation or a checkpoint.
    options->timeout = std::chrono::minutes(30);
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
    connection_->group = c10::make_intrusive<c10d::ProcessGroupGloo>(connection_->store, info.rank,
                                                                     info.size, options);
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    const std::string what = error.what();
    fail("rank {} of {} cannot meet the others at {}:{}: {}", info.rank, info.size, host, port,
         what.substr(0, what.find('\n')));
  }
}

void Ranks::average(const std::vector<Tensor>& tensors) {
  if (!connection_) return;
  std::vector<Tensor> flat;
  for (const Tensor& t : tensors) flat.push_back(t.reshape({-1}));
  const Tensor all = at::cat(flat);
  std::vector<Tensor> host = {all.to(at::kCPU)};
  try {
    connection_->group->allreduce(host)->wait();
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw std::runtime_error(
        fmt::format("rank {} of {} lost contact with another rank ({}); continue from the last "
                    "checkpoint with --resume",
                    info_.rank, info_.size, what.substr(0, what.find('\n'))));
  }
  const Tensor mean = host[0].div_(info_.size).to(all.device());
  std::int64_t first = 0;
  for (const Tensor& t : tensors) {
    t.copy_(mean.narrow(0, first, t.numel()).view_as(t));
    first += t.numel();
  }
}

#else

bool can_use_ranks() { return false; }

struct Ranks::Connection {};

Ranks::Ranks(const RankInfo& info) : info_(info) {
  require(info.size == 1, "started as rank {} of {}, but this build has no Gloo", info.rank,
          info.size);
}

void Ranks::average(const std::vector<Tensor>&) {}

#endif

Ranks::~Ranks() = default;

void Ranks::wait_for_all() { average({at::zeros({1})}); }

}  // namespace slift
