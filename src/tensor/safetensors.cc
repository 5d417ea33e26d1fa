#include "tensor/safetensors.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/errors.h"

namespace slift {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;

struct Dtype {
  const char* name;
  at::ScalarType type;
};
constexpr Dtype kDtypes[] = {
    {"F32", at::kFloat}, {"F64", at::kDouble}, {"I64", at::kLong}, {"U8", at::kByte}};

Dtype dtype_by_name(const std::string& name, const std::string& where) {
  for (const Dtype& d : kDtypes) {
    if (name == d.name) return d;
  }
  fail("{}: dtype must be F32, F64, I64 or U8, got {}", where, name);
}

Dtype dtype_of(const Tensor& tensor) {
  for (const Dtype& d : kDtypes) {
    if (tensor.scalar_type() == d.type) return d;
  }
  TORCH_CHECK(false, "safetensors: no dtype for ", tensor.scalar_type());
}

SafeTensorsHeader::Entry parse_entry(const json& value, const std::string& where,
                                     std::uint64_t data_size) {
  SafeTensorsHeader::Entry entry;
  try {
    entry.dtype = value.at("dtype").get<std::string>();
    entry.shape = value.at("shape").get<std::vector<std::int64_t>>();
    const auto offsets = value.at("data_offsets").get<std::vector<std::uint64_t>>();
    require(offsets.size() == 2, "{}: data_offsets must be two numbers", where);
    entry.begin = offsets[0], entry.end = offsets[1];
  } catch (const json::exception& error) {
    fail("{}: not a tensor entry: {}", where, error.what());
  }
  require(entry.begin <= entry.end && entry.end <= data_size,
          "{}: bytes {} to {} must lie inside the file's {} data bytes", where, entry.begin,
          entry.end, data_size);
  std::uint64_t bytes = at::elementSize(dtype_by_name(entry.dtype, where).type);
  for (const std::int64_t extent : entry.shape) {
    require(extent >= 0, "{}: extents must not be negative, got {}", where, extent);
    require(!__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes),
            "{}: shape is too large", where);
  }
  require(bytes == entry.end - entry.begin, "{}: shape needs {} bytes, {} are given", where, bytes,
          entry.end - entry.begin);
  return entry;
}

}  // namespace

const Tensor& SafeTensors::at(const std::string& name, const std::string& source) const {
  const auto found = tensors.find(name);
  require(found != tensors.end(), "{}: tensor {} is missing", source, name);
  return found->second;
}

SafeTensorsHeader read_safetensors_header(const fs::path& path) {
  const std::string where = path.string();
  std::error_code error;
  require(!fs::is_directory(path, error), "{}: is a folder, a safetensors file is expected", where);
  std::ifstream in(path, std::ios::binary);
  require(in.good(), "{}: cannot read: {}", where, std::strerror(errno));
  const std::uint64_t file_size = fs::file_size(path, error);
  require(!error, "{}: cannot read: {}", where, error.message());
  std::uint64_t length = 0;
  in.read(reinterpret_cast<char*>(&length), sizeof length);
  require(in.good(), "{}: not a safetensors file: {} bytes are too few for a header", where,
          file_size);
  require(length <= kMaxHeader && length + 8 <= file_size,
          "{}: not a safetensors file: header length {} must be at most the file's {} bytes", where,
          length, file_size);
  std::string text(length, '\0');
  in.read(text.data(), static_cast<std::streamsize>(length));
  require(in.good(), "{}: cannot read its header", where);
  const json header = json::parse(text, nullptr, /*allow_exceptions=*/false);
  require(header.is_object(), "{}: not a safetensors file: header is not a JSON object", where);

  SafeTensorsHeader result;
  result.data_offset = 8 + length;
  for (const auto& [name, value] : header.items()) {
    if (name != "__metadata__") {
      result.entries[name] =
          parse_entry(value, where + ": " + name, file_size - result.data_offset);
      continue;
    }
    require(value.is_object(), "{}: __metadata__ must be an object", where);
    for (const auto& [key, text_value] : value.items()) {
      require(text_value.is_string(), "{}: __metadata__.{} must be a string", where, key);
      result.metadata[key] = text_value.get<std::string>();
    }
  }
  return result;
}

SafeTensors read_safetensors(const fs::path& path) {
  const SafeTensorsHeader header = read_safetensors_header(path);
  SafeTensors content;
  content.metadata = header.metadata;
  std::ifstream in(path, std::ios::binary);
  for (const auto& [name, entry] : header.entries) {
    const Dtype dtype = dtype_by_name(entry.dtype, path.string());
    Tensor tensor = at::empty(entry.shape, at::TensorOptions().dtype(dtype.type));
    in.seekg(static_cast<std::streamoff>(header.data_offset + entry.begin));
    in.read(static_cast<char*>(tensor.data_ptr()),
            static_cast<std::streamsize>(entry.end - entry.begin));
    require(in.good(), "{}: cannot read tensor {}", path.string(), name);
    content.tensors[name] = tensor;
  }
  return content;
}

void write_safetensors(const fs::path& path, const SafeTensors& content) {
  json header = json::object();
  if (!content.metadata.empty()) header["__metadata__"] = content.metadata;
  std::vector<Tensor> ordered;
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : content.tensors) {
    ordered.push_back(tensor.detach().to(at::kCPU).contiguous());
    const std::uint64_t bytes = ordered.back().nbytes();
    header[name] = {{"dtype", dtype_of(tensor).name},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();

  PartialFile file(path);
  {
    std::ofstream out(file.path(), std::ios::binary);
    require(out.good(), "{}: cannot write: {}", path.string(), std::strerror(errno));
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (const Tensor& tensor : ordered) {
      out.write(static_cast<const char*>(tensor.data_ptr()),
                static_cast<std::streamsize>(tensor.nbytes()));
    }
    out.flush();
    require(out.good(), "{}: cannot write {} bytes: {}", path.string(), length + 8 + offset,
            std::strerror(errno));
  }
  file.commit();
}

}  // namespace slift
