#include "tensor/safetensors.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/atomic_file.h"
#include "core/errors.h"
#include "core/testing.h"

namespace slift {
namespace {

namespace fs = std::filesystem;

class SafeTensorsTest : public testing::Test {
 protected:
  std::string error_of(std::uint64_t length, const std::string& rest) {
    const fs::path path = folder_ / "bad.safetensors";
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << rest;
    out.close();
    try {
      read_safetensors(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
  std::string error_of(const std::string& header, const std::string& data) {
    return error_of(header.size(), header + data);
  }

  TestFolder folder_;
};

TEST_F(SafeTensorsTest, RoundTripIsExactAndBytesAreStable) {
  SafeTensors content;
  content.tensors["b"] = at::arange(6, at::kFloat).view({2, 3});
  content.tensors["a"] = at::arange(3, at::kLong);
  content.tensors["empty"] = at::empty({0, 4}, at::kDouble);
  content.metadata["note"] = "x";
  write_safetensors(folder_ / "1", content);
  const SafeTensors back = read_safetensors(folder_ / "1");
  EXPECT_TRUE(at::equal(back.at("b", ""), content.tensors["b"]));
  EXPECT_TRUE(at::equal(back.at("a", ""), content.tensors["a"]));
  EXPECT_EQ(back.at("empty", "").sizes(), content.tensors["empty"].sizes());
  EXPECT_EQ(back.metadata.at("note"), "x");
  EXPECT_THROW(back.at("c", "file"), UserError);
  write_safetensors(folder_ / "2", back);
  EXPECT_EQ(read_file(folder_ / "1"), read_file(folder_ / "2"));
}

TEST_F(SafeTensorsTest, HostileFilesAreRejected) {
  EXPECT_NE(error_of(std::uint64_t{1} << 63, "{}"), "");
  EXPECT_NE(error_of(1000, "{}"), "");
  EXPECT_NE(error_of("[]", ""), "");
  EXPECT_NE(error_of("not json", ""), "");
  const auto entry = [](const std::string& shape, const std::string& offsets) {
    return R"({"a":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(error_of(entry("[1]", "[0,4]"), "1234"), "");
  EXPECT_NE(error_of(entry("[1]", "[0,4]"), "123"), "");
  EXPECT_NE(error_of(entry("[2]", "[0,4]"), "1234"), "");
  EXPECT_NE(error_of(entry("[-1]", "[0,4]"), "1234"), "");
  EXPECT_NE(error_of(entry("[1]", "[4,0]"), "1234"), "");
  EXPECT_NE(error_of(entry("[1]", "[0]"), "1234"), "");
  EXPECT_NE(error_of(entry("[4611686018427387904,4]", "[0,0]"), "1234"), "");
  EXPECT_NE(error_of(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "1"), "");
  EXPECT_NE(error_of(R"({"a":3})", ""), "");
  EXPECT_NE(error_of(R"({"__metadata__":{"a":3}})", ""), "");
}

}  // namespace
}  // namespace slift
