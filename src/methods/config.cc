#include "methods/config.h"

#include "methods/method.h"

namespace slift {

void MethodConfig::bind(ConfigSchema& s) {
  s.section("method", "How a step is learned and sampled");
  s.field("kind", &kind, Effect::kResults, "the method", one_of(method_names()));

  s.section("lifting", "The random label of each transition");
  s.field("dimension", &lifting.dimension, Effect::kResults,
          "label dimension d; 0: no label, the deterministic baseline", within(0, 65536));
  s.field("kind", &lifting.kind, Effect::kResults, "distribution of the labels",
          one_of({"gaussian", "sphere"}));
  s.field(
      "persistent", &lifting.persistent, Effect::kResults,
      "components of the label that belong to the trajectory and that a member keeps through its "
      "rollout; 0: the paper's labels. For systems whose randomness is frozen",
      within(0, 65536));
  s.field(
      "jitter", &lifting.jitter, Effect::kResults,
      "each visit of a transition sees its label moved by so many deviations, at random; 0: the "
      "paper's labels. For gaussian labels, against gaps between them",
      within(0, 100));
}

}  // namespace slift
