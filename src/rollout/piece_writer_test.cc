#include "rollout/piece_writer.h"

#include <gtest/gtest.h>

#include <future>

#include "core/testing.h"

namespace slift {
namespace {

// A file of 6 members, 4 stored states, every 5 steps, two numbers each; its first is member 100.
class PieceWriterTest : public testing::Test {
 protected:
  PieceWriterTest() {
    info_.members = 6, info_.steps = 4, info_.state_shape = {2};
    writer_.emplace(folder_ / "x.h5", info_, "work");
  }
  // Numbers that tell member, state and component.
  static float number(std::int64_t member, std::int64_t step, std::int64_t c) {
    return static_cast<float>(100 * member + 10 * step + c);
  }
  static void fill(Piece& piece, std::int64_t first, std::int64_t count, std::int64_t step,
                   std::int64_t states) {
    piece.first = first, piece.count = count, piece.step = step, piece.states = states;
    float* to = piece.values.data_ptr<float>();
    for (std::int64_t m = first; m < first + count; ++m) {
      for (std::int64_t s = step; s < step + states; ++s) {
        for (const std::int64_t c : {0, 1}) *to++ = number(m, s, c);
      }
    }
  }
  void put(PieceWriter& pieces, std::int64_t first, std::int64_t count, std::int64_t step,
           std::int64_t states) const {
    Piece piece = pieces.take();
    fill(piece, first, count, step, states);
    pieces.put(std::move(piece));
  }
  PieceWriter::Setup setup() const {
    return {.state_size = 2, .capacity = 48, .first_member = 100, .every = 5};
  }

  TestFolder folder_;
  TrajectoryInfo info_;
  std::optional<TrajectoryWriter> writer_;
};

TEST_F(PieceWriterTest, WritesPiecesAndCountsWholeMembers) {
  const StateMap all = keep_all(info_);
  PieceWriter pieces(*writer_, all, setup());
  EXPECT_EQ(pieces.finished(), 0);
  for (const std::int64_t first : {0, 3}) {
    put(pieces, first, 3, 0, 3);
    pieces.finish();
    EXPECT_EQ(pieces.finished(), first);
    put(pieces, first, 3, 3, 1);
    pieces.finish();
    EXPECT_EQ(pieces.finished(), first + 3);
  }
  writer_->commit();
  std::vector<float> states(48);
  TrajectoryReader(folder_ / "x.h5").read(0, 6, states);
  for (std::int64_t i = 0; i < 48; ++i) {
    EXPECT_EQ(states[static_cast<std::size_t>(i)], number(i / 8, i / 2 % 4, i % 2)) << i;
  }
}

TEST_F(PieceWriterTest, WaitsForValuesAndMapsThem) {
  info_.state_shape = {1};
  writer_.reset();
  writer_.emplace(folder_ / "x.h5", info_, "work");
  const StateMap sums{{1}, {}, "", [](std::span<const float> state, std::span<float> kept) {
                        kept[0] = state[0] + 1000 * state[1];
                      }};
  PieceWriter pieces(*writer_, sums, setup());
  Piece piece = pieces.take();
  Piece late = piece;  // shares the values
  piece.first = 0, piece.count = 6, piece.step = 0, piece.states = 4;
  piece.wait = [&late] { fill(late, 0, 6, 0, 4); };
  pieces.put(std::move(piece));
  pieces.finish();
  writer_->commit();
  std::vector<float> states(24);
  TrajectoryReader(folder_ / "x.h5").read(0, 6, states);
  for (std::int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(states[static_cast<std::size_t>(i)],
              number(i / 4, i % 4, 0) + 1000 * number(i / 4, i % 4, 1))
        << i;
  }
}

TEST_F(PieceWriterTest, TheNextPiecesAreComputedWhileOneIsWritten) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  bool overlapped = false;
  StateMap slow = keep_all(info_);
  slow.apply = [&, copy = slow.apply](std::span<const float> state, std::span<float> kept) {
    overlapped |= released.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
    copy(state, kept);
  };
  PieceWriter pieces(*writer_, slow, setup());
  put(pieces, 0, 1, 0, 4);
  put(pieces, 1, 1, 0, 4);
  const Piece third = pieces.take();
  release.set_value();
  pieces.finish();
  EXPECT_TRUE(overlapped);
  EXPECT_EQ(pieces.finished(), 2);
}

TEST_F(PieceWriterTest, NamesMemberAndStepThatIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const StateMap all = keep_all(info_);
    PieceWriter pieces(*writer_, all, setup());
    Piece piece = pieces.take();
    fill(piece, 3, 3, 1, 3);
    piece.values.data_ptr<float>()[(1 * 3 + 2) * 2 + 1] = bad;  // member 3 + 1, stored state 1 + 2
    pieces.put(std::move(piece));
    try {
      pieces.finish();
      FAIL();
    } catch (const std::runtime_error& error) {
      const std::string expected = fmt::format("member 104 is {} at step 15;", bad);
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos) << error.what();
    }
    EXPECT_THROW(pieces.take(), std::runtime_error);
  }
}

TEST_F(PieceWriterTest, ErrorsOfTheWriterReachWhoTakesTheNextPiece) {
  const StateMap all = keep_all(info_);
  PieceWriter pieces(*writer_, all, setup());
  put(pieces, 5, 2, 0, 4);  // there is no member 6
  EXPECT_THROW(for (int i = 0; i < 10; ++i) put(pieces, 0, 1, 0, 4), std::logic_error);
}

TEST_F(PieceWriterTest, WhatWaitsIsDroppedAtTheEnd) {
  StateMap counting = keep_all(info_);
  std::atomic<int> mapped{0};
  counting.apply = [&](std::span<const float>, std::span<float>) {
    ++mapped;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  };
  {
    PieceWriter pieces(*writer_, counting, setup());
    put(pieces, 0, 1, 0, 4);
    put(pieces, 1, 1, 0, 4);
    put(pieces, 2, 1, 0, 4);
  }
  EXPECT_LE(mapped, 4);
}

}  // namespace
}  // namespace slift
