// The safetensors container: u64 header length, JSON header, raw little-endian tensors.
//
// Reading validates everything before any memory is allocated for tensors: a hostile file gives a
// UserError that names the file and the broken rule.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "tensor/torch_compat.h"

namespace slift {

struct SafeTensors {
  std::map<std::string, Tensor> tensors;  // on the CPU; float32, float64, int64 or uint8
  std::map<std::string, std::string> metadata;

  // The tensor called `name`; UserError naming `source` if there is none.
  const Tensor& at(const std::string& name, const std::string& source) const;
};

SafeTensors read_safetensors(const std::filesystem::path& path);

// What the header says, without reading tensors: metadata and (dtype, shape) by name.
struct SafeTensorsHeader {
  struct Entry {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin, end;  // bytes after the header
  };
  std::map<std::string, Entry> entries;
  std::map<std::string, std::string> metadata;
  std::uint64_t data_offset = 0;  // of the first tensor byte in the file
};

SafeTensorsHeader read_safetensors_header(const std::filesystem::path& path);

// Writes atomically; the same content always gives the same bytes.
void write_safetensors(const std::filesystem::path& path, const SafeTensors& content);

}  // namespace slift
