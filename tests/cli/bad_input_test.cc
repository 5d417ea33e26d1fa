// Every kind of bad input: exit 2, one line that names file or field, rule and value, nothing
// half-written left behind.
#include <sys/stat.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>

#include "core/atomic_file.h"
#include "data/hdf5.h"
#include "data/trajectories.h"
#include "fixture.h"

namespace slift::testing {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name;
  std::vector<std::string> arguments;
  std::vector<std::string> expected;  // parts of the message
  ProcessOptions options = {};
};

class BadInputTest : public CliTest {
 protected:
  // A trajectory file with given states, dt 0.2 unless said otherwise.
  static std::string make(const std::string& name, std::int64_t members, std::int64_t steps,
                          std::vector<std::int64_t> shape, float value = 0, double dt = 0.2) {
    TrajectoryInfo info;
    info.members = members, info.steps = steps, info.state_shape = std::move(shape), info.dt = dt;
    std::vector<float> states(static_cast<std::size_t>(members * info.trajectory_size()), 0.5f);
    states.back() = value;
    TrajectoryWriter writer(path(name), info);
    writer.write(0, members, states);
    writer.commit();
    return path(name);
  }

  // An HDF5 file that claims to be a trajectory file but has /states of this type and shape.
  static std::string make_claim(const std::string& name, hid_t type, std::vector<hsize_t> dims) {
    const auto file = hdf5::create_file(path(name));
    hdf5::write_attribute(file, "format", std::string("slift-trajectories"));
    hdf5::write_attribute(file, "version", std::uint64_t{1});
    const hdf5::Handle space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                             H5Sclose);
    const hdf5::Handle dataset(
        H5Dcreate2(file, "/states", type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Dclose);
    return path(name);
  }

  static std::string config(const std::string& name, const std::string& extra) {
    return write(name, small_config() + extra);
  }

  static std::string npy(const std::string& name, const std::string& shape, std::size_t floats,
                         float value) {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
    header.resize(118, ' ');
    std::string data(floats * 4, '\0');
    for (std::size_t i = 0; i < floats; ++i) std::memcpy(&data[4 * i], &value, 4);
    return write(name, std::string("\x93NUMPY\x01\x00\x76\x00", 10) + header + data);
  }

  static std::map<std::string, std::uintmax_t> listing() {
    std::map<std::string, std::uintmax_t> files;
    for (const auto& entry : fs::recursive_directory_iterator(root_)) {
      files[entry.path().string()] = entry.is_regular_file() ? entry.file_size() : 0;
    }
    return files;
  }

  static std::vector<Case> cases();
};

std::vector<Case> BadInputTest::cases() {
  const std::string good = path("small.toml"), out = path("never"), model = path("run");
  const std::string train_data = path("train.h5"), test_data = path("test.h5");
  const std::string whole = read_file(train_data),
                    weights = read_file(model + "/model.safetensors");
  const auto train = [&](const std::string& config_file, std::vector<std::string> more = {}) {
    std::vector<std::string> words = {"train", config_file, "-o", out};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto with_data = [&](const std::string& data) { return train(good, {"--data", data}); };
  const auto set = [&](const std::string& assignment) {
    return train(good, {"--set", assignment});
  };

  fs::create_directories(path("a-folder"));
  fs::create_directories(path("disk"));
  fs::create_directories(path("folder.png"));
  fs::create_directories(path("unfinished"));
  write("unfinished/config.toml", small_config());
  write("secret.toml", small_config());
  chmod(path("secret.toml").c_str(), 0);
  std::string giant(8, '\0');
  giant[7] = '\x80';  // 2^63, little-endian
  ProcessOptions plain_user, small_disk;
  plain_user.without_root_rights = true;
  small_disk.small_disk = path("disk");

  return {
      {"missing data", with_data(path("none.h5")), {"none.h5", "no such file"}},
      {"truncated data",
       with_data(write("cut.h5", whole.substr(0, whole.size() / 2))),
       {"cut.h5", "truncated"}},
      {"empty data file",
       with_data(write("empty.h5", "")),
       {"empty.h5", "not a readable HDF5 file"}},
      {"text as data",
       with_data(write("text.h5", "hello")),
       {"text.h5", "not a readable HDF5 file"}},
      {"folder as data", with_data(path("a-folder")), {"a-folder", "is a folder"}},
      {"wrong rank",
       with_data(make_claim("rank.h5", H5T_IEEE_F32LE, {2, 3, 4, 5})),
       {"rank.h5", "rank", "got 4"}},
      {"wrong type",
       with_data(make_claim("type.h5", H5T_IEEE_F64LE, {2, 3, 4})),
       {"type.h5", "float32"}},
      {"empty states",
       with_data(make_claim("zero.h5", H5T_IEEE_F32LE, {0, 3, 4})),
       {"zero.h5", "empty"}},
      {"NaN in data",
       with_data(make("nan.h5", 4, 5, {2}, std::nanf(""))),
       {"nan.h5", "finite", "nan", "trajectory 3, step 4"}},
      {"single state", with_data(make("one.h5", 4, 1, {2})), {"one.h5", "at least 2"}},
      {"fields for an MLP",
       with_data(make("field.h5", 4, 5, {1, 4, 4})),
       {"net.kind", "mlp", "fields"}},
      {"more members than there are", set("data.members=65"), {"data.members", "65", "64"}},
      {"no data path", train(write("no-path.toml", "seed = 1\n")), {"data.path", "not set"}},
      {"missing config", train(path("none.toml")), {"none.toml", "cannot read"}},
      {"folder as config", train(path("a-folder")), {"a-folder", "is a folder"}},
      {"unreadable config",
       train(path("secret.toml")),
       {"secret.toml", "Permission denied"},
       plain_user},
      {"broken TOML",
       train(write("broken.toml", "seed = \n")),
       {"broken.toml:1", "not valid TOML"}},
      {"unknown key",
       train(config("key.toml", "iteratons = 3\n")),
       {"key.toml", "train.iteratons", "nearest", "train.iterations"}},
      {"unknown section",
       train(config("section.toml", "[optin]\nlr = 1.0\n")),
       {"optin.lr", "optim.lr"}},
      {"negative rate",
       train(config("rate.toml", "[optim]\nlr = -0.1\n")),
       {"rate.toml", "optim.lr", "above 0", "-0.1"}},
      {"wrong type in config",
       train(config("word.toml", "[optim]\nlr = \"fast\"\n")),
       {"word.toml", "optim.lr", "number", "fast"}},
      {"zero batch", set("train.batch=0"), {"train.batch", "between 1", "0"}},
      {"fraction of a layer", set("net.layers=1.5"), {"net.layers", "whole number", "1.5"}},
      {"unknown activation", set("net.activation=relu"), {"net.activation", "gelu, silu", "relu"}},
      {"setting without a value", set("train.batch"), {"train.batch", "key=value"}},
      {"no such device", train(good, {"--device", "tpu"}), {"train.device", "cpu, cuda", "tpu"}},
      {"run exists", {"train", good, "-o", model}, {model, "--resume"}},
      {"resume of another experiment",
       {"train", good, "-o", model, "--resume", "--set", "optim.lr=0.5"},
       {"--resume", "optim.lr", "0.5"}},
      {"model is text",
       {"rollout", write("text.safetensors", "not a model at all"), "--init", test_data, "-o", out},
       {"text.safetensors", "not a safetensors"}},
      {"header length 2^63",
       {"rollout", write("giant.safetensors", giant + "{}"), "--init", test_data, "-o", out},
       {"giant.safetensors", "header length", "9223372036854775808"}},
      {"foreign safetensors",
       {"rollout", write("foreign.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10)), "--init",
        test_data, "-o", out},
       {"foreign.safetensors", "not a slift model"}},
      {"truncated model",
       {"rollout", write("cut.safetensors", weights.substr(0, weights.size() - 100)), "--init",
        test_data, "-o", out},
       {"cut.safetensors", "bytes"}},
      {"unfinished run",
       {"rollout", path("unfinished"), "--init", test_data},
       {"unfinished", "model.safetensors"}},
      {"start from other states",
       {"rollout", model, "--init", path("field.h5"), "-o", out},
       {"field.h5", "1 x 4 x 4", "do not fit"}},
      {"zero members", {"rollout", model, "-m", "0", "-o", out}, {"--members", "0"}},
      {"empty range of members",
       {"rollout", model, "-m", "7:7", "-o", out},
       {"--members", "at least one", "7:7"}},
      {"members in words",
       {"rollout", model, "-m", "5:many", "-o", out},
       {"--members", "A:B", "5:many"}},
      {"negative member", {"rollout", model, "--members=-5:3", "-o", out}, {"--members", "-5:3"}},
      {"members beyond counting",
       {"rollout", model, "-m", "99999999999999999999", "-o", out},
       {"--members", "10^12", "99999999999999999999"}},
      {"every zero", {"rollout", model, "--every", "0", "-o", out}, {"--every", "0"}},
      {"negative batch", {"rollout", model, "--batch", "-1", "-o", out}, {"--batch", "-1"}},
      {"every beyond the steps",
       {"rollout", model, "--init", test_data, "--every", "71", "-o", out},
       {"--every", "70 steps", "71"}},
      {"unknown field",
       {"rollout", model, "--init", test_data, "--fields", "x1,height", "-o", out},
       {"--fields", "height", "there are"}},
      {"zero branches", {"rollout", model, "--branches", "0", "-o", out}, {"--branches", "0"}},
      {"output is a folder",
       {"rollout", model, "--init", test_data, "-m", "1", "-o", path("a-folder")},
       {"a-folder", "is a folder"}},
      {"parent is a file",
       {"rollout", model, "--init", test_data, "-m", "1", "-o", train_data + "/x.h5"},
       {"train.h5", "cannot create folder"}},
      {"full disk",
       {"rollout", model, "--init", test_data, "-m", "4000", "-o", path("disk/r.h5")},
       {"r.h5", "cannot write", "No space left"},
       small_disk},
      {"full disk while simulating",
       {"simulate", "duffing", "-m", "4000", "-o", path("disk/s.h5")},
       {"s.h5", "cannot write", "No space left"},
       small_disk},
      {"no rollout to evaluate",
       {"evaluate", model, "--truth", test_data},
       {"rollout.h5", "slift rollout"}},
      {"truth of other shape",
       {"evaluate", train_data, "--truth", path("field.h5")},
       {"train.h5", "do not fit", "field.h5"}},
      {"truth too small",
       {"evaluate", make("three.h5", 3, 5, {2}), "--truth", path("three.h5")},
       {"three.h5", "at least 4", "got 3"}},
      {"other time step",
       {"evaluate", make("slow.h5", 8, 71, {2}, 0, 0.5), "--truth", test_data},
       {"slow.h5", "time step 0.5"}},
      {"infinite truth",
       {"evaluate", train_data, "--truth", make("inf.h5", 8, 5, {2}, INFINITY)},
       {"inf.h5", "finite", "inf"}},
      {"quantity without a name",
       {"evaluate", train_data, "--truth", test_data, "--quantities",
        write("q1.toml", "[[quantity]]\nreduce = \"max\"\n")},
       {"q1.toml", "quantity 1", "name is not set"}},
      {"quantity of an unknown field",
       {"evaluate", train_data, "--truth", test_data, "--quantities",
        write("q2.toml", "[[quantity]]\nname = \"a\"\nfield = \"x7\"\n")},
       {"quantity a", "no field x7", "nearest"}},
      {"quantity that was not recorded",
       {"rollout", model, "--init", test_data, "--quantities", path("q1.toml"), "-o", out},
       {"--quantities", "--no-states"}},
      {"records of some fields",
       {"rollout", model, "--init", test_data, "--no-states", "--fields", "x1", "-o", out},
       {"--fields", "--no-states"}},
      {"two runs of one name",
       {"compare", train_data, path("a-folder") + "/../train.h5", "--truth", test_data},
       {"two of the name train"}},
      {"branches of a system that cannot",
       {"simulate", "scene", "-m", "4", "--branches", "2", "-o", out},
       {"--branches", "scene"}},
      {"nothing to report", {"report", model}, {"evaluation.json", "slift evaluate"}},
      {"unknown system", {"simulate", "dufing", "-o", out}, {"dufing", "nearest", "duffing"}},
      {"unknown parameter",
       {"simulate", "duffing", "-o", out, "--set", "dampng=1"},
       {"dampng", "damping"}},
      {"negative parameter",
       {"simulate", "duffing", "-o", out, "--set", "noise=-1"},
       {"noise", "at least 0", "-1"}},
      {"steps that do not divide",
       {"simulate", "duffing", "-o", out, "--set", "inner_dt=0.003"},
       {"inner_dt", "0.003"}},
      {"wave step beyond stability",
       {"simulate", "wave", "-o", out, "--set", "inner_dt=0.016"},
       {"inner_dt 0.016", "at most 0.0110485", "grid 256"}},
      {"wave without a grid",
       {"simulate", "wave", "-o", out, "--set", "grid=0"},
       {"grid", "between 4 and 4096", "0"}},
      {"wave grid that does not divide",
       {"simulate", "wave", "-o", out, "--set", "stored_grid=60"},
       {"stored_grid 60", "divide grid 256"}},
      {"flow with negative viscosity",
       {"simulate", "flow", "-o", out, "--set", "mu_w=-1"},
       {"mu_w", "above 0", "-1"}},
      {"flow without a grid",
       {"simulate", "flow", "-o", out, "--set", "grid=0"},
       {"grid", "between 2 and 1024", "0"}},
      {"flow without room for oil",
       {"simulate", "flow", "-o", out, "--set", "s_wc=0.6", "--set", "s_or=0.5"},
       {"s_wc + s_or", "less than 1", "1.1"}},
      {"scene without pixels",
       {"simulate", "scene", "-o", out, "--set", "size=0"},
       {"size", "between 16 and 4096", "0"}},
      {"media of a system that has none",
       {"simulate", "duffing", "-o", out, "--media"},
       {"duffing", "no media"}},
      {"CUDA where there is none",
       {"simulate", "wave", "-o", out, "--device", "cuda9"},
       {"device", "cuda9"}},
      {"precision of another device",
       {"train", good, "-o", out, "--set", "train.precision=bf16"},
       {"bf16", "cuda"}},
      {"fp8 of a network without convolutions",
       {"rollout", model, "--init", test_data, "-o", out, "--precision", "fp8"},
       {"fp8", "convolutions"}},
      {"unknown precision",
       {"rollout", model, "--init", test_data, "-o", out, "--precision", "fp4"},
       {"precision", "bf16 or fp8", "fp4"}},
      {"parts that do not divide a batch",
       {"train", good, "-o", out, "--set", "train.accumulate=7"},
       {"train.accumulate = 7", "train.batch = 128"}},
      {"validation without data",
       {"train", good, "-o", out, "--set", "validation.every=5"},
       {"validation.path"}},
      {"network for other states",
       {"train", good, "-o", out, "--set", "net.kind=unet", "--set", "net.width=512", "--set",
        "net.layers=4"},
       {"unet", "fields"}},
      {"negative members", {"simulate", "duffing", "-o", out, "-m", "-5"}, {"--members", "-5"}},
      {"no output named", {"simulate", "duffing"}, {"--out", "required"}},
      {"preview of unknown kind",
       {"simulate", "duffing", "-o", out, "--preview", path("p.png"), "--preview", path("p.gif")},
       {"p.gif", ".png", ".apng"}},
      {"preview is a folder",
       {"simulate", "duffing", "-o", out, "--preview", path("folder.png")},
       {"folder.png", "is a folder"}},
      {"preview in place of the data",
       {"simulate", "duffing", "-o", path("never.png"), "--preview", path("never.png")},
       {"never.png", "must not replace"}},
      {"evaluation in place of the truth",
       {"evaluate", train_data, "--truth", test_data, "-o", path("a-folder/../test.h5")},
       {"test.h5", "must not replace"}},
      {"evaluation in place of its quantities",
       {"evaluate", train_data, "--truth", test_data, "--quantities", path("q1.toml"), "-o",
        path("q1.toml")},
       {"q1.toml", "must not replace"}},
      {"rollout in place of its start",
       {"rollout", model, "--init", test_data, "-m", "1", "-o", test_data},
       {"test.h5", "must not replace"}},
      {"rollout in place of its model",
       {"rollout", model, "--init", test_data, "-m", "1", "-o", model + "/model.safetensors"},
       {"model.safetensors", "must not replace"}},
      {"comparison in place of what it compares",
       {"compare", make("all.json", 8, 71, {2}), "--truth", test_data, "-o", path("")},
       {"all.json", "must not replace"}},
      {"report in place of the config",
       {"report", model, "-o", model + "/config.toml"},
       {"config.toml", ".html"}},
      {"import in place of a source",
       {"import", train_data, test_data, "--dataset", "/states", "-o", test_data},
       {"test.h5", "must not replace"}},
      {"unknown command", {"smulate"}, {"smulate", "nearest", "simulate"}},
      {"unknown flag", {"doctor", "--fast"}, {"--fast"}},
      {"not a number", {"simulate", "duffing", "-o", out, "-m", "many"}, {"--members", "many"}},
      {"negative seed",
       {"simulate", "duffing", "-o", out, "--seed", "-1"},
       {"--seed", "from 0", "-1"}},
      {"seed beyond 64 bits",
       {"simulate", "duffing", "-o", out, "--seed", "18446744073709551616"},
       {"--seed", "to 18446744073709551615", "18446744073709551616"}},
      {"negative seed of a training", train(good, {"--seed", "-5"}), {"--seed", "from 0", "-5"}},
      {"negative seed of a rollout",
       {"rollout", model, "-o", out, "--seed=-1"},
       {"--seed", "from 0", "-1"}},
      {"time budget that is no number",
       train(good, {"--minutes", "nan"}),
       {"--minutes", "from 0 to 10^6", "nan"}},
      {"import: time step that is no number",
       {"import", train_data, "-o", out, "--dt", "nan"},
       {"--dt", "above 0", "nan"}},
      {"import: no time step",
       {"import", train_data, "-o", out, "--dt", "0"},
       {"--dt", "above 0", "got 0;"}},
      {"import: time step backwards",
       {"import", train_data, "-o", out, "--dt", "-0.5"},
       {"--dt", "above 0", "-0.5"}},
      {"import: missing", {"import", path("none.npy"), "-o", out}, {"none.npy", "no such file"}},
      {"import: not npy",
       {"import", write("text.npy", "hello"), "-o", out},
       {"text.npy", "not a .npy"}},
      {"import: truncated",
       {"import", npy("cut.npy", "(2, 3, 4)", 5, 0), "-o", out},
       {"cut.npy", "truncated", "96"}},
      {"import: NaN",
       {"import", npy("nan.npy", "(2, 3, 4)", 24, std::nanf("")), "-o", out},
       {"nan.npy", "finite", "trajectory 0, step 0"}},
      {"import: rank",
       {"import", npy("flat.npy", "(24,)", 24, 0), "-o", out},
       {"flat.npy", "rank 1", "--layout"}},
      {"import: layout",
       {"import", npy("ok.npy", "(2, 3, 4)", 24, 0), "--layout", "MTX", "-o", out},
       {"MTX", "MTNCHW"}},
      {"import: data set",
       {"import", train_data, "--dataset", "/nope", "-o", out},
       {"train.h5", "/nope", "/states"}},
      {"import: field names",
       {"import", path("ok.npy"), "--fields", "a,b", "-o", out},
       {"--fields", "4", "2"}},
      {"info: unknown JSON",
       {"info", write("x.json", "{}")},
       {"x.json", "not a file that slift writes"}},
      {"info: preview of unknown kind",
       {"info", train_data, "--preview", path("p.jpg")},
       {"p.jpg", ".png", ".apng"}},
      {"info: preview of a config",
       {"info", good, "--preview", path("p.png")},
       {"small.toml", "trajectory file", "config"}},
      {"info: preview of a run", {"info", model, "--preview", path("p.png")}, {model, "run"}},
      {"info: preview of nothing to see",
       {"info", make("dot.h5", 2, 1, {1}), "--preview", path("p.png")},
       {"dot.h5", "single state"}},
      {"info: plain folder", {"info", path("a-folder")}, {"a-folder", "not a run folder"}},
  };
}

TEST_F(BadInputTest, OneClearLineAndNothingLeft) {
  const auto table = cases();
  ASSERT_GE(table.size(), 25u);
  for (const Case& c : table) {
    SCOPED_TRACE(c.name);
    const auto before = listing();
    auto r = run_slift(c.arguments, c.options);
    std::vector<std::string> expected = c.expected;
    if (!c.options.small_disk.empty() && !r.small_disk_mounted) {
      // No right to mount: limit the size of files instead, the other way a write can fail.
      ProcessOptions limited;
      limited.file_size_limit = 256 << 10;
      r = run_slift(c.arguments, limited);
      expected.back() = "File too large";
      std::cout << c.name << ": no right to mount a small disk, limited the file size instead\n";
    }
    EXPECT_EQ(r.exit_code, 2) << r.err;
    EXPECT_EQ(r.out, "");
    std::string last_line = r.err.substr(0, r.err.find_last_not_of('\n') + 1);
    last_line = last_line.substr(last_line.rfind('\n') + 1);
    EXPECT_EQ(last_line.rfind("slift: ", 0), 0u) << r.err;
    for (const std::string& part : expected) {
      EXPECT_NE(last_line.find(part), std::string::npos) << "'" << part << "' not in: " << r.err;
    }
    EXPECT_EQ(listing(), before);
  }
}

}  // namespace
}  // namespace slift::testing
