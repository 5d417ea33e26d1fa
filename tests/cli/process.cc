#include "process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

namespace slift::testing {
namespace {

constexpr int kMountFailed = 97;

std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  return content.str();
}

// In the child: everything that must hold before the program starts.
void prepare_child(const ProcessOptions& options) {
  for (const std::string& variable : options.environment) {
    const auto equals = variable.find('=');
    setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
  }
  if (!options.small_disk.empty()) {
    const bool own = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!own || mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", options.small_disk.c_str(), "tmpfs", 0, "size=256k") != 0) {
      _exit(kMountFailed);
    }
  }
  if (options.file_size_limit > 0) {
    const auto limit = static_cast<rlim_t>(options.file_size_limit);
    const rlimit bound = {limit, limit};
    setrlimit(RLIMIT_FSIZE, &bound);
    std::signal(SIGXFSZ, SIG_IGN);
  }
  if (options.without_root_rights && getuid() == 0) {
    // After exec root has only what the bounding set allows, so that file modes count.
    if (prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE) != 0 ||
        prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH) != 0) {
      _exit(98);
    }
  }
}

}  // namespace

ProcessResult run_slift(const std::vector<std::string>& arguments, const ProcessOptions& options) {
  static std::atomic<int> counter{0};
  const std::string stem =
      (std::filesystem::temp_directory_path() /
       ("slift-process-" + std::to_string(getpid()) + "-" + std::to_string(counter++)))
          .string();
  const std::string out = stem + ".out", err = stem + ".err";
  std::vector<std::string> words = {SLIFT_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const auto start = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child == 0) {
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, 0);
    const std::string& to = options.output.empty() ? out : options.output;
    dup2(open(to.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), 1);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666), 2);
    prepare_child(options);
    execv(argv[0], argv.data());
    _exit(99);
  }
  std::atomic<bool> ended{false};
  std::thread killer;
  if (options.kill_after_ms >= 0 || options.kill_when) {
    killer = std::thread([&] {
      const auto due = start + std::chrono::milliseconds(options.kill_after_ms);
      const auto wait = [&] {
        return options.kill_when ? !options.kill_when() : std::chrono::steady_clock::now() < due;
      };
      while (!ended && wait()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (!ended) kill(child, options.signal);
    });
  }
  int status = 0;
  rusage usage = {};
  wait4(child, &status, 0, &usage);
  ended = true;
  if (killer.joinable()) killer.join();

  ProcessResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.small_disk_mounted = !options.small_disk.empty() && result.exit_code != kMountFailed;
  result.peak_resident_kib = usage.ru_maxrss;
  result.out = slurp(out);
  result.err = slurp(err);
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return result;
}

}  // namespace slift::testing
