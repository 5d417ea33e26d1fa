// SIGINT and SIGTERM ask long work to stop at its next safe point, where it leaves a checkpoint.
// A second signal ends the process at once.
#pragma once

#include <stdexcept>

namespace slift {

// Thrown at a safe point once the work has been saved; the program exits with 130.
class Interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

void install_interrupt_handlers();
bool interrupt_requested();

}  // namespace slift
