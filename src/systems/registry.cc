#include "core/errors.h"
#include "systems/duffing.h"
#include "systems/flow.h"
#include "systems/scene.h"
#include "systems/system.h"
#include "systems/wave.h"

namespace slift {

const std::vector<SystemEntry>& system_registry() {
  static const std::vector<SystemEntry> entries = {
      {"duffing", "noisy double-well oscillator, a 2-vector",
       [] { return std::make_unique<Duffing>(); }},
      {"wave",
       "a pulse in a random medium, a periodic field",
       [] { return std::make_unique<Wave>(); },
       {"grid=32", "stored_grid=8", "inner_dt=0.04", "end=2", "stored=6"}},
      {"flow",
       "water displacing oil in a random porous medium, a field",
       [] { return std::make_unique<Flow>(); },
       {"grid=16", "crop=2", "length=3", "dt=0.02", "stored=6"}},
      {"scene",
       "video of solid objects that enter, slide, collide and leave",
       [] { return std::make_unique<Scene>(); },
       {"size=16", "stored=3", "warmup=5", "arrival_rate=3"}},
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
