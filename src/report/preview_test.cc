#include "report/preview.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "core/atomic_file.h"
#include "core/testing.h"
#include "report/testing.h"
#include "report/text.h"

namespace slift {
namespace {

namespace fs = std::filesystem;

constexpr Rgb kWhite = {255, 255, 255};
constexpr int kTop = 22;  // the strip of labels: a gap, 14 pixels of text, a gap
constexpr int kGap = 4, kMediaGap = 16;

class PreviewTest : public ::testing::Test {
 protected:
  // The value of a state's component, given member, step and index in the state.
  using Value = std::function<double(std::int64_t, std::int64_t, std::int64_t)>;

  TrajectoryReader write(TrajectoryInfo info, const Value& state,
                         const Value& medium = nullptr) const {
    std::vector<float> states, media;
    for (std::int64_t m = 0; m < info.members; ++m) {
      for (std::int64_t t = 0; t < info.steps; ++t) {
        for (std::int64_t i = 0; i < info.state_size(); ++i) {
          states.push_back(static_cast<float>(state(m, t, i)));
        }
      }
      for (std::int64_t i = 0; i < info.media_size(); ++i) {
        media.push_back(static_cast<float>(medium(m, 0, i)));
      }
    }
    TrajectoryWriter writer(file_, info);
    writer.write(0, info.members, states);
    if (medium) writer.write_media(0, info.members, media);
    writer.commit();
    return TrajectoryReader(file_);
  }

  static TrajectoryInfo shape(std::int64_t members, std::int64_t steps,
                              std::vector<std::int64_t> state,
                              std::vector<std::int64_t> media = {}) {
    TrajectoryInfo info;
    info.members = members, info.steps = steps, info.dt = 0.5;
    info.state_shape = std::move(state), info.media_shape = std::move(media);
    return info;
  }

  TestFolder folder_;
  fs::path file_ = folder_ / "x.h5";
};

// Rows of 4 x 8 cells whose values fill [0, 1]: one cell is 1, one 0, and the others tell member
// and step.
double marked(std::int64_t member, std::int64_t step, std::int64_t cell) {
  const std::int64_t mark = (3 * member + step) % 32;
  if (cell == mark) return 1;
  if (cell == (mark + 1) % 32) return 0;
  return 0.1 + 0.1 * static_cast<double>(member) + 0.01 * static_cast<double>(step);
}

// Each of the 4 x 8 cells of `state` as a square of 16 pixels.
Image marked_picture(std::int64_t member, std::int64_t step) {
  Image image(128, 64);
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 128; ++x) {
      const auto value = static_cast<float>(marked(member, step, y / 16 * 8 + x / 16));
      image.at(x, y) = colour_of(ColourMap::kSequential, value);
    }
  }
  return image;
}

TEST_F(PreviewTest, SheetHasMembersInRowsAndTimesInColumns) {
  const Image sheet = draw_sheet(write(shape(6, 9, {1, 4, 8}), marked));
  Image expected(kGap + 8 * (128 + kGap), kTop + 4 * (64 + kGap));
  const std::vector<std::int64_t> steps = {0, 1, 2, 3, 5, 6, 7, 8};
  const std::vector<std::string> labels = {"t = 0.0", "t = 0.5", "t = 1.0", "t = 1.5",
                                           "t = 2.5", "t = 3.0", "t = 3.5", "t = 4.0"};
  for (int column = 0; column < 8; ++column) {
    const int x = kGap + column * (128 + kGap);
    const auto c = static_cast<std::size_t>(column);
    draw_text(expected, x, kGap, labels[c], 2, {60, 60, 60});
    for (int row = 0; row < 4; ++row) {
      paste(expected, marked_picture(row, steps[c]), x, kTop + row * (64 + kGap));
    }
  }
  EXPECT_EQ(differing_pixels(sheet, expected), 0);
}

TEST_F(PreviewTest, SheetIsAsLargeAsTheFileOrTheOptionsAllow) {
  const TrajectoryReader reader = write(shape(2, 3, {1, 4, 8}), marked);
  const Image sheet = draw_sheet(reader);
  EXPECT_EQ(sheet.width(), kGap + 3 * (128 + kGap));
  EXPECT_EQ(sheet.height(), kTop + 2 * (64 + kGap));
  const Image one = draw_sheet(reader, {.members = 1, .times = 1});
  EXPECT_EQ(differing_pixels(cut_out(one, kGap, kTop, 128, 64), marked_picture(0, 0)), 0);
  EXPECT_EQ(one.width(), kGap + 128 + kGap);
  EXPECT_EQ(one.height(), kTop + 64 + kGap);
}

TEST_F(PreviewTest, MediaStandOnTheLeftInTheirOwnColours) {
  // Media of 2 x 2 cells: 10, 20, 30 and 50 in every member.
  const auto medium = [](auto, auto, std::int64_t i) {
    return i == 3 ? 50 : 10.0 + 10 * double(i);
  };
  const Image sheet = draw_sheet(write(shape(5, 9, {1, 4, 8}, {1, 2, 2}), marked, medium));
  const int left = kGap + 128 + kMediaGap;
  ASSERT_EQ(sheet.width(), left + 8 * (128 + kGap));
  ASSERT_EQ(sheet.height(), kTop + 4 * (128 + kGap));
  const Image square = cut_out(sheet, kGap, kTop + 3 * (128 + kGap), 128, 128);
  const double positions[] = {0, 0.25, 0.5, 1};
  for (int i = 0; i < 4; ++i) {
    const Image quarter(64, 64, colour_of(ColourMap::kSequential, positions[i]));
    EXPECT_EQ(differing_pixels(cut_out(square, i % 2 * 64, i / 2 * 64, 64, 64), quarter), 0) << i;
  }
  const Image between = cut_out(sheet, kGap + 128, 0, kMediaGap, sheet.height());
  EXPECT_EQ(differing_pixels(between, Image(kMediaGap, sheet.height())), 0);
  const Image state = cut_out(sheet, left, kTop + 128 + kGap, 128, 64);
  EXPECT_EQ(differing_pixels(state, marked_picture(1, 0)), 0);
  Image label(128, 14);
  draw_text(label, 0, 0, "medium", 2, {60, 60, 60});
  EXPECT_EQ(differing_pixels(cut_out(sheet, kGap, kGap, 128, 14), label), 0);
}

TEST_F(PreviewTest, MediaOfManyDecadesAreShownByTheirLogarithm) {
  const auto medium = [](auto, auto, std::int64_t i) { return std::pow(10.0, 4 * double(i)); };
  const Image sheet = draw_sheet(write(shape(1, 2, {1, 4, 8}, {1, 1, 3}), marked, medium));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sheet.at(kGap + 43 * i + 20, kTop), colour_of(ColourMap::kSequential, 0.5 * i)) << i;
  }
}

// Cells 0 and 1 are -1 and 0.5 at all times; the first state also has a 9.
double burst(std::int64_t, std::int64_t step, std::int64_t cell) {
  return cell == 0 ? -1 : cell == 1 ? 0.5 : step == 0 ? 9 : 0;
}

TEST_F(PreviewTest, ABurstDoesNotMakeTheRestPale) {
  const Image sheet = draw_sheet(write(shape(2, 8, {1, 1, 4}), burst));
  for (int column = 0; column < 8; ++column) {
    const int x = kGap + column * (128 + kGap) + 16;
    EXPECT_EQ(sheet.at(x, kTop), colour_of(ColourMap::kDiverging, 0)) << column;
    EXPECT_EQ(sheet.at(x + 32, kTop), colour_of(ColourMap::kDiverging, 0.75)) << column;
    EXPECT_EQ(sheet.at(x + 64, kTop), colour_of(ColourMap::kDiverging, column == 0 ? 1 : 0.5));
  }
}

TEST_F(PreviewTest, ABurstIsShownWhereNothingElseHappens) {
  const auto late = [](auto, std::int64_t t, std::int64_t i) {
    return t == 7 ? 0.25 * double(i) : 0;
  };
  const Image sheet = draw_sheet(write(shape(2, 8, {1, 1, 5}), late));
  const int x = kGap + 7 * (130 + kGap);  // five cells of 26 pixels
  EXPECT_EQ(sheet.at(kGap, kTop), colour_of(ColourMap::kSequential, 0));
  EXPECT_EQ(sheet.at(x + 26, kTop), colour_of(ColourMap::kSequential, 0.25));
  EXPECT_EQ(sheet.at(x + 104, kTop), colour_of(ColourMap::kSequential, 1));
}

TEST_F(PreviewTest, ThreeChannelsAreColours) {
  const auto value = [](std::int64_t m, std::int64_t t, std::int64_t i) {
    return i / 4 == m ? 1 : i / 4 == 2 && t == 1 ? 0.2 : 0;
  };
  const Image sheet = draw_sheet(write(shape(2, 2, {3, 2, 2}), value));
  const int right = kGap + 128 + kGap, below = kTop + 128 + kGap;
  EXPECT_EQ(sheet.at(kGap, kTop), (Rgb{255, 0, 0}));
  EXPECT_EQ(sheet.at(right, kTop), (Rgb{255, 0, 51}));
  EXPECT_EQ(sheet.at(kGap, below), (Rgb{0, 255, 0}));
  EXPECT_EQ(sheet.at(right + 127, below + 127), (Rgb{0, 255, 51}));
}

TEST_F(PreviewTest, LargeFieldsAreShrunkAndNarrowOnesKeepTheirPlace) {
  const auto zero = [](auto, auto, auto) { return 0.0; };
  const Image large = draw_sheet(write(shape(1, 2, {1, 300, 600}), zero));
  EXPECT_EQ(large.width(), kGap + 2 * (200 + kGap));
  EXPECT_EQ(large.height(), kTop + 100 + kGap);
  const Image narrow = draw_sheet(write(shape(1, 2, {1, 64, 4}), zero));
  EXPECT_EQ(narrow.width(), kGap + 2 * (128 + kGap));
  EXPECT_EQ(narrow.at(kGap + 7, kTop), colour_of(ColourMap::kSequential, 0.5));
  EXPECT_EQ(narrow.at(kGap + 8, kTop), kWhite);
}

// Two members stay at the corners of [0, 7]^2, the third walks down the diagonal; a third component
// is not shown.
double walk(std::int64_t member, std::int64_t step, std::int64_t component) {
  if (component == 2) return 1000;
  if (member < 2) return 7 * double(member);
  return double(component == 0 ? step : 7 - step);
}

TEST_F(PreviewTest, VectorsAreCloudsInOneRow) {
  const Image sheet = draw_sheet(write(shape(3, 8, {3}), walk));
  ASSERT_EQ(sheet.width(), kGap + 8 * (144 + kGap));
  ASSERT_EQ(sheet.height(), kTop + 144 + kGap);
  const auto bin = [](double value) { return static_cast<int>((value + 0.42) / 7.84 * 72); };
  for (int t = 0; t < 8; ++t) {
    const Image cloud = cut_out(sheet, kGap + t * (144 + kGap), kTop, 144, 144);
    int inked = 0;
    for (int y = 0; y < 72; ++y) {
      for (int x = 0; x < 72; ++x) {
        inked += cloud.at(2 * x, 2 * y) == colour_of(ColourMap::kSequential, 0) ? 1 : 0;
      }
    }
    EXPECT_EQ(inked, 3);
    EXPECT_EQ(cloud.at(2 * bin(t), 2 * (71 - bin(7 - t))), colour_of(ColourMap::kSequential, 0));
    EXPECT_EQ(cloud.at(2 * bin(7), 2 * (71 - bin(7))), colour_of(ColourMap::kSequential, 0));
    EXPECT_EQ(cloud.at(0, 72), (Rgb{214, 214, 214}));  // the outline
    EXPECT_EQ(cloud.at(143, 143), (Rgb{214, 214, 214}));
  }
}

TEST_F(PreviewTest, CloudsReadAtMost4096Members) {
  const auto value = [](std::int64_t m, std::int64_t t, std::int64_t i) {
    return m >= 4096 ? 1e6 : std::sin(double(3 * m + 5 * t + i));
  };
  const Image all = draw_sheet(write(shape(4100, 2, {2}), value));
  const Image first = draw_sheet(write(shape(4096, 2, {2}), value));
  EXPECT_EQ(differing_pixels(all, first), 0);
}

TEST_F(PreviewTest, ASingleComponentNeedsTwoStates) {
  const TrajectoryReader two = write(shape(3, 2, {1}), walk);
  EXPECT_EQ(draw_sheet(two).width(), kGap + 144 + kGap);  // one column: step 1 against step 0
  EXPECT_EQ(frames_of(encode_animation(two)).size(), 1U);
  const TrajectoryReader one = write(shape(3, 1, {1}), walk);
  for (const std::string& message :
       {error_of([&] { draw_sheet(one); }), error_of([&] { encode_animation(one); })}) {
    EXPECT_NE(message.find("x.h5: a single state of a single component"), std::string::npos)
        << message;
  }
}

TEST_F(PreviewTest, AnimationShowsEveryStateOfEightMembers) {
  const TrajectoryReader reader = write(shape(9, 5, {1, 4, 8}, {1, 2, 2}), marked, marked);
  const std::vector<Image> frames = frames_of(encode_animation(reader));
  ASSERT_EQ(frames.size(), 5U);
  for (int t = 0; t < 5; ++t) {
    Image expected(kGap + 4 * (128 + kGap), kTop + 2 * (64 + kGap));
    draw_text(expected, kGap, kGap,
              std::vector{"t = 0.0", "t = 0.5", "t = 1.0", "t = 1.5",
                          "t = 2.0"}[static_cast<std::size_t>(t)],
              2, {60, 60, 60});
    for (int m = 0; m < 8; ++m) {
      paste(expected, marked_picture(m, t), kGap + m % 4 * (128 + kGap),
            kTop + m / 4 * (64 + kGap));
    }
    EXPECT_EQ(differing_pixels(frames[static_cast<std::size_t>(t)], expected), 0) << t;
  }
}

TEST_F(PreviewTest, AnimationIsThinnedToItsOptions) {
  const TrajectoryReader reader = write(shape(3, 9, {1, 4, 8}), marked);
  const std::string bytes =
      encode_animation(reader, {.members = 1, .max_frames = 3, .frames_per_second = 24});
  const std::vector<Image> frames = frames_of(bytes);
  ASSERT_EQ(frames.size(), 3U);
  EXPECT_EQ(frames[0].width(), kGap + 128 + kGap);
  for (const std::int64_t i : {0, 1, 2}) {
    const Image cell = cut_out(frames[static_cast<std::size_t>(i)], kGap, kTop, 128, 64);
    EXPECT_EQ(differing_pixels(cell, marked_picture(0, 4 * i)), 0) << i;
  }
  EXPECT_EQ(chunks_of(bytes)[2].number(22, 2), 24U);
  EXPECT_EQ(chunks_of(encode_animation(reader))[2].number(22, 2), 15U);
}

TEST_F(PreviewTest, AnimationOfVectorsIsOneCloud) {
  const std::vector<Image> frames = frames_of(encode_animation(write(shape(3, 8, {3}), walk)));
  ASSERT_EQ(frames.size(), 8U);
  ASSERT_EQ(frames[0].width(), kGap + 432 + kGap);
  const auto bin = [](double value) { return static_cast<int>((value + 0.42) / 7.84 * 72); };
  for (int t = 0; t < 8; ++t) {
    EXPECT_EQ(frames[static_cast<std::size_t>(t)].at(kGap + 6 * bin(t) + 1,
                                                     kTop + 6 * (71 - bin(7 - t)) + 1),
              colour_of(ColourMap::kSequential, 0));
  }
}

TEST_F(PreviewTest, TheEndingChoosesTheKind) {
  const TrajectoryReader reader = write(shape(2, 3, {1, 4, 8}), marked);
  write_preview(file_, folder_ / "a.png");
  write_preview(file_, folder_ / "new" / "a.apng");
  EXPECT_EQ(differing_pixels(decode_png(read_file(folder_ / "a.png")), draw_sheet(reader)), 0);
  EXPECT_EQ(read_file(folder_ / "new" / "a.apng"), encode_animation(reader));
}

TEST_F(PreviewTest, BadPathsAreNamedAndLeaveNothing) {
  write(shape(2, 3, {1, 4, 8}), marked);
  fs::create_directory(folder_ / "folder.png");
  fs::copy_file(file_, folder_ / "data.png");
  const auto before = folder_.files();
  const auto error = [&](const fs::path& trajectories, const fs::path& preview) {
    return error_of([&] { write_preview(trajectories, preview); });
  };
  const std::string ending = error(file_, folder_ / "a.gif");
  EXPECT_NE(ending.find("a.gif: a preview must end in .png"), std::string::npos) << ending;
  EXPECT_NE(error(file_, folder_ / "png").find("must end in"), std::string::npos);
  const std::string is_folder = error(file_, folder_ / "folder.png");
  EXPECT_NE(is_folder.find("folder.png: is a folder"), std::string::npos) << is_folder;
  const std::string itself =
      error(folder_ / "data.png", folder_ / "folder.png" / ".." / "data.png");
  EXPECT_NE(itself.find("must not replace"), std::string::npos) << itself;
  const std::string missing = error(folder_ / "none.h5", folder_ / "a.png");
  EXPECT_NE(missing.find("none.h5"), std::string::npos) << missing;
  EXPECT_EQ(folder_.files(), before);
}

}  // namespace
}  // namespace slift
