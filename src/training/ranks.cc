#include "training/ranks.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>

#include "core/errors.h"
#include "core/log.h"

#if defined(SLIFT_WITH_GLOO) || defined(SLIFT_WITH_NCCL)
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#endif
#ifdef SLIFT_WITH_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#ifdef SLIFT_WITH_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
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
    return {*rank, *size, read_integer(launcher.local_rank).value_or(*rank), launcher.size};
  }
  return {};
}

#if defined(SLIFT_WITH_GLOO) || defined(SLIFT_WITH_NCCL)

struct Ranks::Connection {
  c10::intrusive_ptr<c10d::TCPStore> store;
  std::function<void(Tensor&)> add_up;  // over all processes, in place
};

namespace {

// A lost process closes its connections, which Gloo notices at once; this long may the leader take
// for a validation or a checkpoint.
constexpr std::chrono::minutes kPatience{30};

// From 2.4 on the store uses libuv unless it is told not to, and Debian's LibTorch is built
// without.
template <typename Options>
void use_plain_sockets(Options& options) {
  if constexpr (requires { options.useLibUV; }) options.useLibUV = false;
}

template <typename Group>
std::function<void(Tensor&)> summing(const c10::intrusive_ptr<Group>& group) {
  return [group](Tensor& tensor) {
    std::vector<Tensor> list = {tensor};
    group->allreduce(list)->wait();
  };
}

std::function<void(Tensor&)> connect(const c10::intrusive_ptr<c10d::Store>& store,
                                     const RankInfo& info, const at::Device& device,
                                     [[maybe_unused]] const std::string& host) {
  if (device.is_cuda()) {
#ifdef SLIFT_WITH_NCCL
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = kPatience;
    const auto group =
        c10::make_intrusive<c10d::ProcessGroupNCCL>(store, info.rank, info.size, options);
    // NCCL wants to be told the end; whoever drops this function last does.
    const std::shared_ptr<void> farewell(nullptr, [group](void*) { group->shutdown(); });
    return [add_up = summing(group), farewell](Tensor& tensor) { add_up(tensor); };
#else
    fail("started as rank {} of {}, but this build has no NCCL to connect GPUs", info.rank,
         info.size);
#endif
  }
#ifdef SLIFT_WITH_GLOO
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->timeout = kPatience;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(host));
  return summing(c10::make_intrusive<c10d::ProcessGroupGloo>(store, info.rank, info.size, options));
#else
  fail("started as rank {} of {}, but this build has no Gloo to connect CPUs", info.rank,
       info.size);
#endif
}

}  // namespace

Ranks::Ranks(const RankInfo& info, const at::Device& device) : info_(info), device_(device) {
  const auto chosen_port = read_integer("MASTER_PORT");
  if (info.size == 1 && !chosen_port) return;
  const char* address = std::getenv("MASTER_ADDR");
  const std::string host = address != nullptr ? address : "127.0.0.1";
  const int port = chosen_port.value_or(29500);
  require(port > 0 && port < 65536, "environment variable MASTER_PORT must be a port, got {}",
          port);
  // Under Slurm a single process, too, sees how many tasks its job has: say what is waited for.
  if (leads() && info.size > 1) {
    spdlog::info("{} ranks meet at {}:{}; started alone? unset {}", info.size, host, port,
                 info.size_from);
  }
  // Gloo writes to its sockets like to files: a rank that is lost would end this one by a signal,
  // before Gloo could say what happened.
  std::signal(SIGPIPE, SIG_IGN);
  connection_ = std::make_unique<Connection>();
  try {
    c10d::TCPStoreOptions store;
    store.port = static_cast<std::uint16_t>(port);
    store.isServer = leads();
    store.numWorkers = info.size;
    store.timeout = std::chrono::seconds(60);
    use_plain_sockets(store);
    connection_->store = c10::make_intrusive<c10d::TCPStore>(host, store);
    connection_->add_up = connect(connection_->store, info, device, host);
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
  Tensor all = at::cat(flat);
  try {
    connection_->add_up(all);
  } catch (const std::exception& error) {
    const std::string what = error.what();
    throw std::runtime_error(
        fmt::format("rank {} of {} lost contact with another rank ({}); continue from the last "
                    "checkpoint with --resume",
                    info_.rank, info_.size, what.substr(0, what.find('\n'))));
  }
  all.div_(info_.size);
  std::int64_t first = 0;
  for (const Tensor& t : tensors) {
    t.copy_(all.narrow(0, first, t.numel()).view_as(t));
    first += t.numel();
  }
}

#else

struct Ranks::Connection {};

Ranks::Ranks(const RankInfo& info, const at::Device& device) : info_(info), device_(device) {
  require(info.size == 1, "started as rank {} of {}, but this build has neither Gloo nor NCCL",
          info.rank, info.size);
}

void Ranks::average(const std::vector<Tensor>&) {}

#endif

std::string rank_backends() {
  std::string names;
#ifdef SLIFT_WITH_GLOO
  names += "Gloo";
#endif
#ifdef SLIFT_WITH_NCCL
  names += names.empty() ? "NCCL" : ", NCCL";
#endif
  return names;
}

Ranks::~Ranks() = default;

void Ranks::wait_for_all() {
  const Tensor token = at::zeros({1}, at::device(device_));
  average({token});
  token.item<float>();  // on a GPU the call above only queues work
}

}  // namespace slift
