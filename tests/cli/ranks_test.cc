// Training on several processes of this machine, started as torchrun would.
#include "training/ranks.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmath>
#include <thread>

#include "fixture.h"
#include "tensor/safetensors.h"

namespace slift::testing {
namespace {

class RanksTest : public CliTest {
 protected:
  // A port that was free a moment ago.
  static int free_port() {
    const int socket_id = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(socket_id, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(getsockname(socket_id, reinterpret_cast<sockaddr*>(&address), &size), 0);
    close(socket_id);
    return ntohs(address.sin_port);
  }

  // Trains on two ranks; the second is killed after `kill_after_ms`, if that is not negative.
  static std::vector<ProcessResult> train_on_two(std::vector<std::string> arguments,
                                                 int kill_after_ms = -1) {
    arguments.insert(arguments.begin(), {"train", path("small.toml"), "-q", "--threads", "1"});
    const std::string port = "MASTER_PORT=" + std::to_string(free_port());
    std::vector<ProcessResult> results(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        ProcessOptions options;
        options.environment = {"RANK=" + std::to_string(rank), "WORLD_SIZE=2", port};
        if (rank == 1) options.kill_after_ms = kill_after_ms;
        results[static_cast<std::size_t>(rank)] = run_slift(arguments, options);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }

  static double largest_difference(const std::string& a, const std::string& b) {
    const SafeTensors first = read_safetensors(a), second = read_safetensors(b);
    double largest = 0;
    for (const auto& [name, tensor] : first.tensors) {
      const Tensor difference = (tensor - second.at(name, b)).abs().max();
      largest = std::max(largest, difference.item<double>());
    }
    return largest;
  }
};

TEST_F(RanksTest, TwoRanksTrainTheModelOfOne) {
  ASSERT_NE(rank_backends().find("Gloo"), std::string::npos)
      << "libgloo-dev was not there when this was built";
  // By regression alone, and with a second half that looks at rollouts.
  for (const std::string from : {"1", "0.5"}) {
    const std::vector<std::string> settings = {
        "--set", "train.iterations=50", "--set", "optim.warmup=5", "--set", "score.from=" + from};
    std::vector<std::string> alone = {"train", path("small.toml"), "-o", path("one" + from), "-q"};
    alone.insert(alone.end(), settings.begin(), settings.end());
    const auto one = run_slift(alone);
    ASSERT_EQ(one.exit_code, 0) << one.err;
    std::vector<std::string> shared = {"-o", path("two" + from)};
    shared.insert(shared.end(), settings.begin(), settings.end());
    const auto two = train_on_two(shared);
    for (const ProcessResult& rank : two) ASSERT_EQ(rank.exit_code, 0) << rank.err;
    EXPECT_NE(two[0].out, "");
    EXPECT_EQ(two[1].out, "") << "the leading rank speaks for all";
    EXPECT_LT(largest_difference(path("one" + from + "/model.safetensors"),
                                 path("two" + from + "/model.safetensors")),
              1e-5);
  }
  // The trained weights are neither the initial ones nor each other: the comparisons mean
  // something.
  EXPECT_GT(largest_difference(path("one1/model.safetensors"), path("run/model.safetensors")),
            1e-3);
  EXPECT_GT(largest_difference(path("one1/model.safetensors"), path("one0.5/model.safetensors")),
            1e-3);
}

TEST_F(RanksTest, AKilledRankStopsTheOthersAndTheRunResumes) {
  ASSERT_NE(rank_backends().find("Gloo"), std::string::npos)
      << "libgloo-dev was not there when this was built";
  const std::vector<std::string> arguments = {"-o",
                                              path("killed"),
                                              "--resume",
                                              "--set",
                                              "train.iterations=1000000",
                                              "--set",
                                              "train.checkpoint_every=20"};
  constexpr int kKillAfterMs = 6000;
  const auto killed = train_on_two(arguments, kKillAfterMs);
  EXPECT_EQ(killed[1].exit_code, -1);
  EXPECT_EQ(killed[0].exit_code, 1);
  EXPECT_NE(killed[0].err.find("lost contact with another rank"), std::string::npos)
      << killed[0].err;
  EXPECT_NE(killed[0].err.find("--resume"), std::string::npos);
  EXPECT_LT(killed[0].seconds, kKillAfterMs / 1000.0 + 30);
  ASSERT_TRUE(std::filesystem::exists(path("killed/checkpoints")));

  // Resumed on one process, it goes on from the checkpoint.
  ProcessOptions stop_soon;
  stop_soon.signal = 2, stop_soon.kill_after_ms = 3000;
  std::vector<std::string> alone = {"train", path("small.toml")};
  alone.insert(alone.end(), arguments.begin(), arguments.end());
  const auto resumed = run_slift(alone, stop_soon);
  EXPECT_EQ(resumed.exit_code, 130) << resumed.err;
  EXPECT_NE(resumed.err.find("resuming"), std::string::npos) << resumed.err;
}

TEST_F(RanksTest, SenselessEnvironmentsAreRefused) {
  const auto error = [&](std::vector<std::string> environment) {
    ProcessOptions options;
    options.environment = std::move(environment);
    const auto result =
        run_slift({"train", path("small.toml"), "-o", path("never"), "-q"}, options);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(path("never")));
    return result.err;
  };
  EXPECT_NE(error({"RANK=2", "WORLD_SIZE=2"}).find("RANK = 2 must be less than WORLD_SIZE = 2"),
            std::string::npos);
  EXPECT_NE(error({"RANK=one", "WORLD_SIZE=2"}).find("RANK must be"), std::string::npos);
  EXPECT_NE(error({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "MASTER_PORT=99999"})
                .find("MASTER_PORT"),
            std::string::npos);
}

}  // namespace
}  // namespace slift::testing
