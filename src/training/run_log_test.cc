#include "training/run_log.h"

#include <gtest/gtest.h>

#include "core/atomic_file.h"
#include "core/testing.h"

namespace slift {
namespace {

TEST(RunLog, GoesOnFromTheBytesThatACheckpointCounted) {
  const TestFolder run;
  std::uint64_t counted = 0;
  {
    RunLog log(run.path(), 0);
    log.write({{"step", 1}, {"loss", 0.5}});
    log.sync();
    counted = log.bytes();
    log.write({{"step", 2}, {"loss", 0.25}});
  }
  RunLog log(run.path(), counted);
  EXPECT_EQ(log.bytes(), counted);
  log.write({{"step", 2}, {"loss", 0.125}});
  EXPECT_EQ(read_file(run / "metrics.jsonl"),
            "{\"loss\":0.5,\"step\":1}\n{\"loss\":0.125,\"step\":2}\n");
}

TEST(RunLog, ErrorsNameTheFile) {
  const TestFolder run;
  const std::string file = (run / "metrics.jsonl").string();
  EXPECT_NE(error_of([&] { RunLog(run.path(), 1); }).find(file + ": is shorter"),
            std::string::npos);
  RunLog log(run.path(), 0);
  std::filesystem::remove(file);
  EXPECT_NE(error_of([&] { log.sync(); }).find(file), std::string::npos);
}

}  // namespace
}  // namespace slift
