#include "core/interrupt.h"

#include <csignal>

namespace slift {
namespace {

volatile std::sig_atomic_t g_requested = 0;

void on_signal(int) { g_requested = 1; }

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);  // the second signal has its default effect
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupt_requested() { return g_requested != 0; }

}  // namespace slift
