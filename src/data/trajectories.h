// Trajectories: the one type all stages exchange, and its HDF5 form (docs/formats.md).
//
// float32 states [members, steps, n] (vectors) or [members, steps, C, H, W] (fields), row-major.
// Both directions work in pieces of whole trajectories: no stage needs a data set in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/atomic_file.h"
#include "core/file_lock.h"
#include "core/interrupt.h"
#include "data/journal.h"

namespace slift {

struct TrajectoryInfo {
  std::int64_t members = 0;
  std::int64_t steps = 0;                 // stored states of one trajectory
  std::vector<std::int64_t> state_shape;  // {n} or {C, H, W}
  double dt = 1;                          // time between stored states
  std::string system = "unknown";
  std::string boundary = "none";  // "none" or "periodic"
  std::uint64_t seed = 0;
  std::vector<std::string> fields;  // names of the components or channels; may be empty

  // Of rollouts. Numbers computed from the states may be stored in their place; `record` is JSON
  // that says what they are, empty for states. Member i of the file is member first_member + i of
  // its ensemble; members j with the same j / branches share their initial state.
  std::string record;
  std::int64_t first_member = 0;
  std::int64_t branches = 1;

  // What a trajectory has once and for all steps, such as a speed or permeability field: {C, H, W},
  // empty if there is none.
  std::vector<std::int64_t> media_shape;
  std::vector<std::string> media_fields;

  bool is_vector() const { return state_shape.size() == 1; }
  std::int64_t channels() const { return state_shape.front(); }
  std::int64_t state_size() const;
  std::int64_t media_size() const;  // 0 if there are none
  std::int64_t trajectory_size() const { return steps * state_size(); }
  std::int64_t transitions() const { return members * (steps - 1); }
  std::string describe_shape() const;            // "512 x 71 x 2"
  std::vector<std::string> field_names() const;  // `fields`, or x1, x2, ... if they have no names
  bool operator==(const TrajectoryInfo&) const = default;
};

// Reads a trajectory file. Throws UserError naming the file if it is missing, truncated, of
// another kind, or has the wrong rank or type. One thread at a time may use a reader; several
// readers may be used at once.
class TrajectoryReader {
 public:
  explicit TrajectoryReader(const std::filesystem::path& path);
  ~TrajectoryReader();
  TrajectoryReader(TrajectoryReader&&) noexcept;

  const TrajectoryInfo& info() const { return info_; }
  const std::string& path() const { return path_; }

  // Whole trajectories first .. first+count-1 into out[count * trajectory_size()].
  void read(std::int64_t first, std::int64_t count, std::span<float> out) const;
  // The same, of states step .. step+states-1 only.
  void read_steps(std::int64_t first, std::int64_t count, std::int64_t step, std::int64_t states,
                  std::span<float> out) const;
  // The media of trajectories first .. first+count-1 into out[count * media_size()].
  void read_media(std::int64_t first, std::int64_t count, std::span<float> out) const;

 private:
  struct File;
  std::unique_ptr<File> file_;
  TrajectoryInfo info_;
  std::string path_;
};

// Writes a trajectory file that appears under its name only with commit(). Until then, and after a
// failure, nothing is at `path` but what was there before.
//
// HDF5 makes the file, at its full size, and is done with it: its data sets are contiguous, and
// values go straight to their places. Hence the bytes of a file depend on `info` and the values
// alone, not on the order and size of the pieces, and a process may be killed at any time without
// harm to what it wrote. One thread at a time may use a writer; others may use HDF5 meanwhile.
class TrajectoryWriter {
 public:
  // `work` is a text that says what the values will follow from. If an earlier writer with the same
  // path, info and work recorded progress and was killed or kept, this one goes on from there;
  // otherwise, and always without `work`, it starts anew. Throws UserError if another writes there.
  TrajectoryWriter(const std::filesystem::path& path, TrajectoryInfo info, std::string work = {});
  ~TrajectoryWriter();

  const TrajectoryInfo& info() const { return info_; }

  // Whole trajectories first .. first+count-1 from states[count * trajectory_size()].
  void write(std::int64_t first, std::int64_t count, std::span<const float> states);
  // The same, of their states step .. step+steps-1 only.
  void write_steps(std::int64_t first, std::int64_t count, std::int64_t step, std::int64_t steps,
                   std::span<const float> states);
  void write_media(std::int64_t first, std::int64_t count, std::span<const float> media);
  void commit();

  // The trajectories 0 .. recorded()-1 are whole, an earlier writer's included.
  std::int64_t recorded() const { return journal_.done(); }
  // Says that the trajectories 0 .. members-1 are whole; when it returns, they and this fact
  // survive the end of the process or the machine. Needs `work`.
  void record(std::int64_t members);
  // What has been recorded outlives this writer, for another to go on with.
  void keep();

 private:
  void create() const;
  bool continues_earlier() const;
  void write_at(std::int64_t place, std::span<const float> values, std::int64_t first,
                std::int64_t count);

  TrajectoryInfo info_;
  FileLock lock_;
  PartialFile partial_;
  Journal journal_;
  int descriptor_ = -1;
  std::int64_t states_at_ = 0, media_at_ = 0;  // where the data sets begin in the file, bytes
  bool kept_ = false;
};

// How many whole trajectories fit in `bytes`, at least 1 and at most `members`.
std::int64_t members_within(const TrajectoryInfo& info, std::int64_t bytes);

// Calls visit(first, count, states) for all trajectories below `members`, in pieces of about
// 32 MiB. Throws Interrupted between two pieces after a signal; what fits in one piece is read.
template <typename Visit>
void for_each_chunk(const TrajectoryReader& reader, std::int64_t members, const Visit& visit) {
  const TrajectoryInfo& info = reader.info();
  const std::int64_t chunk = members_within(info, 32 << 20);
  std::vector<float> buffer;
  for (std::int64_t first = 0; first < members; first += chunk) {
    if (first > 0 && interrupt_requested()) throw Interrupted(reader.path() + ": reading stopped");
    const std::int64_t count = std::min(chunk, members - first);
    buffer.resize(static_cast<std::size_t>(count * info.trajectory_size()));
    reader.read(first, count, buffer);
    visit(first, count, std::span<const float>(buffer));
  }
}

}  // namespace slift
