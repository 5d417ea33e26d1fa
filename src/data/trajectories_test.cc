#include "data/trajectories.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <thread>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/random.h"
#include "core/testing.h"
#include "data/hdf5.h"
#include "data/testing.h"

namespace slift {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

std::size_t size_of(const TrajectoryInfo& info, std::int64_t members) {
  return static_cast<std::size_t>(members * info.trajectory_size());
}

// Normals, with values among them that a conversion on the way would change.
std::vector<float> random_states(const TrajectoryInfo& info) {
  std::vector<float> states(size_of(info, info.members));
  fill_normal({1, Purpose::kSystemNoise, 0, 0}, states);
  states[1] = -0.0f;
  states[2] = std::numeric_limits<float>::denorm_min();
  states[3] = std::numeric_limits<float>::max();
  states[4] = std::numeric_limits<float>::quiet_NaN();
  return states;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

// Members first .. first+count-1 of `states`.
std::span<const float> part(const std::vector<float>& states, const TrajectoryInfo& info,
                            std::int64_t first, std::int64_t count) {
  return std::span(states).subspan(size_of(info, first), size_of(info, count));
}

class TrajectoriesTest : public testing::Test {
 protected:
  void SetUp() override { hdf5::initialise(); }

  // Writes pieces out of order, then reads other pieces.
  void round_trip(const TrajectoryInfo& info, std::int64_t write_piece, std::int64_t read_piece) {
    const fs::path path = folder_ / "data.h5";
    const std::vector<float> states = random_states(info);
    TrajectoryWriter writer(path, info);
    std::vector<std::int64_t> starts;
    for (std::int64_t first = 0; first < info.members; first += write_piece) {
      starts.insert(starts.size() % 2 == 0 ? starts.begin() : starts.end(), first);
    }
    for (const std::int64_t first : starts) {
      const std::int64_t count = std::min(write_piece, info.members - first);
      writer.write(first, count, part(states, info, first, count));
    }
    writer.commit();

    const TrajectoryReader reader(path);
    EXPECT_EQ(reader.info().members, info.members);
    EXPECT_EQ(reader.info().steps, info.steps);
    EXPECT_EQ(reader.info().state_shape, info.state_shape);
    std::vector<float> back;
    for (std::int64_t first = 0; first < info.members; first += read_piece) {
      const std::int64_t count = std::min(read_piece, info.members - first);
      back.resize(size_of(info, count));
      reader.read(first, count, back);
      ASSERT_TRUE(same_bits(back, part(states, info, first, count))) << "from member " << first;
    }
    // States 1 and 2 of the last two members.
    const auto state = static_cast<std::size_t>(info.state_size());
    back.resize(4 * state);
    reader.read_steps(info.members - 2, 2, 1, 2, back);
    for (std::size_t m = 0; m < 2; ++m) {
      const auto expected = part(states, info, info.members - 2 + static_cast<std::int64_t>(m), 1)
                                .subspan(state, 2 * state);
      EXPECT_TRUE(same_bits(std::span(back).subspan(m * 2 * state, 2 * state), expected));
    }
    std::int64_t visited = 0;
    for_each_chunk(reader, info.members - 1, [&](auto first, auto count, auto x) {
      EXPECT_EQ(first, visited);
      EXPECT_TRUE(same_bits(x, part(states, info, first, count)));
      visited += count;
    });
    EXPECT_EQ(visited, info.members - 1);
  }

  // An HDF5 file by hand, to get what the writer never writes.
  fs::path raw_file(const std::vector<hsize_t>& shape, hid_t type,
                    const std::string& dataset = "/states",
                    const std::string& format = "slift-trajectories", std::uint64_t version = 1) {
    const fs::path path = folder_ / "raw.h5";
    const hdf5::Handle file = hdf5::create_file(path);
    if (!format.empty()) hdf5::write_attribute(file, "format", format);
    hdf5::write_attribute(file, "version", version);
    const hdf5::Handle space(
        H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr), H5Sclose);
    const hdf5::Handle data(
        H5Dcreate2(file, dataset.c_str(), type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        H5Dclose);
    EXPECT_TRUE(data.valid());
    return path;
  }

  // The error of opening `path`, which must name it.
  std::string open_error(const fs::path& path) {
    const std::string text = error_of([&] { TrajectoryReader reader(path); });
    EXPECT_NE(text.find(path.string()), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    return text;
  }

  TestFolder folder_;
};

TEST_F(TrajectoriesTest, VectorsRoundTripInPieces) {
  round_trip(make_info(1003, 11, {3}), 137, 251);
}

TEST_F(TrajectoriesTest, FieldsRoundTripInPieces) {
  round_trip(make_info(7, 3, {2, 32, 96}), 2, 3);
  round_trip(make_info(7, 3, {3, 5, 1}), 3, 1);
}

TEST_F(TrajectoriesTest, AttributesSurvive) {
  TrajectoryInfo info = make_info(1, 2, {3});
  info.dt = 0.1;
  info.system = "pendulum";
  info.boundary = "periodic";
  info.seed = 0xFEDCBA9876543210u;
  info.fields = {"angle", "\"speed\", \xC3\xA9", ""};
  TrajectoryWriter(folder_ / "a.h5", info).commit();
  const TrajectoryInfo back = TrajectoryReader(folder_ / "a.h5").info();
  EXPECT_EQ(back.dt, 0.1);
  EXPECT_EQ(back.system, "pendulum");
  EXPECT_EQ(back.boundary, "periodic");
  EXPECT_EQ(back.seed, info.seed);
  EXPECT_EQ(back.fields, info.fields);
  EXPECT_EQ(back.record, "");
  EXPECT_EQ(back.first_member, 0);
  EXPECT_EQ(back.branches, 1);

  info.record = "{\"a\": 1}";
  info.first_member = 70'000'000'000;
  info.branches = 16;
  TrajectoryWriter(folder_ / "r.h5", info).commit();
  EXPECT_TRUE(TrajectoryReader(folder_ / "r.h5").info() == info);

  info.system = "", info.fields = {};
  TrajectoryWriter(folder_ / "b.h5", info).commit();
  EXPECT_EQ(TrajectoryReader(folder_ / "b.h5").info().system, "");
  EXPECT_TRUE(TrajectoryReader(folder_ / "b.h5").info().fields.empty());
}

// Longer than the 64 KiB of a header's message, as the record of a long vector is; and the same
// bytes whenever they are written.
TEST_F(TrajectoriesTest, AttributesMayBeLong) {
  TrajectoryInfo info = make_info(1, 2, {3});
  info.record = "{\"a\": \"" + std::string(300'000, 'x') + "\"}";
  TrajectoryWriter(folder_ / "a.h5", info).commit();
  EXPECT_TRUE(TrajectoryReader(folder_ / "a.h5").info() == info);
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // times are kept in seconds
  TrajectoryWriter(folder_ / "b.h5", info).commit();
  EXPECT_EQ(read_file(folder_ / "a.h5"), read_file(folder_ / "b.h5"));
}

// As h5py writes str.
TEST_F(TrajectoriesTest, StringsOfVariableLengthAreRead) {
  const fs::path path = raw_file({2, 3, 4}, H5T_IEEE_F32LE, "/states", "");
  {
    const hdf5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    const hdf5::Handle type(H5Tcopy(H5T_C_S1), H5Tclose), space(H5Screate(H5S_SCALAR), H5Sclose);
    H5Tset_size(type, H5T_VARIABLE);
    for (const auto& [name, text] :
         {std::pair("format", "slift-trajectories"), std::pair("system", "from h5py")}) {
      const hdf5::Handle attribute(H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT),
                                   H5Aclose);
      EXPECT_GE(H5Awrite(attribute, type, &text), 0);
    }
  }
  EXPECT_EQ(TrajectoryReader(path).info().system, "from h5py");
}

TEST_F(TrajectoriesTest, ShapesAreDescribed) {
  const TrajectoryInfo vectors = make_info(512, 71, {2}), fields = make_info(4, 5, {3, 8, 6});
  EXPECT_TRUE(vectors.is_vector());
  EXPECT_FALSE(fields.is_vector());
  EXPECT_EQ(fields.channels(), 3);
  EXPECT_EQ(fields.state_size(), 144);
  EXPECT_EQ(fields.trajectory_size(), 720);
  EXPECT_EQ(fields.transitions(), 16);
  EXPECT_EQ(vectors.describe_shape(), "512 x 71 x 2");
  EXPECT_EQ(members_within(fields, 2 * 2880), 2);
  EXPECT_EQ(members_within(fields, 2 * 2880 - 1), 1);
  EXPECT_EQ(members_within(fields, 0), 1);
  EXPECT_EQ(members_within(fields, 1 << 30), 4);
}

TEST_F(TrajectoriesTest, NothingIsLeftWithoutCommit) {
  const TrajectoryInfo info = make_info(2, 3, {2});
  const std::vector<float> states = random_states(info);
  {
    TrajectoryWriter writer(folder_ / "x.h5", info);
    writer.write(0, 2, states);
    EXPECT_FALSE(fs::exists(folder_ / "x.h5"));
  }
  EXPECT_EQ(folder_.files(), Names{});

  TrajectoryWriter(folder_ / "x.h5", info).commit();
  const std::string before = read_file(folder_ / "x.h5");
  {
    TrajectoryWriter writer(folder_ / "x.h5", info);
    writer.write(0, 2, states);
  }
  EXPECT_EQ(folder_.files(), Names{"x.h5"});
  EXPECT_EQ(read_file(folder_ / "x.h5"), before);
}

TEST_F(TrajectoriesTest, TruncatedFilesAreRejected) {
  const TrajectoryInfo info = make_info(5, 3, {2, 32, 96});
  TrajectoryWriter writer(folder_ / "x.h5", info);
  writer.write(0, 5, random_states(info));
  writer.commit();
  const auto whole = fs::file_size(folder_ / "x.h5");
  EXPECT_EQ(error_of([&] { TrajectoryReader reader(folder_ / "x.h5"); }), "");
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t{100}, std::uintmax_t{0}}) {
    fs::resize_file(folder_ / "x.h5", size);
    EXPECT_NE(open_error(folder_ / "x.h5"), "") << size;
  }
}

TEST_F(TrajectoriesTest, OtherFilesAreRejected) {
  EXPECT_NE(open_error(folder_ / "missing.h5"), "");
  EXPECT_NE(open_error(folder_.path()), "");
  std::ofstream(folder_ / "text.h5") << "not HDF5";
  EXPECT_NE(open_error(folder_ / "text.h5"), "");

  EXPECT_EQ(error_of([&] { TrajectoryReader r(raw_file({2, 3, 4}, H5T_IEEE_F32LE)); }), "");
  const auto says = [&](const fs::path& path, const std::string& rule) {
    const std::string text = open_error(path);
    EXPECT_NE(text.find(rule), std::string::npos) << text;
  };
  says(raw_file({2, 3, 4}, H5T_IEEE_F32LE, "/states", ""), "not a slift trajectory file");
  says(raw_file({2, 3, 4}, H5T_IEEE_F32LE, "/states", "other"), "not a slift trajectory file");
  says(raw_file({2, 3, 4}, H5T_IEEE_F32LE, "/states", "slift-trajectories", 2), "must be 1, got 2");
  says(raw_file({2, 3, 4}, H5T_IEEE_F32LE, "/other"), "no data set /states; the file has /other");
  says(raw_file({2, 3}, H5T_IEEE_F32LE), "must have rank 3");
  says(raw_file({2, 3, 4, 5}, H5T_IEEE_F32LE), "must have rank 3");
  says(raw_file({2, 3, 4, 5, 6, 7}, H5T_IEEE_F32LE), "must have rank 3");
  says(raw_file({2, 3, 4}, H5T_IEEE_F64LE), "must be float32");
  says(raw_file({2, 3, 4}, H5T_STD_I32LE), "must be float32");
  const auto with_attribute = [&](const char* name, const auto& value) {
    const fs::path path = raw_file({2, 3, 4}, H5T_IEEE_F32LE);
    const hdf5::Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    hdf5::write_attribute(file, name, value);
    return path;
  };
  says(with_attribute("fields", std::string("[\"a\", \"b\"]")), "must name the 4 components");
  for (const double dt : {0.0, -1.0, std::nan("")}) says(with_attribute("dt", dt), "dt must be");
  says(raw_file({0, 3, 4}, H5T_IEEE_F32LE), "must not be empty");
  says(raw_file({2, 0, 4}, H5T_IEEE_F32LE), "must not be empty");
}

TEST_F(TrajectoriesTest, RangesAreChecked) {
  const TrajectoryInfo info = make_info(3, 4, {2});
  std::vector<float> one(8), two(16);
  TrajectoryWriter writer(folder_ / "x.h5", info);
  EXPECT_THROW(writer.write(-1, 1, one), std::logic_error);
  EXPECT_THROW(writer.write(3, 1, one), std::logic_error);
  EXPECT_THROW(writer.write(2, 2, two), std::logic_error);
  EXPECT_THROW(writer.write(0, 1, two), std::logic_error);
  EXPECT_THROW(writer.write(0, -1, {}), std::logic_error);
  EXPECT_NO_THROW(writer.write(3, 0, {}));
  writer.commit();

  const TrajectoryReader reader(folder_ / "x.h5");
  EXPECT_THROW(reader.read(-1, 1, one), std::logic_error);
  EXPECT_THROW(reader.read(3, 1, one), std::logic_error);
  EXPECT_THROW(reader.read(2, 2, two), std::logic_error);
  EXPECT_THROW(reader.read(0, 1, two), std::logic_error);
  EXPECT_THROW(reader.read(0, -1, {}), std::logic_error);
  EXPECT_THROW(reader.read_steps(0, 1, -1, 4, one), std::logic_error);
  EXPECT_THROW(reader.read_steps(0, 1, 1, 4, one), std::logic_error);
  EXPECT_THROW(reader.read_steps(0, 2, 0, 3, one), std::logic_error);
  EXPECT_NO_THROW(reader.read_steps(0, 2, 2, 2, one));
  EXPECT_NO_THROW(reader.read_steps(1, 0, 0, 4, {}));
}

}  // namespace
}  // namespace slift
