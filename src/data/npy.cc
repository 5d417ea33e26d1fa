// NumPy's .npy format, versions 1 to 3: magic, header length, a Python dict literal, raw data.
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>
#include <regex>

#include "core/errors.h"
#include "data/array_source.h"

namespace slift {

namespace fs = std::filesystem;

namespace {

// float16 (IEEE 754 binary16), which C++20 does not know.
struct Half {
  std::uint16_t bits;

  explicit operator double() const {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double size = std::ldexp(1024 + fraction, exponent - 25);
    if (exponent == 0) size = std::ldexp(fraction, -24);
    if (exponent == 31) size = fraction == 0 ? INFINITY : NAN;
    return bits >> 15 ? -size : size;
  }
};

template <typename T>
void convert(const std::vector<char>& raw, bool swap, std::span<double> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, raw.data() + i * sizeof(T), sizeof(T));
    if (swap) std::reverse(bytes, bytes + sizeof(T));
    out[i] = static_cast<double>(std::bit_cast<T>(bytes));
  }
}

struct NpyType {
  const char* code;
  std::size_t size;
  void (*convert)(const std::vector<char>&, bool, std::span<double>);
};
constexpr NpyType kTypes[] = {
    {"f2", 2, convert<Half>},          {"f4", 4, convert<float>},
    {"f8", 8, convert<double>},        {"i1", 1, convert<std::int8_t>},
    {"u1", 1, convert<std::uint8_t>},  {"i2", 2, convert<std::int16_t>},
    {"u2", 2, convert<std::uint16_t>}, {"i4", 4, convert<std::int32_t>},
    {"u4", 4, convert<std::uint32_t>}, {"i8", 8, convert<std::int64_t>},
    {"u8", 8, convert<std::uint64_t>},
};

class NpySource : public ArraySource {
 public:
  explicit NpySource(const fs::path& path) : path_(path.string()), in_(path, std::ios::binary) {
    require(in_.good(), "{}: cannot read: {}", path_, std::strerror(errno));
    unsigned char head[8] = {};
    in_.read(reinterpret_cast<char*>(head), 8);
    require(in_.good() && std::memcmp(head, "\x93NUMPY", 6) == 0, "{}: not a .npy file", path_);
    require(head[6] >= 1 && head[6] <= 3, "{}: .npy version must be 1 to 3, got {}", path_,
            head[6]);
    const int length_bytes = head[6] == 1 ? 2 : 4;
    std::uint32_t length = 0;
    in_.read(reinterpret_cast<char*>(&length), length_bytes);
    require(in_.good() && length < (1u << 20), "{}: broken .npy header", path_);
    std::string header(length, '\0');
    in_.read(header.data(), length);
    require(in_.good(), "{}: truncated .npy header", path_);
    data_offset_ = 8 + length_bytes + static_cast<std::int64_t>(length);
    parse(header);
    std::uint64_t bytes = type_->size;
    for (const std::int64_t n : shape_) {
      require(n >= 0 && !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(n), &bytes),
              "{}: impossible shape", path_);
    }
    const std::uint64_t have = fs::file_size(path) - static_cast<std::uint64_t>(data_offset_);
    require(have >= bytes, "{}: truncated: its shape needs {} data bytes, it has {}", path_, bytes,
            have);
  }

  void read(std::size_t axis, std::int64_t begin, std::int64_t count,
            std::span<double> out) override {
    const auto product = [](auto from, auto to) {
      return std::accumulate(from, to, std::int64_t{1}, std::multiplies<>());
    };
    const auto at = shape_.begin() + static_cast<std::ptrdiff_t>(axis);
    const std::int64_t outer = product(shape_.begin(), at), inner = product(at + 1, shape_.end());
    const std::int64_t run = count * inner;
    std::vector<char> raw(static_cast<std::size_t>(run) * type_->size);
    for (std::int64_t o = 0; o < outer; ++o) {
      in_.seekg(data_offset_ +
                ((o * *at + begin) * inner) * static_cast<std::int64_t>(type_->size));
      in_.read(raw.data(), static_cast<std::streamsize>(raw.size()));
      require(in_.good(), "{}: cannot read", path_);
      type_->convert(raw, swap_,
                     out.subspan(static_cast<std::size_t>(o * run), static_cast<std::size_t>(run)));
    }
  }

 private:
  void parse(const std::string& header) {
    std::smatch match;
    require(std::regex_search(header, match, std::regex(R"('descr'\s*:\s*'([<>|=])(\w+)')")),
            "{}: .npy type must be a plain number type", path_);
    const std::string order = match[1], code = match[2];
    for (const NpyType& type : kTypes) {
      if (code == type.code) type_ = &type;
    }
    require(type_ != nullptr,
            "{}: .npy type must be an integer or float type of at most 64 bits, got {}", path_,
            code);
    swap_ = order == ">";
    require(std::regex_search(header, match, std::regex(R"('fortran_order'\s*:\s*(True|False))")),
            "{}: broken .npy header: no fortran_order", path_);
    reversed_ = match[1] == "True";
    require(std::regex_search(header, match, std::regex(R"('shape'\s*:\s*\(([0-9,\s]*)\))")),
            "{}: broken .npy header: no shape", path_);
    const std::string list = match[1];
    const std::regex number("[0-9]+");
    for (std::sregex_iterator it(list.begin(), list.end(), number), end; it != end; ++it) {
      require(it->str().size() < 16, "{}: impossible shape", path_);
      shape_.push_back(std::stoll(it->str()));
    }
    if (reversed_) std::reverse(shape_.begin(), shape_.end());
  }

  std::string path_;
  std::ifstream in_;
  std::int64_t data_offset_ = 0;
  const NpyType* type_ = nullptr;
  bool swap_ = false;
};

}  // namespace

std::unique_ptr<ArraySource> open_npy(const fs::path& path) {
  return std::make_unique<NpySource>(path);
}

}  // namespace slift
