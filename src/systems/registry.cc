#include "core/errors.h"
#include "systems/duffing.h"
#include "systems/flow.h"
#include "systems/system.h"

namespace slift {

const std::vector<SystemEntry>& system_registry() {
  static const std::vector<SystemEntry> entries = {
      {"duffing", "noisy double-well oscillator, a 2-vector",
       [] { return std::make_unique<Duffing>(); }},
      {"flow",
       "water displacing oil in a random porous medium, 1 x 96 x 96",
       [] { return std::make_unique<Flow>(); },
       {"grid=16", "crop=2", "length=3", "dt=0.02", "stored=6"}},
  };
  return entries;
}

std::unique_ptr<System> make_system(const std::string& name) {
  std::vector<std::string> names;
  for (const SystemEntry& entry : system_registry()) {
    if (entry.name == name) return entry.make();
    names.push_back(entry.name);
  }
  fail("unknown system {}; the nearest is {}", name, nearest_name(name, names));
}

}  // namespace slift
