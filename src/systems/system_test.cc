#include "systems/system.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "core/errors.h"
#include "core/progress.h"
#include "core/testing.h"

namespace slift {
namespace {

constexpr std::int64_t kMembers = 64;
constexpr std::uint64_t kSeed = 17;

// Sets the number of OpenMP threads, back again at the end.
class Threads {
 public:
  explicit Threads(int count) : before_(omp_get_max_threads()) { omp_set_num_threads(count); }
  ~Threads() { omp_set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

// Trajectories 0 .. kMembers-1, made `batch` at a time, the last batch first.
std::vector<float> simulate(System& system, std::uint64_t seed, std::int64_t batch) {
  const std::int64_t size = system.describe().trajectory_size();
  std::vector<float> states(static_cast<std::size_t>(kMembers * size), NAN);
  for (std::int64_t first = (kMembers - 1) / batch * batch; first >= 0; first -= batch) {
    const std::int64_t count = std::min(batch, kMembers - first);
    const auto part = std::span(states).subspan(static_cast<std::size_t>(first * size),
                                                static_cast<std::size_t>(count * size));
    system.simulate({seed, first, count, part, {}});
  }
  return states;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// One test for each system of the registry.
class EverySystem : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { Progress::set_enabled(false); }
  void TearDown() override { Progress::set_enabled(true); }
  static std::unique_ptr<System> make_quick() {
    const auto& all = system_registry();
    const auto entry =
        std::find_if(all.begin(), all.end(), [](const auto& e) { return e.name == GetParam(); });
    auto system = entry->make();
    for (const std::string& setting : entry->quick) system->schema().apply_setting(setting);
    return system;
  }
  std::unique_ptr<System> system_ = make_quick();
};

TEST_P(EverySystem, TrajectoriesDoNotDependOnBatchOrThreads) {
  std::vector<float> reference;
  {
    const Threads one(1);
    reference = simulate(*system_, kSeed, kMembers);
  }
  EXPECT_TRUE(
      std::all_of(reference.begin(), reference.end(), [](float x) { return std::isfinite(x); }));
  for (const int threads : {1, 2}) {
    const Threads some(threads);
    for (const std::int64_t batch : {1, 7, 64}) {
      EXPECT_TRUE(same_bits(simulate(*system_, kSeed, batch), reference))
          << "batch " << batch << ", " << threads << " threads";
    }
  }
  EXPECT_TRUE(same_bits(simulate(*make_quick(), kSeed, kMembers), reference));
}

TEST_P(EverySystem, SeedsAndMembersDiffer) {
  const std::vector<float> a = simulate(*system_, kSeed, kMembers);
  const std::vector<float> b = simulate(*system_, kSeed + 1, kMembers);
  // Compared by last states: first ones may be fixed.
  const TrajectoryInfo info = system_->describe();
  const auto last = [&](const std::vector<float>& states, std::int64_t m) {
    const auto* end = states.data() + (m + 1) * info.trajectory_size();
    return std::vector<float>(end - info.state_size(), end);
  };
  std::set<std::vector<float>> distinct;
  for (std::int64_t m = 0; m < kMembers; ++m) distinct.insert({last(a, m), last(b, m)});
  EXPECT_EQ(distinct.size(), static_cast<std::size_t>(2 * kMembers));
}

TEST_P(EverySystem, BranchesShareTheirStartOnly) {
  TestFolder folder;
  const auto simulate_branches = [&] {
    simulate_to_file(*system_, {.members = 6, .seed = kSeed, .branches = 3}, folder / "b.h5");
  };
  if (!system_->can_branch()) {
    EXPECT_NE(error_of(simulate_branches).find("--branches"), std::string::npos);
    return;
  }
  simulate_branches();
  const TrajectoryReader reader(folder / "b.h5");
  const TrajectoryInfo& info = reader.info();
  EXPECT_EQ(info.branches, 3);
  const auto state = [&](std::int64_t member, std::int64_t step) {
    std::vector<float> values(static_cast<std::size_t>(info.state_size()));
    reader.read_steps(member, 1, step, 1, values);
    return values;
  };
  for (const std::int64_t group : {0, 3}) {
    for (const std::int64_t branch : {1, 2}) {
      EXPECT_EQ(state(group, 0), state(group + branch, 0));
      EXPECT_NE(state(group, info.steps - 1), state(group + branch, info.steps - 1));
    }
  }
  EXPECT_NE(state(2, info.steps - 1), state(3, info.steps - 1));
  if (GetParam() == "duffing") {
    EXPECT_NE(state(0, 0), state(3, 0));
  }
}

TEST_P(EverySystem, DescriptionIsConsistent) {
  const TrajectoryInfo info = system_->describe();
  EXPECT_EQ(info.system, GetParam());
  EXPECT_EQ(info.members, 0);
  EXPECT_GE(info.steps, 2);
  EXPECT_GT(info.dt, 0);
  EXPECT_TRUE(info.state_shape.size() == 1 || info.state_shape.size() == 3);
  EXPECT_EQ(static_cast<std::int64_t>(info.fields.size()), info.channels());
  EXPECT_TRUE(info.boundary == "none" || info.boundary == "periodic") << info.boundary;
}

TEST_P(EverySystem, SchemaKeepsTheDefaults) {
  const std::string before = system_->schema().to_toml();
  EXPECT_NE(before, "");
  system_->schema().apply_text(before, "defaults");
  EXPECT_EQ(system_->schema().to_toml(), before);
  EXPECT_THROW(system_->schema().apply_setting("no_such_parameter=1"), UserError);
}

TEST_P(EverySystem, RangesAreChecked) {
  const std::int64_t size = system_->describe().trajectory_size();
  std::vector<float> one(static_cast<std::size_t>(size));
  EXPECT_THROW(system_->simulate({0, -1, 1, one, {}}), std::logic_error);
  EXPECT_THROW(system_->simulate({0, 0, 2, one, {}}), std::logic_error);
  EXPECT_THROW(system_->simulate({0, 0, -1, {}, {}}), std::logic_error);
  EXPECT_NO_THROW(system_->simulate({0, 0, 0, {}, {}}));
}

TEST_P(EverySystem, FileHoldsTheSameTrajectories) {
  const TestFolder folder;
  const bool media = system_->describe().media_size() > 0;
  const TrajectoryInfo told = simulate_to_file(
      *system_, {.members = kMembers, .seed = kSeed, .batch = 5, .media = media}, folder / "x.h5");
  const TrajectoryReader reader(folder / "x.h5");
  EXPECT_EQ(folder.files(), std::vector<std::string>{"x.h5"});
  EXPECT_EQ(reader.info().members, kMembers);
  EXPECT_EQ(reader.info().seed, kSeed);
  EXPECT_EQ(reader.info().system, GetParam());
  EXPECT_EQ(reader.info().dt, told.dt);
  EXPECT_EQ(reader.info().fields, told.fields);
  std::vector<float> states(static_cast<std::size_t>(kMembers * told.trajectory_size()));
  reader.read(0, kMembers, states);
  EXPECT_TRUE(same_bits(states, simulate(*system_, kSeed, kMembers)));
  if (!media) {
    EXPECT_THROW(simulate_to_file(*system_, {.members = 1, .media = true}, folder / "y.h5"),
                 UserError);
    return;
  }
  EXPECT_EQ(reader.info().media_fields, told.media_fields);
  std::vector<float> stored(static_cast<std::size_t>(kMembers * told.media_size()));
  std::vector<float> direct(stored.size());
  reader.read_media(0, kMembers, stored);
  system_->simulate({kSeed, 0, kMembers, states, direct});
  EXPECT_TRUE(same_bits(stored, direct));
}

// The two devices' trajectories of the first members, to 1e-4 of their largest value.
void expect_cuda_agrees(System& system, std::int64_t members) {
  std::vector<float> cpu(static_cast<std::size_t>(members * system.describe().trajectory_size()));
  std::vector<float> cuda(cpu.size());
  system.simulate({kSeed, 0, members, cpu, {}});
  system.simulate({kSeed, 0, members, cuda, {}}, Device::kCuda);
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(cpu[i]) - cuda[i]));
    scale = std::max(scale, std::abs(static_cast<double>(cpu[i])));
  }
  EXPECT_LT(difference, 1e-4 * scale);
  testing::Test::RecordProperty("relative_difference", std::to_string(difference / scale));
}

TEST_P(EverySystem, CudaAgreesOrIsRefused) {
  if (cuda_usable()) {
    expect_cuda_agrees(*system_, kMembers);
    return;
  }
  std::vector<float> one(static_cast<std::size_t>(system_->describe().trajectory_size()));
  EXPECT_THROW(system_->simulate({0, 0, 1, one, {}}, Device::kCuda), UserError);
}

#ifdef SLIFT_WITH_CUDA
TEST_P(EverySystem, CudaAgreesAtFullSize) { expect_cuda_agrees(*make_system(GetParam()), 8); }
#endif

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const SystemEntry& entry : system_registry()) result.push_back(entry.name);
  return result;
}

INSTANTIATE_TEST_SUITE_P(Registry, EverySystem, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

TEST(SimulateToFile, DivergedTrajectoriesAreRefused) {
  const QuietProgress quiet;
  const TestFolder folder;
  const auto system = make_system("duffing");
  system->schema().apply_setting("inner_dt=0.2");
  try {
    simulate_to_file(*system, {.members = 4, .batch = 1}, folder / "x.h5");
    FAIL() << "must throw";
  } catch (const std::runtime_error& error) {
    const std::string text = error.what();
    for (const char* part : {"trajectory 0 of duffing", " at step ", "smaller time step"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
  }
  EXPECT_TRUE(folder.files().empty());
}

TEST(SystemRegistry, NamesAreUniqueAndExplained) {
  const std::vector<std::string> all = names();
  EXPECT_FALSE(all.empty());
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()).size(), all.size());
  for (const SystemEntry& entry : system_registry()) EXPECT_NE(entry.summary, "") << entry.name;
}

TEST(SystemRegistry, UnknownNameSuggestsTheNearest) {
  try {
    make_system("dufing");
    FAIL() << "must throw";
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "unknown system dufing; the nearest is duffing");
  }
}

}  // namespace
}  // namespace slift
