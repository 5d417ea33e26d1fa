#include "data/import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "core/errors.h"
#include "core/log.h"
#include "core/progress.h"
#include "core/testing.h"
#include "data/array_source.h"
#include "data/hdf5.h"

namespace slift {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

// Sizes of the axes; those a layout does not name are 1.
const std::map<char, std::int64_t> kExtent = {{'M', 3}, {'T', 4}, {'N', 2},
                                              {'C', 2}, {'H', 2}, {'W', 3}};

std::vector<std::int64_t> shape_of(const std::string& layout) {
  std::vector<std::int64_t> shape;
  for (const char axis : layout) shape.push_back(kExtent.at(axis));
  return shape;
}

std::size_t size_of(const std::vector<std::int64_t>& shape) {
  std::int64_t size = 1;
  for (const std::int64_t n : shape) size *= n;
  return static_cast<std::size_t>(size);
}

// For each element in the order of the file, its place in [M, T, C, H, W] (or [M, T, N]).
std::vector<std::size_t> places(const std::string& layout, bool fortran) {
  const std::vector<std::int64_t> shape = shape_of(layout);
  std::vector<std::size_t> result;
  for (std::size_t flat = 0; flat < size_of(shape); ++flat) {
    std::map<char, std::int64_t> at;
    auto rest = static_cast<std::int64_t>(flat);
    for (std::size_t i = 0; i < layout.size(); ++i) {
      const std::size_t axis = fortran ? i : layout.size() - 1 - i;  // fastest first
      at[layout[axis]] = rest % shape[axis];
      rest /= shape[axis];
    }
    std::int64_t place = 0;
    for (const char axis : std::string("MTNCHW")) {
      if (layout.find(axis) != std::string::npos) place = place * kExtent.at(axis) + at[axis];
    }
    result.push_back(static_cast<std::size_t>(place));
  }
  return result;
}

// Bytes of the numbers factor * place + offset.
template <typename T>
std::string encode(const std::vector<std::size_t>& place, double factor, double offset,
                   bool big_endian = false) {
  std::string bytes;
  for (const std::size_t k : place) {
    const T value = static_cast<T>(factor * static_cast<double>(k) + offset);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    if (big_endian) std::reverse(raw, raw + sizeof(T));
    bytes.append(raw, sizeof(T));
  }
  return bytes;
}

// A .npy file as numpy.save writes it: the header is padded to 64 bytes.
std::string npy(const std::string& descr, bool fortran, const std::vector<std::int64_t>& shape,
                const std::string& data, int version = 1) {
  std::string header =
      fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': ({}{}), }}", descr,
                  fortran ? "True" : "False", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  const std::size_t before = version == 1 ? 10 : 12;
  while ((before + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
  for (std::size_t i = 0; i < before - 8; ++i) {
    file += static_cast<char>((header.size() >> (8 * i)) & 0xFF);
  }
  return file + header + data;
}

std::string float_npy(const std::string& layout, bool fortran = false, double offset = 0) {
  return npy("'<f4'", fortran, shape_of(layout), encode<float>(places(layout, fortran), 1, offset));
}

class ImportTest : public testing::Test {
 protected:
  void SetUp() override {
    Progress::set_enabled(false);
    hdf5::initialise();
  }
  void TearDown() override { Progress::set_enabled(true); }

  fs::path write(const std::string& name, const std::string& content) {
    write_file_atomically(folder_ / name, content);
    return folder_ / name;
  }

  fs::path write_hdf5(const std::string& name, const Names& datasets, hid_t file_type,
                      const std::vector<std::int64_t>& shape, const std::vector<float>& values) {
    const hdf5::Handle file = hdf5::create_file(folder_ / name);
    const std::vector<hsize_t> dims(shape.begin(), shape.end());
    const hdf5::Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                             H5Sclose);
    const hdf5::Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
    H5Pset_create_intermediate_group(links, 1);
    for (const std::string& dataset : datasets) {
      const hdf5::Handle data(
          H5Dcreate2(file, dataset.c_str(), file_type, space, links, H5P_DEFAULT, H5P_DEFAULT),
          H5Dclose);
      EXPECT_TRUE(data.valid());
      if (values.empty()) continue;
      EXPECT_GE(H5Dwrite(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), 0);
    }
    return folder_ / name;
  }

  // The states of `out` after importing.
  std::vector<float> import(const std::vector<fs::path>& sources, const ImportOptions& options) {
    const TrajectoryInfo told = import_trajectories(sources, out_, options);
    const TrajectoryReader reader(out_);
    info_ = reader.info();
    EXPECT_EQ(told.describe_shape(), info_.describe_shape());
    std::vector<float> states(static_cast<std::size_t>(info_.members * info_.trajectory_size()));
    reader.read(0, info_.members, states);
    return states;
  }

  // The error of importing, after which there must be no output, not even a part of one.
  std::string error_of(const std::vector<fs::path>& sources, const ImportOptions& options) {
    const Names before = folder_.files();
    try {
      import_trajectories(sources, out_, options);
    } catch (const UserError& error) {
      EXPECT_EQ(folder_.files(), before);
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
      return error.what();
    }
    return "no error";
  }
  std::string layout_error(const fs::path& source, const std::string& layout) {
    ImportOptions options;
    options.layout = layout;
    return error_of({source}, options);
  }

  TestFolder folder_;
  fs::path out_ = folder_ / "out.h5";
  TrajectoryInfo info_;  // of the last import
};

void expect_line(const std::vector<float>& states, double factor, double offset) {
  for (std::size_t k = 0; k < states.size(); ++k) {
    ASSERT_EQ(states[k], static_cast<float>(factor * static_cast<double>(k) + offset)) << k;
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_F(ImportTest, NumberTypes) {
  for (const int version : {1, 2, 3}) {
    for (const bool fortran : {false, true}) {
      const auto place = places("MTN", fortran);
      const auto check = [&](const std::string& type, const std::string& data, double factor,
                             double offset) {
        SCOPED_TRACE(type + (fortran ? " Fortran" : " C") + " version " + std::to_string(version));
        const auto file = write("x.npy", npy(type, fortran, {3, 4, 2}, data, version));
        const auto states = import({file}, {});
        ASSERT_EQ(info_.describe_shape(), "3 x 4 x 2");
        expect_line(states, factor, offset);
      };
      // Factors chosen to fill more than one byte of each type, with both signs.
      check("'<f4'", encode<float>(place, 0.37, -3), 0.37, -3);
      check("'>f4'", encode<float>(place, 0.37, -3, true), 0.37, -3);
      check("'<f8'", encode<double>(place, 0.37, -3), 0.37, -3);
      check("'>f8'", encode<double>(place, 0.37, -3, true), 0.37, -3);
      check("'<i2'", encode<std::int16_t>(place, -1300, 7), -1300, 7);
      check("'>i2'", encode<std::int16_t>(place, -1300, 7, true), -1300, 7);
      check("'<u2'", encode<std::uint16_t>(place, 2800, 7), 2800, 7);
      check("'|i1'", encode<std::int8_t>(place, -9, 100), -9, 100);
      check("'|u1'", encode<std::uint8_t>(place, 10, 5), 10, 5);
      check("'>i4'", encode<std::int32_t>(place, -70000, 3, true), -70000, 3);
      check("'<i8'", encode<std::int64_t>(place, -70000, 3), -70000, 3);
    }
  }
}

TEST_F(ImportTest, HalfPrecision) {
  const std::uint16_t bits[] = {0x3C00, 0xC000, 0x7BFF, 0xFBFF, 0x0001, 0x0400, 0x3555, 0x8000};
  const std::vector<float> values = {1, -2, 65504, -65504, 0x1p-24f, 0x1p-14f, 0.333251953125f, 0};
  std::string little(reinterpret_cast<const char*>(bits), sizeof bits), big = little;
  for (std::size_t i = 0; i < big.size(); i += 2) std::swap(big[i], big[i + 1]);
  EXPECT_EQ(import({write("x.npy", npy("'<f2'", false, {1, 4, 2}, little))}, {}), values);
  EXPECT_EQ(import({write("x.npy", npy("'>f2'", false, {1, 4, 2}, big))}, {}), values);
  little[15] = '\x7C';  // infinity
  EXPECT_TRUE(contains(error_of({write("y.npy", npy("'<f2'", false, {1, 4, 2}, little))}, {}),
                       "got inf in trajectory 0, step 3"));
}

TEST_F(ImportTest, LossesOfFloat32AreWarnedAbout) {
  init_logging(/*quiet=*/true);
  const auto warning = [&](const std::vector<fs::path>& sources) {
    testing::internal::CaptureStderr();
    import(sources, {});
    return testing::internal::GetCapturedStderr();
  };
  const auto file = [&](const std::string& name, const std::string& type, const std::string& data) {
    return write(name, npy(type, false, {3, 4, 2}, data));
  };
  const auto place = places("MTN", false);
  const auto far = file("far.npy", "'<f8'", encode<double>(place, 1, 1e9));
  const std::string text =
      warning({far, file("far2.npy", "'<i8'", encode<std::int64_t>(place, 1, 1e9))});
  EXPECT_TRUE(contains(text, far.string() + ": stored as float32")) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  // One channel that loses nothing does not hide the other.
  std::vector<double> mixed;
  for (int i = 0; i < 12; ++i) mixed.insert(mixed.end(), {1000.0 * i, 1e5 + 1e-3 * i});
  const std::string bytes(reinterpret_cast<const char*>(mixed.data()), 24 * sizeof(double));
  EXPECT_TRUE(contains(warning({file("mixed.npy", "'<f8'", bytes)}), "mixed.npy"));

  EXPECT_EQ(warning({file("a.npy", "'<f8'", encode<double>(place, 0.37, 100))}), "");
  EXPECT_EQ(warning({file("b.npy", "'<i8'", encode<std::int64_t>(place, 1, 1e7))}), "") << "exact";
  EXPECT_EQ(warning({file("c.npy", "'<f8'", encode<double>(place, 0, 0.1))}), "") << "constant";
  EXPECT_EQ(warning({file("d.npy", "'<f8'", encode<double>(place, 1e-16, 0.1))}), "")
      << "constant but for rounding";
}

TEST_F(ImportTest, LayoutsOfNpyAndHdf5) {
  const std::map<std::string, std::string> shapes = {
      {"MTN", "3 x 4 x 2"},
      {"TMN", "3 x 4 x 2"},
      {"NTM", "3 x 4 x 2"},
      {"TN", "1 x 4 x 2"},
      {"MT", "3 x 4 x 1"},
      {"T", "1 x 4 x 1"},
      {"MTHW", "3 x 4 x 1 x 2 x 3"},
      {"THW", "1 x 4 x 1 x 2 x 3"},
      {"WHTM", "3 x 4 x 1 x 2 x 3"},
      {"TMHW", "3 x 4 x 1 x 2 x 3"},
      {"MTHWC", "3 x 4 x 2 x 2 x 3"},
      {"MTCHW", "3 x 4 x 2 x 2 x 3"},
      {"THWC", "1 x 4 x 2 x 2 x 3"},
      {"TMCHW", "3 x 4 x 2 x 2 x 3"},
      {"HWCTM", "3 x 4 x 2 x 2 x 3"},
  };
  for (const auto& [layout, shape] : shapes) {
    SCOPED_TRACE(layout);
    ImportOptions options;
    options.layout = layout;
    for (const bool fortran : {false, true}) {
      const auto states = import({write("x.npy", float_npy(layout, fortran, 5))}, options);
      EXPECT_EQ(info_.describe_shape(), shape);
      expect_line(states, 1, 5);
    }
    std::vector<float> values;
    for (const std::size_t k : places(layout, false)) values.push_back(static_cast<float>(k) + 5);
    options.dataset = "/group/x";
    const auto source =
        write_hdf5("x.h5", {"/group/x", "/y"}, H5T_STD_I16BE, shape_of(layout), values);
    const auto states = import({source}, options);
    EXPECT_EQ(info_.describe_shape(), shape);
    expect_line(states, 1, 5);
  }
}

TEST_F(ImportTest, DefaultLayouts) {
  for (const std::string layout : {"MTN", "MTHW", "MTCHW"}) {
    expect_line(import({write("x.npy", float_npy(layout))}, {}), 1, 0);
    EXPECT_EQ(info_.members, 3);
    EXPECT_EQ(info_.steps, 4);
  }
  const auto bad = write("x.npy", float_npy("TN"));
  EXPECT_TRUE(contains(error_of({bad}, {}), "x.npy: an array of rank 2 needs --layout")) << "";
}

TEST_F(ImportTest, FilesAreAppendedInOrder) {
  ImportOptions options;
  options.layout = "TN";
  std::vector<fs::path> sources;
  for (const int i : {2, 0, 1}) {
    sources.push_back(write(std::to_string(i) + ".npy",
                            float_npy("TN", i == 1, 8.0 * static_cast<double>(sources.size()))));
  }
  const auto states = import(sources, options);
  EXPECT_EQ(info_.describe_shape(), "3 x 4 x 2");
  expect_line(states, 1, 0);

  const auto twice = import(
      {write("a.npy", float_npy("MTN")),
       write_hdf5("b.h5", {"x"}, H5T_IEEE_F64LE, {1, 4, 2}, {24, 25, 26, 27, 28, 29, 30, 31})},
      {});
  EXPECT_EQ(info_.describe_shape(), "4 x 4 x 2");
  expect_line(twice, 1, 0);
}

TEST_F(ImportTest, AttributesAreStored) {
  ImportOptions options;
  options.dt = 0.25, options.system = "mine", options.boundary = "periodic";
  options.fields = {"p", "q"};
  import({write("x.npy", float_npy("MTN"))}, options);
  EXPECT_EQ(info_.dt, 0.25);
  EXPECT_EQ(info_.system, "mine");
  EXPECT_EQ(info_.boundary, "periodic");
  EXPECT_EQ(info_.fields, options.fields);
  fs::remove(out_);
  options.fields = {"p"};
  EXPECT_EQ(error_of({folder_ / "x.npy"}, options), "--fields: 2 names are needed, got 1");
}

TEST_F(ImportTest, LargeArraysAreReadInPieces) {
  // 1 MiB a trajectory as float32: 32 of the 40 come in the first piece, and in TMN and Fortran
  // order a piece is scattered over the file.
  constexpr std::int64_t members = 40, steps = 2, width = 128 << 10;
  const auto code = [](std::int64_t m, std::int64_t t, std::int64_t n) {
    return (m * 31 + t * 17 + n * 7) % 251;
  };
  std::string bytes;
  for (std::int64_t t = 0; t < steps; ++t)
    for (std::int64_t m = 0; m < members; ++m)
      for (std::int64_t n = 0; n < width; ++n) bytes.push_back(static_cast<char>(code(m, t, n)));
  ImportOptions options;
  for (const bool fortran : {false, true}) {
    options.layout = fortran ? "NMT" : "TMN";
    const std::vector<std::int64_t> shape =
        fortran ? std::vector{width, members, steps} : std::vector{steps, members, width};
    const auto states = import({write("x.npy", npy("'|u1'", fortran, shape, bytes))}, options);
    ASSERT_EQ(info_.describe_shape(), "40 x 2 x 131072");
    const float* at = states.data();
    for (std::int64_t m = 0; m < members; ++m)
      for (std::int64_t t = 0; t < steps; ++t)
        for (std::int64_t n = 0; n < width; ++n)
          ASSERT_EQ(*at++, static_cast<float>(code(m, t, n))) << m << ' ' << t << ' ' << n;
  }
}

TEST_F(ImportTest, SlicesAlongEveryAxis) {
  std::vector<float> values(24);
  for (std::size_t i = 0; i < 24; ++i) values[i] = static_cast<float>(i);
  const auto npy_file = write("x.npy", float_npy("MTN"));
  const auto hdf5_file = write_hdf5("x.h5", {"x"}, H5T_IEEE_F32LE, {3, 4, 2}, values);
  for (const auto& source : {open_npy(npy_file), open_hdf5_array(hdf5_file, "")}) {
    ASSERT_EQ(source->shape(), (std::vector<std::int64_t>{3, 4, 2}));
    std::vector<double> out(8), expected(8);
    source->read(0, 1, 1, out);
    for (std::size_t i = 0; i < 8; ++i) expected[i] = static_cast<double>(8 + i);
    EXPECT_EQ(out, expected);
    out.resize(12);
    source->read(1, 1, 2, out);
    EXPECT_EQ(out, (std::vector<double>{2, 3, 4, 5, 10, 11, 12, 13, 18, 19, 20, 21}));
    source->read(2, 1, 1, out);
    EXPECT_EQ(out, (std::vector<double>{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}));
  }
}

TEST_F(ImportTest, WrongLayoutsAreExplained) {
  const auto rank3 = write("x.npy", float_npy("MTN"));
  EXPECT_TRUE(
      contains(layout_error(rank3, "MT"), "x.npy: layout MT names 2 axes, the array has 3"));
  EXPECT_TRUE(contains(layout_error(rank3, "MTCHW"), "names 5 axes, the array has 3"));
  EXPECT_TRUE(contains(layout_error(rank3, "MTX"), "must be letters of MTNCHW, got X"));
  EXPECT_TRUE(contains(layout_error(rank3, "mtn"), "must be letters of MTNCHW, got m"));
  EXPECT_TRUE(contains(layout_error(rank3, "MTT"), "T stands twice"));
  EXPECT_TRUE(contains(layout_error(rank3, "MHW"), "the time axis T is missing"));
  EXPECT_TRUE(contains(layout_error(rank3, "MTH"), "H and W go together"));
  EXPECT_TRUE(contains(layout_error(rank3, "TNW"), "H and W go together"));
  EXPECT_TRUE(contains(layout_error(rank3, "TNC"), "N does not go with C, H, W"));
  EXPECT_TRUE(contains(layout_error(rank3, "MTC"), "use N for vectors"));
  const auto rank5 = write("y.npy", float_npy("MTCHW"));
  EXPECT_TRUE(contains(layout_error(rank5, "MTNHW"), "N does not go with C, H, W"));
}

TEST_F(ImportTest, BrokenNpyFilesAreRejected) {
  const std::string good = float_npy("MTN");
  const auto error = [&](const std::string& content) {
    const std::string text = error_of({write("x.npy", content)}, {});
    EXPECT_TRUE(contains(text, (folder_ / "x.npy").string() + ": ")) << text;
    return text;
  };
  EXPECT_TRUE(contains(error(good.substr(0, good.size() - 1)),
                       "truncated: its shape needs 96 data bytes, it has 95"));
  EXPECT_TRUE(contains(error(good.substr(0, 60)), "truncated .npy header"));
  EXPECT_TRUE(contains(error(good.substr(0, 9)), "broken .npy header"));
  EXPECT_TRUE(contains(error(good.substr(0, 4)), "not a .npy file"));
  EXPECT_TRUE(contains(error(""), "not a .npy file"));
  EXPECT_TRUE(contains(error("PK" + good), "not a .npy file"));
  EXPECT_TRUE(contains(error(npy("'<f4'", false, {3, 4, 2}, "", 4)), "version must be 1 to 3"));
  const std::string data(400, '\0');
  EXPECT_TRUE(contains(error(npy("'<c8'", false, {3, 4, 2}, data)), "integer or float type"));
  EXPECT_TRUE(contains(error(npy("'|O'", false, {3, 4, 2}, data)), "integer or float type"));
  EXPECT_TRUE(contains(error(npy("[('a', '<f4')]", false, {3, 4, 2}, data)), "plain number type"));
  EXPECT_TRUE(contains(error(npy("'<f4'", false, {3, -4, 2}, data)), "no shape"));
  EXPECT_TRUE(
      contains(error(npy("'<f4'", false, {1ll << 40, 1ll << 40, 2}, data)), "impossible shape"));
  EXPECT_TRUE(contains(error(npy("'<f4'", false, {3, 0, 2}, "")), "the array is empty"));
  EXPECT_TRUE(contains(error(npy("'<f4'", false, {}, data)), "rank 0 needs --layout"));
}

TEST_F(ImportTest, Hdf5DataSetsAreChosen) {
  const std::vector<float> values(24, 1.0f);
  const auto two = write_hdf5("two.h5", {"/a", "/g/b"}, H5T_IEEE_F32LE, {3, 4, 2}, values);
  EXPECT_EQ(error_of({two}, {}),
            two.string() + ": choose one of its 2 data sets with --dataset: /a, /g/b");
  ImportOptions options;
  options.dataset = "/b";
  EXPECT_EQ(error_of({two}, options), two.string() + ": no data set /b; the file has /a, /g/b");
  const hdf5::Handle text(H5Tcopy(H5T_C_S1), H5Tclose);
  const auto words = write_hdf5("words.h5", {"/a"}, text, {3, 4, 2}, {});
  EXPECT_EQ(error_of({words}, {}), words.string() + ": /a must hold numbers");
  EXPECT_TRUE(contains(error_of({write("text.h5", "not HDF5")}, {}), "text.h5: not a readable"));
}

TEST_F(ImportTest, BadValuesLeaveNothingBehind) {
  std::string content = float_npy("MTN");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // Trajectory 2, step 1, component 0.
  std::memcpy(content.data() + content.size() - 96 + 4 * (2 * 8 + 1 * 2), &nan, sizeof nan);
  const auto good = write("good.npy", float_npy("MTN")), bad = write("bad.npy", content);
  const std::string expected =
      bad.string() + ": values must be finite, got nan in trajectory 2, step 1";
  EXPECT_EQ(error_of({bad}, {}), expected);
  EXPECT_EQ(error_of({good, bad}, {}), expected) << "after the first file was written";
  const auto huge =
      write("huge.npy", npy("'<f8'", false, {1, 1, 1}, encode<double>({0}, 1, 1e300)));
  EXPECT_TRUE(contains(error_of({huge}, {}), "got inf in trajectory 0, step 0"));

  import({good}, {});
  const std::string before = read_file(out_);
  EXPECT_EQ(error_of({good, bad}, {}), expected);
  EXPECT_EQ(read_file(out_), before) << "an older output must survive";
}

TEST_F(ImportTest, SourcesMustAgree) {
  const auto a = write("a.npy", float_npy("MTN"));
  const auto differs = [&](const std::vector<std::int64_t>& shape) {
    const auto b =
        write("b.npy", npy("'<f4'", false, shape, std::string(4 * size_of(shape), '\0')));
    return error_of({a, b}, {});
  };
  const std::string name = (folder_ / "b.npy").string();
  EXPECT_EQ(differs({3, 5, 2}), name + ": 5 x 2 states do not fit the 4 x 2 of " + a.string());
  EXPECT_EQ(differs({3, 4, 3}), name + ": 4 x 3 states do not fit the 4 x 2 of " + a.string());
  EXPECT_EQ(differs({3, 4, 1, 2}),
            name + ": 4 x 1 x 1 x 2 states do not fit the 4 x 2 of " + a.string());
  EXPECT_EQ(differs({7, 4, 2}), "no error");
}

TEST_F(ImportTest, MissingSources) {
  EXPECT_EQ(error_of({}, {}), "import: no source files given");
  EXPECT_EQ(error_of({folder_ / "absent.npy"}, {}),
            (folder_ / "absent.npy").string() + ": no such file");
}

}  // namespace
}  // namespace slift
