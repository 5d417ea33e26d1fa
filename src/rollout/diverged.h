// A state of a rollout is not finite: the model's fault, not the machine's.
#pragma once

#include <stdexcept>

namespace slift {

class Diverged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace slift
