// SIGINT and SIGTERM stop commands that write no checkpoints, too: exit 130, nothing half-written.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "fixture.h"

namespace slift::testing {
namespace {

namespace fs = std::filesystem;

class InterruptTest : public CliTest {
 protected:
  // Hands the program its quantities through a pipe: once it has opened that, its signal handlers
  // are installed and the work is still to be done.
  static ProcessResult interrupt_as_it_reads(std::vector<std::string> arguments, int signal) {
    const std::string pipe = path("quantities.fifo");
    fs::remove(pipe);
    EXPECT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    arguments.insert(arguments.end(), {"--quantities", pipe, "-q"});
    ProcessOptions options;
    options.signal = signal;
    options.kill_when = [&] {
      const int end = open(pipe.c_str(), O_WRONLY | O_NONBLOCK);  // fails before there is a reader
      if (end < 0) return false;
      const char* text = "[[quantity]]\nname = \"mean\"\n";
      EXPECT_EQ(write_to(end, text), std::strlen(text));
      close(end);
      return true;
    };
    return run_slift(arguments, options);
  }

 private:
  static std::size_t write_to(int end, const char* text) {
    return static_cast<std::size_t>(::write(end, text, std::strlen(text)));
  }
};

TEST_F(InterruptTest, EvaluateStops) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto r = interrupt_as_it_reads(
        {"evaluate", path("train.h5"), "--truth", path("test.h5"), "-o", path("e.json")}, signal);
    EXPECT_EQ(r.exit_code, 130) << r.err;
    EXPECT_NE(r.err.find("slift: evaluation stopped"), std::string::npos) << r.err;
    EXPECT_EQ(r.out, "");
    EXPECT_FALSE(fs::exists(path("e.json")));
  }
}

TEST_F(InterruptTest, CompareStops) {
  const auto r = interrupt_as_it_reads(
      {"compare", path("train.h5"), "--truth", path("test.h5"), "-o", path("c")}, SIGINT);
  EXPECT_EQ(r.exit_code, 130) << r.err;
  EXPECT_FALSE(fs::exists(path("c")));
}

TEST_F(InterruptTest, ImportStops) {
  // So many sources that the signal comes long before the last.
  std::vector<std::string> arguments = {"import", "--dataset", "/states", "-q", "-o", path("i.h5")};
  arguments.insert(arguments.end(), 4000, path("train.h5"));
  ProcessOptions options;
  options.signal = SIGINT;
  options.kill_when = [] { return fs::exists(path("i.h5.partial")); };
  const auto r = run_slift(arguments, options);
  EXPECT_EQ(r.exit_code, 130) << r.err;
  EXPECT_NE(r.err.find("import stopped"), std::string::npos) << r.err;
  EXPECT_FALSE(fs::exists(path("i.h5")));
  EXPECT_FALSE(fs::exists(path("i.h5.partial")));
}

}  // namespace
}  // namespace slift::testing
